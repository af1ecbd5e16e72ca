# SPDX-License-Identifier: Apache-2.0
"""The output of npu-smi as values, and the meaning of its failures.

Read from reports of versions 25.2 (310P, A2, A3), 25.5 and 26.0 (wider, with one column more for processes).
tests/data/npu-smi has them.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import atlas
import ranges

VERSION = re.compile(r"npu-smi\s+(\S+)")
PROCESS_HEADER = "Process id"
# A row of the topology, with cores in its last column.
NEAR = re.compile(r"^\s*(?:NPU|Phy-ID)(\d+)\s.*?(\d+(?:-\d+)?(?:,\d+(?:-\d+)?)*)\s*$", re.MULTILINE)
# Values of Health of unusable dies. DCMI counts OK, Warning, Alarm and Critical from 0 to 3; UNKNOWN is a die that is
# missing or was not started. Dies at Warning and Alarm compute: public reports of A3 nodes list them at work
# (vllm-ascend #9395, #9824), and links and optics raise such alarms too.
UNUSABLE = ("CRITICAL", "UNKNOWN")
# Bytes that a die's system keeps: npu-smi says 65536 MB, torch has 65,452,113,920 bytes (vllm-ascend #4404).
KEPT = (65536 << 20) - 65_452_113_920
SECONDS = 60.0
# Device files of the driver itself, which every container with a die gets.
DRIVER_DEVICES = ("davinci_manager", "devmm_svm", "hisi_hdc")
# Output of a failed npu-smi -> the cause and what to do. The first match counts: if driver files are missing, npu-smi
# also says that the device is used.
FAILURES = (
    (
        r"ret is -9005",
        "the driver's files here are not the node's (-9005)",
        "mount /usr/local/dcmi, npu-smi, driver/lib64 and driver/version.info as config/compose/ascend.yaml does",
    ),
    (
        r"ret is -8020|device is used",
        "another container holds the dies (-8020)",
        "docker ps and docker inspect name it: stop it, or leave its dies out of NPU_IDS; containers share a die only "
        "with device-share on (docs/run.md, Upgrade by halves)",
    ),
    (
        r"ret is -8005",
        "the driver does not let this process in (-8005)",
        "run npu-smi info on the node as root. If it fails too, driver and firmware do not match or wait for a "
        "reboot. Otherwise set ASCEND_GID to the group of /dev/davinci_manager, and let no other container hold the "
        "dies",
    ),
    (
        r"error while loading shared libraries",
        "npu-smi lacks the driver's libraries",
        "mount /usr/local/Ascend/driver/lib64 and /usr/local/dcmi as config/compose/ascend.yaml does",
    ),
)


@dataclass(frozen=True)
class Die:
    """One chip of an NPU. `number` is N in /dev/davinciN, None where that is not known; `generation` the title in the
    table of products, the name itself for others; `health` as npu-smi prints it; memory in MB, None where the table
    has no such column."""

    npu: int
    chip: int
    number: int | None
    name: str
    generation: str
    health: str
    memory_used: int | None
    memory_total: int | None

    @property
    def usable(self) -> bool:
        """Whether it computes, by its health."""
        return self.health.upper() not in UNUSABLE

    @property
    def raises_alarm(self) -> bool:
        """Whether it computes without being OK, so that its user should look at it."""
        return self.usable and self.health.upper() != "OK"


@dataclass(frozen=True)
class Report:
    """`busy` holds numbers (npu, chip) of the dies with processes on them."""

    version: str
    dies: tuple[Die, ...]
    busy: frozenset[tuple[int, int]]

    @property
    def unnumbered(self) -> str:
        """A message about dies without a number, with the NPUs that are not OK; empty if all dies have one."""
        unknown = [die for die in self.dies if die.number is None]
        if not unknown:
            return ""
        odd = "".join(f"; NPU {die.npu} has the Health {die.health}" for die in unknown if die.health.upper() != "OK")
        npus = ", ".join(map(str, sorted({die.npu for die in unknown})))
        return f"which /dev/davinciN is which NPU of {npus} is not known: npu-smi info -m does not fit /dev{odd}"


@dataclass(frozen=True)
class Answer:
    """What a call of npu-smi gave: the text of both its outputs and its exit status.

    `status` is None if it did not run to its end. Then `text` says why, `missing` whether there is no npu-smi, and
    `forbidden` whether this user may not run it.
    """

    status: int | None
    text: str
    missing: bool = False
    forbidden: bool = False


def ask(*words: str) -> Answer:
    """Run npu-smi."""
    try:
        done = subprocess.run(["npu-smi", *words], capture_output=True, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return Answer(None, f"npu-smi {' '.join(words)} gave no answer within {SECONDS:.0f} s")
    except OSError as error:
        # A forbidden folder of PATH gives the same error as a forbidden program.
        if isinstance(error, PermissionError) and (path := shutil.which("npu-smi", mode=os.F_OK)):
            return Answer(None, f"this user may not run {path} ({error.strerror})", forbidden=True)
        return Answer(None, f"npu-smi cannot be run ({error.strerror})", missing=True)
    return Answer(done.returncode, done.stdout + done.stderr)


def trouble(answer: Answer) -> tuple[str, str] | None:
    """Why `npu-smi info` lists no dies, in a few words, and what to do; None where it lists some."""
    if parse(answer.text).dies:
        return None
    if answer.missing:
        return answer.text, "install the driver; in a container, mount npu-smi as config/compose/ascend.yaml does"
    if answer.forbidden:
        return answer.text, (
            "root may; for a container, on the node: chmod o+x it, or chgrp it to ASCEND_GID and chmod g+x it"
        )
    if answer.status is None:
        return f"the driver hangs: {answer.text}", "dmesg on the node says why; reboot it if that stays"
    for pattern, cause, remedy in FAILURES:
        if re.search(pattern, answer.text):
            return cause, remedy
    said = (answer.text.strip().splitlines() or ["no message"])[-1][:200]
    if answer.status:
        return f"npu-smi info ended with status {answer.status}: {said}", "npu-smi info on the node shows it whole"
    return f"npu-smi info lists no dies: {said}", "run npu-smi info on the node, and look at dmesg there"


def least_memory() -> int | None:
    """Bytes that programs can use on the smallest die that `npu-smi info` lists; None if it lists none."""
    sizes = [(die.memory_total << 20) - KEPT for die in parse(ask("info").text).dies if die.memory_total]
    return min(sizes, default=None)


def closed(devices: Path = Path("/dev")) -> tuple[Path, int] | None:
    """The first device file of a die or the driver that this process may not open, and its group; None if there is
    none."""
    for path in (*sorted(devices.glob("davinci*")), *(devices / name for name in DRIVER_DEVICES)):
        if path.exists() and not os.access(path, os.R_OK | os.W_OK, effective_ids=True):
            return path, path.stat().st_gid
    return None


def allows(status: os.stat_result, group: int, needed: int) -> bool:
    """Whether a user of this group, who is neither root nor the owner, has the bits `needed`: 6 to open, 1 to run."""
    bits = status.st_mode >> 3 if status.st_gid == group else status.st_mode
    return bits & needed == needed


def shared(answer: Answer) -> bool | None:
    """Whether containers may share the dies, by `npu-smi info -t device-share -i NPU`: only where every chip says so.
    None where it does not answer, as older drivers do not."""
    found = re.findall(r"Device-share Status\s*:\s*(\w+)", answer.text)
    return all(word == "True" for word in found) if found else None


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
            # Whatever it says of the process: 26.0 has an id in the container, too, and either id may be NA.
            if len(row) > 1 and re.fullmatch(r"\d+\s+\d+", row[0], re.ASCII):
                first, second = row[0].split()
                busy.add((int(first), int(second)))
        elif row[0].startswith("Chip"):
            header = row[0]
        elif len(row) == 3 and re.match(r"\d+\s+\S*[A-Za-z]", row[0]):
            npu, name = row[0].split(maxsplit=1)
            top = (int(npu), name, row[1])
        elif len(row) == 3 and top and re.match(r"\d+(\s+\d+)?$", row[0]):
            place = [int(number) for number in row[0].split()]
            card, name, health = top
            # The second number is the physical id of an A3 and the device id of a 310P. An A2 has none.
            number = place[1] if len(place) > 1 else None
            used, total = memory(row[2])
            product = atlas.of_chip(name, header)
            title = product.title if product else name
            dies.append(Die(card, place[0], number, name, title, health, used, total))
            top = None
    return Report(version[1] if version else "", tuple(dies), frozenset(busy))


def mapping(text: str) -> dict[tuple[int, int], int]:
    """(NPU, chip) -> N in /dev/davinciN, from `npu-smi info -m`: the logic id, or the physical one where it has that
    column, too. MCUs have neither."""
    column = 3 if "Phy-ID" in text else 2
    rows = (line.split() for line in text.splitlines())
    return {
        (int(row[0]), int(row[1])): int(row[column])
        for row in rows
        if len(row) > column and all(re.fullmatch(r"\d{1,6}", cell, re.ASCII) for cell in (row[0], row[1], row[column]))
    }


def affinity(topology: str) -> dict[int, list[int]]:
    """Die -> the cores near it, from the last column (CPU Affinity) of `npu-smi info -t topo`; {} without one. An A2's
    rows begin with NPU, an A3's with Phy-ID."""
    if "affinity" not in topology.lower():
        return {}
    return {int(die): ranges.numbers(cores) for die, cores in NEAR.findall(topology)}


