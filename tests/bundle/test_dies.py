# SPDX-License-Identifier: Apache-2.0
"""scripts/select_npus.sh: fragments for chosen dies, and for those that are there."""

from __future__ import annotations

import errno
import functools
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

import npu_smi
from bundle.compose import dies
from tests.support.paths import ROOT
from tool_errors import DeviceError, UsageError

SAMPLE = ROOT / "tests/data/npu-smi/a3.txt"


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A node with the device files of dies 0 to 2 and npu-smi's report of them; fragments go to `dies`."""
    (tmp_path / "dev").mkdir()
    for number in range(3):
        (tmp_path / f"dev/davinci{number}").touch()
    (tmp_path / "dies").mkdir()
    (tmp_path / "report.txt").write_text(SAMPLE.read_text())
    program = tmp_path / "bin/npu-smi"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\ncat {tmp_path}/report.txt\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setattr(dies, "FOLDER", tmp_path / "dies")
    return tmp_path


def written(node: Path, text: str = "0-2") -> Path:
    """The file that `present` is written to, for these dies."""
    dies.write_present(text, root=node)
    return dies.FOLDER / "present.yaml"


def service(path: Path) -> dict:
    return yaml.safe_load(path.read_text())["services"]["vlm"]


def test_tracked_fragments_are_what_the_script_writes():
    for path in dies.FOLDER.glob("*.yaml"):
        if path.stem not in (dies.PRESENT, dies.PRESENT_NEXT):
            assert path.read_text() == dies.fragment(path.stem)


def test_a_file_that_a_full_disk_has_emptied_is_written_anew(node: Path):
    path = dies.FOLDER / "0,2.yaml"
    path.touch()
    assert dies.write("0,2") == path and path.read_text() == dies.fragment("0,2")
    before = path.stat()
    dies.write("0,2")
    assert path.stat().st_ino == before.st_ino, "compose recreates no container"


def test_a_full_disk_leaves_the_file_of_before(node: Path, monkeypatch: pytest.MonkeyPatch):
    """An empty one would mean all dies at the next call, also those of others."""
    before = written(node, "0-1").read_text()

    def full(path: Path, data: bytes) -> None:
        path.touch()
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="No space left"):
        dies.write_present("0-2", root=node)
    assert {path.name: path.read_text() for path in dies.FOLDER.iterdir()} == {"present.yaml": before}
    assert dies.written_for() == "0-1"


@pytest.mark.parametrize("text", ["", "16", "3-1", "0,0", "1,0", "a", "0-15-3", "present,1"])
def test_numbers_that_make_no_sense(text: str):
    with pytest.raises(UsageError, match="NPU_IDS is"):
        dies.parse_ids(text)


def test_a_missing_die_costs_that_die_only(node: Path, capsys: pytest.CaptureFixture[str]):
    (node / "dev/davinci1").unlink()
    found = service(written(node))
    assert [device for device in found["devices"] if device[-1].isdigit()] == ["/dev/davinci0", "/dev/davinci2"]
    assert found["devices"][-3:] == [f"/dev/{name}" for name in npu_smi.DRIVER_DEVICES]
    assert found["environment"] == {"NPU_WANTED": "0-2", "NPU_MISSING": "1"}
    said = capsys.readouterr().err
    assert "die 1 is left out: no device file" in said


def test_a_sick_die_costs_that_die_only(node: Path, capsys: pytest.CaptureFixture[str]):
    (node / "report.txt").write_text(SAMPLE.read_text().replace("| OK ", "| Critical ", 1))
    path = written(node)
    assert dies.dies_of(path.read_text()) == [1, 2] and "die 0 is left out: Health Critical" in capsys.readouterr().err


@pytest.mark.parametrize("health", ["Warning", "Alarm"])
def test_dies_that_compute_with_an_alarm_are_used(node: Path, capsys: pytest.CaptureFixture[str], health: str):
    """Some drivers say it of all dies, while they serve."""
    (node / "report.txt").write_text(SAMPLE.read_text().replace("| OK ", f"| {health} "))
    assert dies.dies_of(written(node).read_text()) == [0, 1, 2]
    said = capsys.readouterr().err
    assert f"die 2 has the Health {health} (npu-smi info), and is still used" in said and "left out" not in said


def test_where_no_die_can_be_used_each_reason_is_its_own(node: Path):
    (node / "report.txt").write_text(SAMPLE.read_text().replace("| OK ", "| UNKNOWN "))
    with pytest.raises(DeviceError, match=r"none of the dies 0-2 can be used: die 0: Health UNKNOWN \(npu-smi info\)"):
        written(node)


