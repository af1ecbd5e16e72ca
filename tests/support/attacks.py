# SPDX-License-Identifier: Apache-2.0
"""What somebody would try who runs code in a decoder's process. Each attempt is one function; none does harm."""

from __future__ import annotations

import ctypes
import fcntl
import os
import platform
import resource
import signal
import socket
import struct
from collections.abc import Callable
from pathlib import Path

X86 = platform.machine() == "x86_64"
PTRACE, PROCESS_VM_READV, PIDFD_OPEN, SHMGET = (101, 310, 434, 29) if X86 else (117, 270, 434, 194)
PTRACE_SEIZE = 0x4206
# asm-generic/fcntl.h, sockios.h; Python names only the first.
F_SETOWN, F_SETSIG, F_SETOWN_EX, FIOSETOWN, SIOCSPGRP = 8, 10, 15, 0x8901, 0x8902
HELD = "held"


def call(number: int, *arguments: int) -> None:
    """A system call. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(ctypes.c_long(number), *map(ctypes.c_long, arguments)) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def fork() -> None:
    if not os.fork():
        os._exit(0)


def attempts(victim: int, data: str, port: int) -> dict[str, Callable[[], object]]:
    """``victim`` is the service, ``data`` its data folder, ``port`` one of loopback that somebody listens on."""
    folder = Path(data)
    return {
        "read the service's environment": lambda: Path(f"/proc/{victim}/environ").read_bytes(),
        "open its memory": lambda: open(f"/proc/{victim}/mem", "rb+").close(),
        "read its memory": lambda: call(PROCESS_VM_READV, victim, 0, 0, 0, 0, 0),
        "trace it": lambda: call(PTRACE, PTRACE_SEIZE, victim, 0, 0),
        "list its open files": lambda: os.listdir(f"/proc/{victim}/fd"),
        "signal it": lambda: os.kill(victim, 0),
        "have a pipe signal it": lambda: fcntl.fcntl(os.pipe()[0], F_SETOWN, victim),
        "have a pipe signal its group": lambda: fcntl.fcntl(os.pipe()[0], F_SETOWN_EX, struct.pack("=ii", 2, victim)),
        "choose a pipe's signal": lambda: fcntl.fcntl(os.pipe()[0], F_SETSIG, signal.SIGKILL),
        "have a socket signal it": lambda: fcntl.ioctl(os.pipe()[0], FIOSETOWN, struct.pack("=i", victim)),
        "have a socket signal its group": lambda: fcntl.ioctl(os.pipe()[0], SIOCSPGRP, struct.pack("=i", -victim)),
        "open a descriptor of it": lambda: call(PIDFD_OPEN, victim, 0),
        "change its limits": lambda: resource.prlimit(victim, resource.RLIMIT_CORE),
        "change its priority": lambda: os.setpriority(os.PRIO_PROCESS, victim, 5),
        "read links.key": lambda: (folder / "links.key").read_bytes(),
        "list jobs": lambda: os.listdir(folder),
        "add keys": lambda: (folder / "api_keys").write_text("x"),
        "change a file's rights": lambda: (folder / "links.key").chmod(0o600),
        "remove links.key": lambda: (folder / "links.key").unlink(),
        "make a folder": lambda: (folder / "made").mkdir(),
        "empty links.key": lambda: os.truncate(folder / "links.key", 1),
        "write a temporary file": lambda: Path("/tmp/left-by-an-attack").write_text("x"),
        "read /etc/passwd": lambda: Path("/etc/passwd").read_bytes(),
        "connect by TCP": lambda: socket.create_connection(("127.0.0.1", port), 5),
        "send by UDP": lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", port)),
        "make a local socket": lambda: socket.socket(socket.AF_UNIX),
        "make a pair of sockets": socket.socketpair,
        "shared memory": lambda: call(SHMGET, 1, 4096, 0o1600),
        "start a program": lambda: os.execv("/bin/true", ["true"]),
        "fork": fork,
    }


def outcomes(victim: int, data: str, port: int) -> dict[str, str]:
    """Attempt -> "held", or what was got."""
    return {name: _outcome(attempt) for name, attempt in attempts(victim, data, port).items()}


def _outcome(attempt: Callable[[], object]) -> str:
    try:
        return f"got {attempt()!r}"
    except PermissionError:
        return HELD
    except OSError as exc:
        return f"failed otherwise: {exc}"
