# SPDX-License-Identifier: Apache-2.0
"""Ports for servers that bind theirs only seconds or minutes after they were told, when their imports are done."""

from __future__ import annotations

import random
import socket

# Below the ports that Linux gives to connections by itself (32768 and up): such a connection may take the port before
# the server is there. Ray's workers have 10002 to 19999, Kubernetes' nodes 30000 to 32767.
PORTS = range(20000, 30000)
# One for each port that was given out. The kernel frees them when this process ends.
_claims: list[socket.socket] = []


def free_port() -> int:
    """A port on which nobody listens, and which no other call on this machine returns while this process lives.

    Raises OSError if none is left.
    """
    for port in random.SystemRandom().sample(PORTS, len(PORTS)):
        claim = socket.socket(socket.AF_UNIX)
        try:
            claim.bind(f"\0paddleocr-vl-port-{port}")
            with socket.socket() as trial:
                trial.bind(("", port))
        except OSError:
            claim.close()
            continue
        _claims.append(claim)
        return port
    raise OSError(f"no port from {PORTS.start} to {PORTS.stop - 1} is free")
