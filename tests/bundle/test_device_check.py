# SPDX-License-Identifier: Apache-2.0
"""The device check at the start of the VLM's container, and what npu-smi's failures mean: one line with the cause."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import npu_smi
from container import vlm
from tests.support.paths import ROOT
from tests.support.recorded_npu_smi import FAILURES, SAMPLES
from tool_errors import DeviceError, UsageError

Program = Callable[[str], None]


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    """Makes a program npu-smi, first in PATH, of the lines of a shell script."""
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    (tmp_path / "dev").mkdir()

    def write(script: str) -> None:
        path = tmp_path / "bin/npu-smi"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    return write


def check(devices: Path, soc: str = "ascend910_9391") -> None:
    vlm.check_device({"HARDWARE": "ascend", "SOC_VERSION": soc}, devices)


@pytest.mark.parametrize(
    ("soc", "sample", "wrong"),
    [
        ("ascend910_9391", "a3", None),
        ("ascend910b1", "a2", None),
        ("ascend910b4-1", "a2", None),
        ("ascend910b1", "a3", "built for A2 (ascend910b1), but the dies here are A3"),
        ("ascend910_9391", "a2", "built for A3"),
        ("ascend310p3", "310p", None),
        (
            "ascend910_9391",
            "310p",
            "but the dies here are 310P; set ATLAS in .env to a3 or a2 or 310p, as the dies are",
        ),
    ],
)
def test_an_image_for_another_chip_is_refused(
    program: Program, tmp_path: Path, soc: str, sample: str, wrong: str | None
):
    program(f"cat {SAMPLES}/{sample}.txt")
    if wrong is None:
        check(tmp_path / "dev", soc)
    else:
        with pytest.raises(DeviceError) as caught:
            check(tmp_path / "dev", soc)
        assert wrong in str(caught.value) and "\n" not in str(caught.value)


def test_a_short_name_of_a_chip_is_none(program: Program, tmp_path: Path):
    program(f"cat {SAMPLES}/a3.txt")
    with pytest.raises(UsageError, match="SOC_VERSION is '910c'; expected a chip's full name, one of ascend910_9391, "):
        check(tmp_path / "dev", "910c")


@pytest.mark.parametrize(("sample", "words"), FAILURES.items())
def test_what_npu_smi_fails_with_is_one_line(program: Program, tmp_path: Path, sample: str, words: str):
    program(f"cat {SAMPLES}/{sample}.txt >&2; exit 1")
    with pytest.raises(DeviceError) as caught:
        check(tmp_path / "dev")
    assert str(caught.value).startswith(words) and "; " in str(caught.value) and "\n" not in str(caught.value)


def test_a_failure_that_is_not_known_is_quoted(program: Program, tmp_path: Path):
    program("echo first; echo 'dcmi: what is this' >&2; exit 9")
    with pytest.raises(DeviceError, match="npu-smi info ended with status 9: dcmi: what is this; npu-smi info on the"):
        check(tmp_path / "dev")


def test_a_driver_that_does_not_answer(program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    program("exec sleep 60")
    monkeypatch.setattr(npu_smi, "SECONDS", 0.2)
    with pytest.raises(DeviceError, match="the driver hangs: npu-smi info gave no answer within 0 s; dmesg"):
        check(tmp_path / "dev")


def test_without_npu_smi_it_says_that_nothing_was_compared(
    program: Program, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    check(tmp_path / "dev")
    assert capsys.readouterr().out.startswith("device check: npu-smi cannot be run (No such file or directory); ")


def test_an_npu_smi_that_may_not_be_run_is_not_as_if_there_were_none(program: Program, tmp_path: Path):
    program("exit 0")
    (tmp_path / "bin/npu-smi").chmod(0o644)
    answer = npu_smi.ask("info")
    assert answer.forbidden and not answer.missing
    with pytest.raises(
        DeviceError, match=rf"this user may not run {tmp_path}/bin/npu-smi \(Permission .*chmod o\+x it"
    ):
        check(tmp_path / "dev")


@pytest.mark.parametrize("name", ["davinci0", *npu_smi.DRIVER_DEVICES])
def test_every_device_file_is_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str):
    for file in ("davinci0", *npu_smi.DRIVER_DEVICES):
        (tmp_path / file).touch()
    monkeypatch.setattr(npu_smi.os, "access", lambda path, *_, **__: path.name != name)
    assert npu_smi.closed(tmp_path) == (tmp_path / name, (tmp_path / name).stat().st_gid)


@pytest.mark.parametrize(
    ("mode", "ours", "needed", "allowed"),
    [
        (0o660, True, 6, True),
        (0o660, False, 6, False),
        (0o666, False, 6, True),
        (0o640, True, 6, False),
        (0o606, True, 6, False),  # the group's bits count for its members, not the others'
        (0o550, True, 1, True),
        (0o550, False, 1, False),
    ],
)
def test_what_a_group_may_do(tmp_path: Path, mode: int, ours: bool, needed: int, allowed: bool):
    (tmp_path / "file").touch()
    (tmp_path / "file").chmod(mode)
    status = (tmp_path / "file").stat()
    assert npu_smi.allows(status, status.st_gid + (not ours), needed) is allowed


def test_a_device_of_another_group_is_named(tmp_path: Path):
    """In a process of its own that may open nothing: root may open everything."""
    code = (
        "import os, sys, pathlib\n"
        "from container.vlm import check_device\n"
        "from tool_errors import DeviceError\n"
        "devices = pathlib.Path(sys.argv[1])\n"
        "os.getuid() or os.setresuid(65534, 65534, 65534)\n"
        "try: check_device({'HARDWARE': 'ascend', 'SOC_VERSION': 'ascend910_9391'}, devices)\n"
        "except DeviceError as error: print(error)"
    )
    for name in ("davinci0", "davinci_manager"):
        (tmp_path / name).touch()
        (tmp_path / name).chmod(0)
    os.chmod(tmp_path, 0o755)
    for folder in tmp_path.parents[: len(tmp_path.relative_to("/tmp").parts) - 1]:
        folder.chmod(folder.stat().st_mode | 0o055)
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": f"{ROOT}/operations:{ROOT}/common"},
        capture_output=True,
        text=True,
        check=False,
    )
    group = (tmp_path / "davinci0").stat().st_gid
    assert f"may not open {tmp_path}/davinci0, which belongs to group {group}; set ASCEND_GID={group}" in done.stdout


def test_a_device_that_may_be_opened(tmp_path: Path):
    (tmp_path / "davinci0").touch()
    assert npu_smi.closed(tmp_path) is None


@pytest.mark.parametrize(("sample", "expected"), [("share-off", False), ("share-a3", False), ("share-on", True)])
def test_dies_are_shared_only_where_every_chip_says_so(sample: str, expected: bool):
    assert npu_smi.shared(npu_smi.Answer(0, (SAMPLES / f"{sample}.txt").read_text())) is expected


def test_an_old_driver_does_not_know_about_sharing():
    assert npu_smi.shared(npu_smi.Answer(1, "the command is not supported")) is None
