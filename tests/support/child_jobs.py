# SPDX-License-Identifier: Apache-2.0
"""Jobs of child processes that do what strangers' texts can do to a library."""

from __future__ import annotations

import ctypes
import json
import os
import re
import tempfile
import time
from pathlib import Path
from typing import Any, BinaryIO

from docparser.errors import InvalidRequest
from tests.support import attacks


def echo(args: dict[str, Any], source: BinaryIO, sink: BinaryIO) -> None:
    """The input, and the number of this process."""
    sink.write(source.read() + b" %d" % os.getpid())


def threads(args: dict[str, Any], source: BinaryIO, sink: BinaryIO) -> None:
    """How many threads NumPy's library may start here."""
    sink.write(os.environ.get("OPENBLAS_NUM_THREADS", "a thread for each core").encode())


def backtrack(args: dict[str, Any], source: BinaryIO, sink: BinaryIO) -> None:
    """Days of processor time in one call of a C function, which no signal handler of Python can end."""
    re.fullmatch("(a*)*b", "a" * 60)


def sleep(args: dict[str, Any], source: BinaryIO, sink: BinaryIO) -> None:
    time.sleep(1000)


def allocate(args: dict[str, Any], source: BinaryIO, sink: BinaryIO) -> None:
    pieces = []
    while True:
        pieces.append(bytearray(16 << 20))


def write(args: dict[str, Any], source: BinaryIO, sink: BinaryIO) -> None:
    while True:
        sink.write(bytes(1 << 20))


def nest(args: dict[str, Any], source: BinaryIO, sink: BinaryIO) -> None:
    nest(args, source, sink)


def crash(args: dict[str, Any], source: BinaryIO, sink: BinaryIO) -> None:
    ctypes.string_at(8)


def crash_when_used(args: dict[str, Any], source: BinaryIO, sink: BinaryIO) -> None:
    """Crash over half an answer in a child that has done a job before; in a new one, write what the input was."""
    if vars(crash_when_used).get("used"):
        sink.write(b"half an answer, longer than the whole one")
        sink.flush()
        ctypes.string_at(8)
    sink.write(source.read())


def mark_used(args: dict[str, Any], source: BinaryIO, sink: BinaryIO) -> None:
    vars(crash_when_used)["used"] = True


def grow(args: dict[str, Any], source: BinaryIO, sink: BinaryIO) -> None:
    sink.write(b"%d" % os.getpid())
    bytearray(100 << 20).find(b"x")


def fail(args: dict[str, Any], source: BinaryIO, sink: BinaryIO) -> None:
    raise KeyError("a secret of the document")


def refuse(args: dict[str, Any], source: BinaryIO, sink: BinaryIO) -> None:
    raise InvalidRequest("pages: not what was expected")


def look(args: dict[str, Any], source: BinaryIO, sink: BinaryIO) -> None:
    """Names of the environment's variables and of loaded modules."""
    import sys

    sink.write(" ".join([*os.environ, *sys.modules]).encode())


def attack(args: dict[str, Any], source: BinaryIO, sink: BinaryIO) -> None:
    """The input is JSON for ``attacks.outcomes``; so is the output."""
    sink.write(json.dumps(attacks.outcomes(**json.load(source))).encode())


def use_folder(args: dict[str, Any], source: BinaryIO, sink: BinaryIO) -> None:
    """A temporary file's name and content, and the content of the file that the input names."""
    with tempfile.NamedTemporaryFile("w+") as file:
        file.write("mine")
        file.seek(0)
        sink.write(f"{file.name}\n{file.read()}\n".encode() + Path(source.read().decode()).read_bytes())


NAMES = (
    "echo", "threads", "backtrack", "sleep", "allocate", "write", "nest", "crash", "crash_when_used", "mark_used",
    "grow", "fail", "refuse", "look", "attack", "use_folder",
)  # fmt: skip
JOBS = {name: f"{__name__}:{name}" for name in NAMES}
