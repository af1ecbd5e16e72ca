# SPDX-License-Identifier: Apache-2.0
"""Names in .env and the environment that nothing reads, and values that no service would take."""

from __future__ import annotations

from collections.abc import Iterator

import declared_settings
from bundle.preflight.machine import Finding, Machine, passed
from env_values import WrongValue

REMEDY = "mend it in .env or in the environment (docs/settings.md)"


def check_settings(machine: Machine) -> Iterator[Finding]:
    """The values are those of the table; the parser checks its own when it starts."""
    found = [
        Finding("FAIL", "settings", line, "a name of docs/settings.md", REMEDY)
        for line in declared_settings.unknown(machine.values)
    ]
    for name in declared_settings.DECLARED:
        try:
            declared_settings.check(machine.values, name)
        except WrongValue as error:
            found.append(Finding("FAIL", "settings", f"{name} is {error.value!r}", error.expected, REMEDY))
    yield from found or [passed("settings", "no unknown name and no wrong value")]


CHECKS = (check_settings,)
