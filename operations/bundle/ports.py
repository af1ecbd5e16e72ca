# SPDX-License-Identifier: Apache-2.0
"""Find out whether a TCP port can be listened on."""

from __future__ import annotations

import socket


def why_unusable(host: str, port: int) -> str:
    """Return why nobody can listen on `port` of `host` now, in the system's words; an empty text if one can."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind((host, port))
        except OSError as error:
            return error.strerror or str(error)
    return ""
