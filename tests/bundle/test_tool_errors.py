# SPDX-License-Identifier: Apache-2.0
"""A file that the system refuses ends a command with one line: a full disk, or a folder that sudo has made."""

from __future__ import annotations

import errno
import os
import tarfile
from pathlib import Path

import pytest

from bundle import archives
from tool_errors import ToolError, run


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (
            OSError(errno.EACCES, "Permission denied", ".run/lock"),
            ".run/lock: Permission denied; run this as its owner, or give it to this user",
        ),
        (OSError(errno.ENOSPC, "No space left on device"), "No space left on device; make room on it"),
        (OSError(errno.EROFS, "Read-only file system", b"/models/a"), "/models/a: Read-only file system"),
        (OSError(errno.EBADF, "Bad file descriptor", 7), "Bad file descriptor"),
        (OSError("no file named model.safetensors"), "no file named model.safetensors"),
    ],
)
def test_one_line_and_no_traceback(error: OSError, line: str, capsys: pytest.CaptureFixture[str]):
    def command() -> None:
        raise error

    assert run(command) == 1
    assert capsys.readouterr().err == f"error: {line}\n"


def test_a_full_disk_is_no_broken_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        tar.add(__file__, "file")

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(tarfile.TarFile, "extractall", full)
    monkeypatch.setattr(tarfile.TarFile, "extract", full)
    with pytest.raises(
        ToolError, match="No space left on device, before all of .*a.tar was there; make room"
    ) as caught:
        archives.unpack(tmp_path / "a.tar", tmp_path / "to")
    assert caught.value.exit_status == 1
