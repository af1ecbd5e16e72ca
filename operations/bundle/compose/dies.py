# SPDX-License-Identifier: Apache-2.0
"""Compose fragments that name the device files of chosen dies: config/compose/dies/<NPU_IDS>.yaml.

Where NPU_IDS is empty, ATLAS is the file's name: all dies of such a server.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import atlas
import declared_settings
import npu_smi
import ranges
import stacks
from bundle import files
from bundle.paths import CONFIG, VALUES, shown
from bundle.progress import say
from tool_errors import DeviceError, UsageError, run

FOLDER = CONFIG / "compose" / "dies"
DIES = 16
# NPU_IDS=present: the dies that were there when scripts/select_npus.sh last looked, at boot for instance. The other one
# is the same for `vlm-next`, while an upgrade by halves divides the dies; scripts/upgrade.sh alone sets it.
PRESENT, PRESENT_NEXT = "present", "present-next"
PAUSE_SECONDS = 2.0


def chosen(values: Mapping[str, str]) -> str:
    """The name of the fragment that compose takes with these settings."""
    return values.get("NPU_IDS") or declared_settings.text(values, "ATLAS")


def parse_ids(text: str) -> list[int]:
    """Return the numbers in `0,2,5`, `4-11`, or a mixture of both; all of a product's for its key.

    Raises UsageError unless they ascend.
    """
    if text in atlas.KEYS:
        return list(range(atlas.named(text).dies))
    try:
        ids = ranges.numbers(text)
    except ValueError:
        ids = []
    if not ids or ids != sorted(set(ids)) or ids[-1] >= DIES:
        raise UsageError(f"NPU_IDS is {text!r}; expected ascending numbers from 0 to {DIES - 1}, like 0,2,5 or 4-11")
    return ids


def fragment(text: str, name: str = "", missing: Sequence[int] = ()) -> str:
    """Return the text of the fragment for the dies `text`, without those that are `missing`.

    It extends the stack, because a compose service can extend only one other. `name` is what NPU_IDS is set to.
    """
    numbers = [number for number in parse_ids(text) if number not in missing]
    names = (*(f"davinci{number}" for number in numbers), *npu_smi.DRIVER_DEVICES)
    devices = "".join(f"      - /dev/{device}\n" for device in names)
    said = f'      NPU_WANTED: "{text}"\n      NPU_MISSING: "{",".join(map(str, missing))}"\n' if missing else ""
    return (
        f"# The device files of NPU_IDS={f'{name}, of {text}' if name else text}; written by scripts/select_npus.sh.\n"
        "services:\n  vlm:\n"
        f'    extends: {{file: "../../stacks/${{STACK:-{stacks.DEFAULT.key}}}.yaml", '
        f'service: "vlm-${{ATLAS:-{atlas.DEFAULT.key}}}"}}\n'
        + (f"    environment:\n{said}" if said else "")
        + f"    devices:\n{devices}"
    )


def dies_of(text: str) -> list[int]:
    """Return the dies whose device files a fragment names."""
    return [int(number) for number in re.findall(r"- /dev/davinci(\d+)$", text, re.MULTILINE)]


def given(values: Mapping[str, str]) -> list[int]:
    """The dies that compose gives to `vlm` with these settings; none where `present` was not written yet. Raises
    UsageError."""
    if chosen(values) != PRESENT:
        return parse_ids(chosen(values))
    path = FOLDER / f"{PRESENT}.yaml"
    return dies_of(path.read_text()) if path.is_file() else []


def written_for(name: str = PRESENT) -> str:
    """The dies that NPU_IDS=`name` was last written for, those that were left out too; "" where it never was."""
    path = FOLDER / f"{name}.yaml"
    head = path.read_text().partition("\n")[0] if path.is_file() else ""
    written = re.search(rf"NPU_IDS={name}, of (\S+);", head)
    return written[1] if written else ""


def ids(numbers: Sequence[int]) -> str:
    """The text that `parse_ids` reads as these ascending numbers: `0-7`, or `0,2,5` where some are left out."""
    if len(numbers) > 1 and list(numbers) == list(range(numbers[0], numbers[-1] + 1)):
        return f"{numbers[0]}-{numbers[-1]}"
    return ",".join(map(str, numbers))


def write(text: str) -> Path:
    """Write the fragment of these dies."""
    return write_fragment(text, fragment(text))


def write_fragment(name: str, content: str) -> Path:
    """The file changes only where its content does, so that compose recreates no container without a reason; and as a
    whole, so that no full disk leaves half of it: an empty one would name no dies."""
    path = FOLDER / f"{name}.yaml"
    if not path.is_file() or path.read_text() != content:
        files.write(path, content.encode())
    return path


def unusable(wanted: Sequence[int], root: Path = Path("/")) -> dict[int, str]:
    """Return the dies of `wanted` that cannot be used, each with the reason: its device file is gone, or npu-smi does
    not list it, or says a Health with which it does not compute. Says which others have a Health but OK, and where it
    is not known whose Health it is."""
    answer = npu_smi.ask("info")  # first: its first call may wait for the driver, which makes the files meanwhile
    found = {number: "no device file" for number in wanted if not (root / f"dev/davinci{number}").exists()}
    if trouble := npu_smi.trouble(answer):
        say(f"WARNING: the dies' health is not known: {trouble[0]}; {trouble[1]}")
    report = npu_smi.listed(answer.text, root / "dev")
    if report.unnumbered:
        say(f"WARNING: {report.unnumbered}; no die is left out for its health")
    for die in report.dies:
        if die.raises_alarm and die.number in wanted:
            say(f"WARNING: die {die.number} has the Health {die.health} (npu-smi info), and is still used")
    sick = {die.number: f"Health {die.health} (npu-smi info)" for die in report.dies if not die.usable}
    found |= dict.fromkeys(unlisted(wanted, report, root), "no line in npu-smi info")
    return {**{number: sick[number] for number in wanted if number in sick}, **found}


def unlisted(wanted: Sequence[int], report: npu_smi.Report, root: Path = Path("/")) -> list[int]:
    """Dies of `wanted` with a device file that npu-smi does not list, as when they fell off the bus. None where it
    lists no die at all, and so says nothing of these; or dies without a number or a device file: its numbers are not
    those of the files."""
    there = {die.number for die in report.dies if (root / f"dev/davinci{die.number}").exists()}
    if not there or len(there) < len(report.dies):
        return []
    return [number for number in wanted if number not in there and (root / f"dev/davinci{number}").exists()]


def without(wanted: Sequence[int], gone: Mapping[int, str]) -> list[int]:
    """Those of `wanted` that are not `gone`, what `unusable` gave. Raises DeviceError where none is left."""
    if len(gone) == len(wanted):
        raise DeviceError(f"none of the dies {ids(wanted)} can be used: die {wanted[0]}: {gone[wanted[0]]}")
    return [number for number in wanted if number not in gone]


def looked_at(values: Mapping[str, str]) -> str:
    """The dies that `present` is about where nobody names them: those that it was last written for, the others may be
    somebody else's; all of the server's where it never was, or NPU_IDS is empty. An empty text where NPU_IDS is a list
    of numbers: it needs no such file, and what that was written for may be more."""
    text = values.get("NPU_IDS") or ""
    if text not in ("", PRESENT):
        return ""
    written = written_for() if text else ""
    return written if written and written not in atlas.KEYS else chosen({**values, "NPU_IDS": ""})


def write_present(text: str, name: str = PRESENT, root: Path = Path("/")) -> list[int]:
    """Write the fragment of NPU_IDS=`name`: the dies of `text` that can be used now. Returns these, and says which ones
    are left out.

    Raises DeviceError where no die can be used.
    """
    asked = parse_ids(text)
    gone = unusable(asked, root)
    there = without(asked, gone)
    for number, reason in gone.items():
        say(f"WARNING: die {number} is left out: {reason}")
    write_fragment(name, fragment(text, name, sorted(gone)))
    return there


def select(text: str, seconds: float = 0) -> None:
    """Write the file of NPU_IDS=present for the dies of `text`, and say so. Before that, wait for the driver at most so
    many seconds, for those of them that were there the last time."""
    if seconds:
        last = given({"NPU_IDS": PRESENT})
        numbers = [number for number in parse_ids(text) if number in last or text != written_for()]
        wait_for_driver(numbers, declared_settings.whole(VALUES, "ASCEND_GID"), seconds)
    there = write_present(text)
    path = shown(FOLDER / f"{PRESENT}.yaml")
    say(f"{len(there)} of {len(parse_ids(text))} dies in {path}; NPU_IDS={PRESENT} in .env uses them")


def wait_for_driver(numbers: Sequence[int], group: int, seconds: float, root: Path = Path("/")) -> None:
    """Return when the files of these dies are there for `group` and npu-smi lists dies, or when the time is over; says
    what is lacking then.

    At boot /dev/davinci_manager is there as soon as the driver's module is loaded. A die's own file comes when that die
    has booted. Then a service of the driver gives all files to their group; it takes up to ten minutes
    (`changeDavinciMode` of host_sys_init.sh in the driver's package).
    """
    deadline, said = time.monotonic() + seconds, False
    while lack := lacking(numbers, group, root):
        if time.monotonic() >= deadline:
            say(f"WARNING: waited {seconds:.0f} s for the driver: {lack}")
            return
        if not said:
            say(f"waiting up to {seconds:.0f} s for the driver: {lack}")
            said = True
        time.sleep(PAUSE_SECONDS)


def lacking(numbers: Sequence[int], group: int, root: Path = Path("/")) -> str:
    """What the driver has not done yet, in a few words; empty where nothing lacks. Without an npu-smi that may be
    run the files count."""
    for number in numbers:
        file = root / f"dev/davinci{number}"
        try:
            status = file.stat()
        except FileNotFoundError:
            return f"/dev/davinci{number} is not there"
        if not npu_smi.allows(status, group, 6):
            return f"/dev/davinci{number} belongs to the group {status.st_gid}, not {group} (ASCEND_GID)"
    answer = npu_smi.ask("info")
    found = None if answer.missing or answer.forbidden else npu_smi.trouble(answer)
    return found[0] if found else ""


def leaving_out(values: Mapping[str, str]) -> str:
    """What an operator does so that the other dies serve without one that is gone or sick."""
    own = "" if looked_at(values) else f" {values['NPU_IDS']}"
    return f"scripts/select_npus.sh {PRESENT}{own}, and NPU_IDS={PRESENT} in .env: the other dies serve without it"


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="scripts/select_npus.sh", description="Write the file for a choice of dies.")
    parser.add_argument("ids", metavar=f"IDS|{PRESENT}", help=f"like 0,2,5 or 4-11; {PRESENT}: those that can be used")
    parser.add_argument(
        "among", metavar="IDS", nargs="?", help=f"{PRESENT} among these (default: those of the last time, else all)"
    )
    parser.add_argument(
        "--wait", metavar="SECONDS", type=int, default=0, help=f"{PRESENT}: for the driver, while the node boots"
    )
    options = parser.parse_args(words)
    if options.ids != PRESENT and (options.among or options.wait):
        parser.error(f"further IDS and --wait go with {PRESENT}")

    def write_file() -> None:
        if options.ids != PRESENT:
            say(f"{shown(write(options.ids))} is there; set NPU_IDS={options.ids} in .env")
        elif text := options.among or looked_at(VALUES):
            select(text, options.wait)
        else:
            own = VALUES["NPU_IDS"]
            if options.wait:  # at boot compose starts these dies
                wait_for_driver(parse_ids(own), declared_settings.whole(VALUES, "ASCEND_GID"), options.wait)
            say(f"nothing was written, because .env has NPU_IDS={own}; {leaving_out(VALUES)}")

    return run(write_file)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
