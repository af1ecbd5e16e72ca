# SPDX-License-Identifier: Apache-2.0
"""What `npu-smi info` prints, as values. Read from reports of versions 25.2 (310P, A2, A3); column widths may grow."""

from __future__ import annotations

import re
from dataclasses import dataclass

VERSION = re.compile(r"npu-smi\s+(\S+)")
A2_NAME = re.compile(r"910B\d")
PROCESS_HEADER = "Process id"


@dataclass(frozen=True)
class Die:
    """One chip of an NPU. `number` is N in /dev/davinciN; memory in MB, None where the table has no such column."""

    npu: int
    number: int
    name: str
    generation: str
    healthy: bool
    memory_used: int | None
    memory_total: int | None


@dataclass(frozen=True)
class Report:
    """`busy` holds numbers (npu, chip) of the dies with processes on them."""

    version: str
    dies: tuple[Die, ...]
    busy: frozenset[tuple[int, int]]


def generation(name: str, header: str) -> str:
    """A3, A2, 310P, or the name itself where it is none of these.

    An A3 is called `Ascend910` and its table has a column Phy-ID; `910B1` to `910B4` are A2, whatever the digit.
    """
    if A2_NAME.search(name):
        return "A2"
    if name.startswith("310P"):
        return "310P"
    return "A3" if name.startswith("Ascend910") and "Phy-ID" in header else name


def built_for(soc_version: str) -> str:
    """The same names for what vllm-ascend was compiled for: `soc_version` is the chip's full name (SOC_VERSION)."""
    if soc_version.startswith("ascend910_93"):
        return "A3"
    if soc_version.startswith("ascend910b"):
        return "A2"
    return "310P" if soc_version.startswith("ascend310p") else soc_version


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def memory(text: str) -> tuple[int, int] | tuple[None, None]:
    """The last `used / total` of a row."""
    pairs = re.findall(r"(\d+)\s*/\s*(\d+)", text)
    return (int(pairs[-1][0]), int(pairs[-1][1])) if pairs else (None, None)


def parse(text: str) -> Report:
    """Read the table; a text without one gives a report without dies."""
    version = VERSION.search(text)
    header, dies, busy, top = "", [], set(), None
    in_processes = False
    for line in text.splitlines():
        if not line.startswith("|"):
            continue
        row = cells(line)
        if PROCESS_HEADER in line:
            in_processes = True
        elif in_processes:
            numbers = row[0].split()
            if len(row) > 1 and len(numbers) == 2 and row[1].isdigit():
                busy.add((int(numbers[0]), int(numbers[1])))
        elif row[0].startswith("Chip"):
            header = row[0]
        elif len(row) == 3 and re.match(r"\d+\s+\S*[A-Za-z]", row[0]):
            npu, name = row[0].split(maxsplit=1)
            top = (int(npu), name, row[1])
        elif len(row) == 3 and top and re.match(r"\d+(\s+\d+)?$", row[0]):
            place = [int(number) for number in row[0].split()]
            first, name, health = top
            # The second number is the physical id of an A3 and the device id of a 310P; an A2 has one chip an NPU.
            second = place[1] if len(place) > 1 else first
            used, total = memory(row[2])
            dies.append(Die(first, second, name, generation(name, header), health == "OK", used, total))
            top = None
    return Report(version[1] if version else "", tuple(dies), frozenset(busy))
