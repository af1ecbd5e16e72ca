# SPDX-License-Identifier: Apache-2.0
"""The pods of the VLM server in a cluster (deploy/kubernetes): VLM_PODS is a name that stands for their addresses."""

from __future__ import annotations

import socket
from collections.abc import Mapping


def addresses(name: str) -> list[str]:
    """IPv4 addresses that the name stands for, in a fixed order; none where there is no pod, or no name server."""
    try:
        found = socket.getaddrinfo(name, None, socket.AF_INET, socket.SOCK_STREAM)
    except OSError:
        return []
    return sorted({str(address[0]) for *_, address in found})


def urls(env: Mapping[str, str]) -> list[str]:
    """Addresses of all pods, without a path."""
    return [f"http://{address}:{env.get('VLM_PORT') or 8000}" for address in addresses(env["VLM_PODS"])]
