# SPDX-License-Identifier: Apache-2.0
"""TCP ports of this machine: whether one can be listened on, and where whoever listens is reached. An IPv6 address may
have brackets, which Compose wants around it."""

from __future__ import annotations

import socket


def trouble(host: str, port: int) -> OSError | None:
    """Return why nobody can listen on `port` of `host` now; None if one can."""
    host = host.strip("[]")
    try:
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM) as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            trial.bind((host, port))
    except OSError as error:
        return error
    return None


def reachable(host: str) -> str:
    """Return the host of an address at which this machine reaches what is bound to `host`."""
    host = host.strip("[]")
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"[{host}]" if ":" in host else host
