# SPDX-License-Identifier: Apache-2.0
"""A simulated name server of a cluster: addresses of names, which may change."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable

ADDRESS = 1  # RFC 1035: type A
SECONDS_TO_LIVE = 1
NO_SUCH_NAME = 3  # RFC 1035: the code of an answer


class SimulatedNames:
    """`find` gives the IPv4 addresses of a name, None where there is no such name. Answers over UDP at `port`, by
    default a free one of loopback."""

    def __init__(self, find: Callable[[str], list[str] | None], address: str = "127.0.0.1", port: int = 0) -> None:
        self._find = find
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind((address, port))
        self.port: int = self._socket.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            question, peer = self._socket.recvfrom(8192)
            if not question:
                return
            self._socket.sendto(answer(question, self._find(name_of(question))), peer)

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


def answer(question: bytes, addresses: list[str] | None) -> bytes:
    """The message of RFC 1035 for a question about one name: addresses for type A, none for others."""
    end = 12
    while question[end]:
        end += question[end] + 1
    asked = question[12 : end + 5]
    found = (addresses or []) if struct.unpack(">H", asked[-4:-2])[0] == ADDRESS else []
    code = NO_SUCH_NAME if addresses is None else 0
    # Recursion was wanted and is available; each answer's name is a pointer to the question's.
    header = question[:2] + struct.pack(">HHHHH", 0x8180 | code, 1, len(found), 0, 0)
    records = (
        b"\xc0\x0c" + struct.pack(">HHIH", ADDRESS, 1, SECONDS_TO_LIVE, 4) + socket.inet_aton(address)
        for address in found
    )
    return header + asked + b"".join(records)