def test_a_die_that_npu_smi_does_not_list_is_left_out(node: Path, capsys: pytest.CaptureFixture[str]):
    """It fell off the bus, and its device file is still there."""
    lines = SAMPLE.read_text().splitlines(keepends=True)
    (node / "report.txt").write_text("".join(lines[:6] + lines[9:]))  # without the first die
    path = written(node)
    assert (
        dies.dies_of(path.read_text()) == [1, 2] and "die 0 is left out: no line in npu-smi" in capsys.readouterr().err
    )
    # Numbers that are not those of the device files say nothing of these.
    (node / "report.txt").write_text("".join(lines[:6] + lines[9:]).replace("| 0     2  ", "| 0     7  "))
    assert dies.dies_of(written(node).read_text()) == [0, 1, 2]


@pytest.mark.parametrize(
    ("mapped", "npu", "left", "said"),
    [
        (True, 2, [0, 2, 3], "die 1 is left out: Health Critical (npu-smi info)"),
        (True, 5, [0, 1, 2], "die 3 is left out: Health Critical (npu-smi info)"),
        (
            False,
            2,
            [0, 1, 2, 3],
            "npu-smi info -m does not fit /dev; NPU 2 has the Health Critical; no die is left out",
        ),
    ],
)
def test_a_sick_card_in_a_slot_costs_its_own_die(
    node: Path, capsys: pytest.CaptureFixture[str], mapped: bool, npu: int, left: list[int], said: str
):
    """By its NPU's number another one would be left out, and this one kept."""
    (node / "dev/davinci3").touch()
    table = SAMPLE.with_name("a2-pcie.txt").read_text()
    table = table.replace(f"| {npu}     910B4               | OK      ", f"| {npu}     910B4               | Critical")
    (node / "report.txt").write_text(table)
    of_map = SAMPLE.with_name("map-a2-pcie.txt") if mapped else "/dev/null"
    (node / "bin/npu-smi").write_text(f'#!/bin/sh\n[ "$2" != -m ] || exec cat {of_map}\ncat {node}/report.txt\n')
    assert dies.dies_of(written(node, "0-3").read_text()) == left and said in capsys.readouterr().err


FAILURES = [
    npu_smi.Answer(None, "npu-smi cannot be run (No such file or directory)", missing=True),
    npu_smi.Answer(1, SAMPLE.with_name("fails-8005-user.txt").read_text()),
    npu_smi.Answer(None, "npu-smi info gave no answer within 60 s"),
    npu_smi.Answer(None, "this user may not run /usr/local/bin/npu-smi (Permission denied)", forbidden=True),
]


@pytest.mark.parametrize("answer", FAILURES, ids=["missing", "-8005", "no answer", "forbidden"])
def test_where_npu_smi_does_not_answer_the_device_files_count(
    node: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], answer: npu_smi.Answer
):
    """A boot before the driver answers, a user of another group: no die is unusable for that."""
    monkeypatch.setattr(npu_smi, "ask", lambda *_: answer)
    (node / "dev/davinci1").unlink()
    assert dies.write_present("0-2", root=node) == [0, 2]
    assert "the dies' health is not known" in capsys.readouterr().err


def test_without_numbers_the_dies_of_the_last_time_are_looked_at(node: Path):
    """The others may be somebody else's, or those of vlm-next."""
    assert dies.looked_at({}) == "a3" and dies.looked_at({"ATLAS": "a2", "NPU_IDS": ""}) == "a2"
    assert dies.looked_at({"NPU_IDS": "present"}) == "a3"
    dies.write_present("0-2", root=node)
    assert dies.looked_at({"NPU_IDS": "present"}) == "0-2", "as it was last written, at the next boot too"
    (node / "dies/present.yaml").write_text(dies.fragment("a3", "present", [5]))
    assert dies.looked_at({"NPU_IDS": "present", "ATLAS": "a2"}) == "a2"


