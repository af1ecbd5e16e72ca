# SPDX-License-Identifier: Apache-2.0
"""Names in .env and the environment that nothing reads, and values that no service would take."""

from __future__ import annotations

from collections.abc import Iterator

import declared_settings
from bundle.preflight.machine import Finding, Machine, passed

REMEDY = "fix it in .env or in the environment (docs/settings.md)"


def check_settings(machine: Machine) -> Iterator[Finding]:
    """What each container checks before it starts anything."""
    found = [
        Finding("FAIL", "settings", line, "a name of docs/settings.md", REMEDY)
        for line in declared_settings.unknown(machine.values)
    ]
    found += [
        Finding("FAIL", "settings", f"{error.name} is {error.value!r}", error.expected, REMEDY)
        for error in declared_settings.wrong(machine.values)
    ]
    yield from found or [passed("settings", "no unknown name and no wrong value")]


CHECKS = (check_settings,)
