# SPDX-License-Identifier: Apache-2.0
"""Where quotas are counted: beside the jobs."""

from __future__ import annotations

from docparser.clients.usage import FILE, UsageLedger
from docparser.settings import Settings


def ledger_of(settings: Settings) -> UsageLedger:
    """Raises NotReady if PARSER_DATABASE_URL cannot be read."""
    if settings.database_url:
        from docparser.clients.shared_usage import SharedUsage  # psycopg is loaded only where it is used

        return SharedUsage(settings.database_url)
    return UsageLedger(settings.data_dir.expanduser().absolute() / FILE)
