# SPDX-License-Identifier: Apache-2.0
"""A simulated name server of a cluster: it answers each question for IPv4 addresses with the same list, which may
change."""

from __future__ import annotations

import socket
import struct
import threading

ADDRESS = 1  # RFC 1035: type A
SECONDS_TO_LIVE = 1


class SimulatedNames:
    """`addresses` is what every name stands for; `port` is on loopback, UDP."""

    def __init__(self, addresses: list[str]) -> None:
        self.addresses = addresses
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.bind(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            question, peer = self._socket.recvfrom(8192)
            if not question:
                return
            self._socket.sendto(answer(question, self.addresses), peer)

    def close(self) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own:
            own.sendto(b"", ("127.0.0.1", self.port))
        self._thread.join()
        self._socket.close()


def answer(question: bytes, addresses: list[str]) -> bytes:
    """The message of RFC 1035 for a question about one name: addresses for type A, none for others."""
    end = 12
    while question[end]:
        end += question[end] + 1
    asked = question[12 : end + 5]
    found = addresses if struct.unpack(">H", asked[-4:-2])[0] == ADDRESS else []
    # Recursion was wanted and is available; each answer's name is a pointer to the question's.
    header = question[:2] + struct.pack(">HHHHH", 0x8180, 1, len(found), 0, 0)
    records = (
        b"\xc0\x0c" + struct.pack(">HHIH", ADDRESS, 1, SECONDS_TO_LIVE, 4) + socket.inet_aton(address)
        for address in found
    )
    return header + asked + b"".join(records)