def device_numbers(devices: Path = Path("/dev")) -> list[int]:
    """N of every device file /dev/davinciN that is there, ascending."""
    found = (re.fullmatch(r"davinci(\d{1,6})", path.name) for path in devices.glob("davinci*"))
    return sorted(int(match[1]) for match in found if match)


def listed(text: str, devices: Path = Path("/dev"), asked: Callable[..., Answer] | None = None) -> Report:
    """The report of `npu-smi info` on the node, with the number of each die. Use it for every search by number.

    The table of an A2 numbers only NPUs. For cards in slots these numbers differ from N of /dev/davinciN, so `npu-smi
    info -m` maps them. The driver counts logic ids over the dies that it finds, so a missing die may shift them. They
    are trusted if they equal the numbers of the device files; if a file or a die is missing, they must also equal the
    numbers of the NPUs. Otherwise these dies have no number. In a container logic ids begin at 0 again, but nobody asks
    for them there.
    """
    report = parse(text)
    if all(die.number is not None for die in report.dies):
        return report
    known = mapping((asked or ask)("info", "-m").text)
    numbers = [known[die.npu, die.chip] for die in report.dies if (die.npu, die.chip) in known]
    found = {*numbers}
    files = {*device_numbers(devices)}
    own = numbers == [die.npu for die in report.dies] and (found <= files or files <= found)
    if len(found) < len(report.dies) or not (found == files or own):
        return report
    return replace(report, dies=tuple(replace(die, number=known[die.npu, die.chip]) for die in report.dies))
