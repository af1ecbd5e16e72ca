# SPDX-License-Identifier: Apache-2.0
"""scripts/preflight.sh: PASS, WARN or FAIL for each thing that the bundle needs of a machine, with the remedy."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Iterator

from bundle.paths import VALUES
from bundle.preflight import driver, engine, host, npu, reach, weights
from bundle.preflight.machine import AS_ROOT, KINDS, Finding, Machine
from tool_errors import run


def findings(machine: Machine) -> Iterator[Finding]:
    """Yield all findings in the order in which they should be mended; with an unknown HARDWARE, that one alone.

    A check ends where this user may not look: what is behind that is neither there nor missing.
    """
    if machine.hardware not in KINDS:
        yield Finding(
            "FAIL", "HARDWARE", f"HARDWARE is {machine.hardware!r}", " or ".join(KINDS), "set HARDWARE in .env"
        )
        return
    own = (*driver.CHECKS, *npu.CHECKS) if machine.hardware == "ascend" else ()
    groups = (host.CHECKS, own, engine.CHECKS, reach.CHECKS, weights.CHECKS)
    for group in groups:
        for check in group:
            try:
                yield from check(machine)
            except PermissionError as error:
                yield Finding(
                    "WARN",
                    check.__name__.removeprefix("check_"),
                    f"this user may not look at {error.filename}",
                    "a user who may, to check it",
                    AS_ROOT,
                )


def show(finding: Finding) -> str:
    line = f"{finding.level}  {finding.check}: {finding.found}"
    return line + (f"\n      needed: {finding.needed}\n      do:     {finding.remedy}" if finding.needed else "")


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="scripts/preflight.sh", description="Check this machine; changes nothing.")
    parser.add_argument("--hardware", choices=KINDS, help="default: HARDWARE of .env, else ascend")
    parser.add_argument("--json", action="store_true", help="one JSON list instead of lines")
    options = parser.parse_args(words)
    found = list(findings(Machine(VALUES | ({"HARDWARE": options.hardware} if options.hardware else {}))))
    if options.json:
        print(json.dumps([dataclasses.asdict(finding) for finding in found], indent=1))
    else:
        print("\n".join(map(show, found)))
        counts = {level: sum(finding.level == level for finding in found) for level in ("PASS", "WARN", "FAIL")}
        print(", ".join(f"{count} {level}" for level, count in counts.items()))
    return 1 if any(finding.level == "FAIL" for finding in found) else 0


if __name__ == "__main__":
    sys.exit(run(lambda: main(sys.argv[1:])))
