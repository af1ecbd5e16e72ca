# SPDX-License-Identifier: Apache-2.0
"""The cluster's name server: addresses of names, which may change."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable

from tests.support.simulated_names import answer

PORT = 53


class ClusterNames:
    """`find` gives the addresses of a name, None where there is no such name."""

    def __init__(self, address: str, find: Callable[[str], list[str] | None]) -> None:
        self._find = find
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind((address, PORT))
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            question, peer = self._socket.recvfrom(8192)
            if not question:
                return
            found = self._find(name_of(question))
            message = answer(question, found or [])
            if found is None:  # RFC 1035: NXDOMAIN
                message = message[:2] + struct.pack(">H", 0x8183) + message[4:]
            self._socket.sendto(message, peer)

    def close(self) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own:
            own.sendto(b"", self._socket.getsockname())
        self._thread.join()
        self._socket.close()


def name_of(question: bytes) -> str:
    """The name that a message asks for, without the dot at its end."""
    at, labels = 12, []
    while question[at]:
        labels.append(question[at + 1 : at + 1 + question[at]].decode())
        at += question[at] + 1
    return ".".join(labels).lower()
