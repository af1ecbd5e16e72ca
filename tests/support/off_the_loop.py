# SPDX-License-Identifier: Apache-2.0
"""Finds each use of the job store, and each reading of a whole document, that a coroutine of the service makes itself
and not by a thread: a bucket, a database or a network folder that is away would hold up the event loop, and with it
everybody."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import inspect
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import docparser
from docparser.jobs.storage.data_folder import DataFolder, FolderFiles
from docparser.jobs.storage.database import SqliteDatabase
from docparser.jobs.storage.job_folders import JobFolders

SERVICE = str(Path(docparser.__file__).parent)
BLOCK = (JobFolders, FolderFiles, DataFolder, SqliteDatabase)
NO_USE = ("close",)  # at the service's end


@contextlib.contextmanager
def off_the_loop() -> Iterator[None]:
    found: list[str] = []
    with pytest.MonkeyPatch.context() as patch:
        for owner in BLOCK:
            for name, method in vars(owner).items():
                if inspect.isfunction(method) and not name.startswith("_") and name not in NO_USE:
                    patch.setattr(owner, name, _watched(method, found))
        patch.setattr(hashlib, "file_digest", _watched(hashlib.file_digest, found))
        yield
    assert not found, "call these in a thread: " + ", ".join(found)


def _watched(method: Callable[..., Any], found: list[str]) -> Callable[..., Any]:
    if hasattr(method, "__wrapped__"):  # contextlib.contextmanager: entering it is what blocks

        @contextlib.contextmanager
        def entered(*args: Any, **options: Any) -> Iterator[Any]:
            _look(method, found)
            with method(*args, **options) as value:
                yield value

        return entered

    @functools.wraps(method)
    def called(*args: Any, **options: Any) -> Any:
        _look(method, found)
        return method(*args, **options)

    return called


def _look(method: Callable[..., Any], found: list[str]) -> None:
    """A test's own coroutine may use the store as it likes: what counts is the innermost one."""
    frame = sys._getframe(1)
    while (outer := frame.f_back) is not None:
        frame = outer
        code = frame.f_code
        if code.co_flags & (inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
            if code.co_filename.startswith(SERVICE):
                found.append(f"{method.__qualname__} in {code.co_qualname}")
            return
