# SPDX-License-Identifier: Apache-2.0
"""Namespaces of the kernel, in which a test has mounts or a network of its own."""

from __future__ import annotations

import fcntl
import socket
import struct
import subprocess

ISOLATED = "unshare", "--net", "--map-root-user"
WITH_MOUNTS = "unshare", "--mount", "--map-root-user"
SMALL_DISK = "mount", "-t", "tmpfs", "none", "/mnt"
SIOCSIFFLAGS, UP = 0x8914, 1  # netdevice(7)


def works(*command: str) -> bool:
    """Whether this user may run a command in namespaces of its own here."""
    try:
        return subprocess.run(command, capture_output=True, timeout=10, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def loopback_up() -> None:
    """`ip link set lo up`, which needs no package this way."""
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh", b"lo", UP))
