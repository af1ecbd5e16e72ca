# SPDX-License-Identifier: Apache-2.0
"""The filter of system calls on both architectures, run by a small interpreter, and its numbers in the kernel."""

from __future__ import annotations

import errno
import os
import re
import struct
from pathlib import Path

import pytest

import isolation

HEADERS = {
    "x86_64": Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"),
    "aarch64": Path("/usr/include/asm-generic/unistd.h"),
}
OTHERS = {
    "clone": isolation.CLONE,
    "clone3": isolation.CLONE3,
    "prlimit64": isolation.PRLIMIT,
    "tgkill": isolation.TGKILL,
    "openat2": isolation.OPENAT2,
    "open": isolation.OPEN,
    "openat": isolation.OPENAT,
    "fcntl": isolation.FCNTL,
    "ioctl": isolation.IOCTL,
    "seccomp": isolation.SECCOMP,
    "landlock_create_ruleset": isolation.LANDLOCK_CREATE,
    "landlock_add_rule": isolation.LANDLOCK_ADD,
    "landlock_restrict_self": isolation.LANDLOCK_RESTRICT,
}
TABLE = {**isolation.DENIED, **isolation.CHANGES, **OTHERS}
REFUSED, UNKNOWN, ALLOWED, ENDED = 0x50000 | errno.EPERM, 0x50000 | errno.ENOSYS, 0x7FFF0000, 0x80000000
HARMLESS = {"x86_64": {"read": 0, "write": 1, "mmap": 9, "recvmsg": 47, "futex": 202}}
HARMLESS["aarch64"] = {"read": 63, "write": 64, "mmap": 222, "recvmsg": 212, "futex": 98}


def verdict(program: bytes, architecture: int, number: int, *arguments: int) -> int:
    """What classic BPF returns for a system call (linux/filter.h): only the operations that the filter has."""
    words = [*arguments, *[0] * (6 - len(arguments))]
    data = struct.pack("=IIQ6Q", number, architecture, 0, *words)
    lines = list(struct.iter_unpack("=HBBI", program))
    at = held = 0
    while True:
        operation, yes, no, value = lines[at]
        at += 1
        if operation == 0x06:
            return value
        if operation == 0x20:
            held = struct.unpack_from("=I", data, value)[0]
        else:
            test = {0x15: held == value, 0x35: held >= value, 0x45: bool(held & value)}[operation]
            at += yes if test else no


@pytest.mark.parametrize("machine", HEADERS)
def test_numbers_are_the_kernels(machine: str):
    if not HEADERS[machine].exists():
        pytest.skip(f"needs libc6-dev (apt-get install): {HEADERS[machine]} is missing")
    defined = dict(re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", HEADERS[machine].read_text()))
    column = isolation.MACHINES[machine][0]
    known = {name: numbers[column] for name, numbers in TABLE.items() if name in defined}
    assert len(known) > 90
    assert known == {name: int(defined[name]) for name in known}


@pytest.mark.parametrize("machine", isolation.MACHINES)
@pytest.mark.parametrize("writes", [False, True])
def test_the_filter(machine: str, writes: bool, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(isolation.platform, "machine", lambda: machine)
    column, architecture = isolation.MACHINES[machine]
    program = isolation._filter(77, writes)

    def ask(name: str, *arguments: int) -> int | None:
        number = TABLE[name][column]
        return None if number is None else verdict(program, architecture, number, *arguments)

    assert {ask(name) for name in isolation.DENIED} <= {REFUSED, None}
    assert {ask(name) for name in isolation.CHANGES} <= ({ALLOWED, None} if writes else {REFUSED, None})
    assert {verdict(program, architecture, number) for number in HARMLESS[machine].values()} == {ALLOWED}
    assert (ask("clone", 0x3D0F00), ask("clone", 17), ask("clone3")) == (ALLOWED, REFUSED, UNKNOWN)
    assert (ask("tgkill", 77, 78, 6), ask("tgkill", 1, 1, 9)) == (ALLOWED, REFUSED)
    assert (ask("prlimit64", 0), ask("prlimit64", 1)) == (ALLOWED, REFUSED)
    changed = ALLOWED if writes else REFUSED
    flags = {os.O_RDONLY: ALLOWED, os.O_CLOEXEC: ALLOWED, os.O_WRONLY: changed, os.O_RDWR: changed, os.O_CREAT: changed}
    assert {flag: ask("openat", 0, 0, flag) for flag in flags} == flags
    assert {flag: ask("open", 0, flag) for flag in flags} == (flags if column == 0 else dict.fromkeys(flags))
    assert {ask("fcntl", 5, command) for command in (8, 10, 15)} == {REFUSED}, "signals to others"
    assert {ask("ioctl", 5, command) for command in (0x8901, 0x8902, 0x5412, 0x541C)} == {REFUSED}
    assert {ask("fcntl", 8, command) for command in (0, 1, 2, 3, 4, 5, 6, 1030, 1031)} == {ALLOWED}
    assert {ask("ioctl", 0x8901, command) for command in (0x5401, 0x5451, 0x541B)} == {ALLOWED}
    assert ask("openat2") == UNKNOWN
    assert verdict(program, architecture ^ 1, 0) == ENDED, "calls of another architecture have other numbers"
    assert verdict(program, architecture, 0x40000000) == (REFUSED if column == 0 else ALLOWED)


def test_what_a_kernel_lacks_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(isolation, "landlock_version", lambda: 0)
    monkeypatch.setattr(isolation, "has_seccomp", lambda: False)
    assert isolation.lacking() == ["landlock", "seccomp"]
    monkeypatch.setattr(isolation, "landlock_version", lambda: 1)
    assert isolation.lacking() == ["seccomp"]