def test_a_boot_with_numbers_in_npu_ids_leaves_the_file_as_it_is(
    node: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """The unit runs the script whatever NPU_IDS is. What that was for a while, `present` would be for good."""
    path = written(node)
    before = path.read_text()
    monkeypatch.setattr(dies, "VALUES", {"NPU_IDS": "0-1"})
    assert dies.main(["present"]) == 0 and path.read_text() == before
    said = (
        "nothing was written, because .env has NPU_IDS=0-1; scripts/select_npus.sh present 0-1, and NPU_IDS=present in "
        ".env"
    )
    assert said in capsys.readouterr().err
    assert dies.leaving_out({}).startswith("scripts/select_npus.sh present, and NPU_IDS=present in .env")


def test_with_all_dies_nothing_is_said_to_be_missing(node: Path):
    path = written(node)
    assert "environment" not in service(path) and dies.dies_of(path.read_text()) == [0, 1, 2]
    os.utime(path, (1, 1))
    dies.write_present("0-2", root=node)
    assert path.stat().st_mtime == 1, "an unchanged fragment is not written again"


def test_a_node_without_any_die(node: Path):
    for path in (node / "dev").iterdir():
        path.unlink()
    with pytest.raises(DeviceError, match="none of the dies 0-2 can be used: die 0: no device file"):
        dies.write_present("0-2", root=node)
    assert not (node / "dies/present.yaml").exists()


@pytest.fixture
def driver(node: Path, monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], object]]:
    """What the driver does, one thing in each pause of the one who waits; without any, the time is over."""
    steps: list[Callable[[], object]] = []
    clock = [0.0]

    def pause(seconds: float) -> None:
        if steps:
            steps.pop(0)()
        else:
            clock[0] += 1000

    monkeypatch.setattr(dies.time, "sleep", pause)
    monkeypatch.setattr(dies.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(dies, "write_present", functools.partial(dies.write_present, root=node))
    monkeypatch.setattr(dies, "wait_for_driver", functools.partial(dies.wait_for_driver, root=node))
    for file in (node / "dev").iterdir():
        file.chmod(0o660)
    monkeypatch.setattr(dies, "VALUES", {"ASCEND_GID": str(file.stat().st_gid), "NPU_IDS": "present"})
    return steps


def test_at_boot_the_driver_makes_the_files_one_after_the_other(node: Path, driver: list, capsys):
    """Whoever looks when the first one is there would serve on one die until somebody sees it."""
    for file in (late := [node / "dev/davinci1", node / "dev/davinci2"]):
        file.unlink()
    (node / "report.txt").rename(node / "later.txt")  # npu-smi fails
    driver += [late[0].touch, lambda: late[0].chmod(0o600), lambda: late[0].chmod(0o660)]
    driver += [late[1].touch, lambda: (node / "later.txt").rename(node / "report.txt")]
    late[0].parent.joinpath("x").touch()
    assert dies.main(["present", "0-2", "--wait", "600"]) == 0 and not driver
    assert dies.dies_of((node / "dies/present.yaml").read_text()) == [0, 1, 2]
    said = capsys.readouterr().err
    assert "waiting up to 600 s for the driver: /dev/davinci1 is not there" in said and "left out" not in said


def test_a_die_that_does_not_come_costs_the_time_once(node: Path, driver: list, capsys):
    (node / "dev/davinci1").unlink()
    assert dies.main(["present", "0-2", "--wait", "600"]) == 0
    said = capsys.readouterr().err
    assert "waited 600 s for the driver: /dev/davinci1 is not there" in said and "die 1 is left out" in said
    assert dies.main(["present", "--wait", "600"]) == 0
    assert "waited" not in (said := capsys.readouterr().err) and "die 1 is left out" in said


def test_at_boot_the_dies_that_npu_ids_names_are_waited_for(node: Path, driver: list, capsys):
    """Compose starts them whatever the file holds, and an engine does not try again where one is not there yet."""
    dies.VALUES["NPU_IDS"] = "0,2"
    for late in (node / "dev/davinci1", node / "dev/davinci2"):
        late.unlink()
    driver += [late.touch, lambda: late.chmod(0o660)]
    assert dies.main(["present", "--wait", "600"]) == 0 and not driver
    said = capsys.readouterr().err
    assert "waiting up to 600 s for the driver: /dev/davinci2 is not there" in said and "davinci1" not in said
    assert "nothing was written, because .env has NPU_IDS=0,2" in said and not list((node / "dies").iterdir())


def test_files_of_another_group_are_waited_for(node: Path):
    for file in (node / "dev").iterdir():
        file.chmod(0o660)
    group = file.stat().st_gid
    assert dies.lacking([0, 1, 2], group, node) == ""
    assert "belongs to the group" in dies.lacking([0], group + 1, node)
    (node / "dev/davinci0").chmod(0o666)
    assert dies.lacking([0], group + 1, node) == "", "a driver that was installed for all users"


@pytest.mark.parametrize(
    "words", ["", "1 2", "present 0 1", "0 --wait 9", "present --wait", "present --wait soon", "--help"]
)
def test_usage(words: str, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as ended:
        dies.main(words.split())
    said = capsys.readouterr()
    wanted, text = (0, said.out) if words == "--help" else (2, said.err)
    assert ended.value.code == wanted and text.startswith("usage: scripts/select_npus.sh")
