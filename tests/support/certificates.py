# SPDX-License-Identifier: Apache-2.0
"""A certificate of a site's own, which no system trusts, for a server on loopback."""

from __future__ import annotations

import ssl
import subprocess
from pathlib import Path

from tests.support.simulated_http import SimulatedServer


def speak_https(server: SimulatedServer, folder: Path) -> Path:
    """From now on `server` answers https alone; returns its certificate, for 127.0.0.1 and localhost. The test needs
    the package `openssl`."""
    certificate, key = folder / "site.pem", folder / "site.key"
    subject = "-subj /CN=site -addext subjectAltName=IP:127.0.0.1,DNS:localhost -days 2 -nodes"
    words = f"openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 {subject} -keyout".split()
    subprocess.run([*words, key, "-out", certificate], capture_output=True, check=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.server.socket = context.wrap_socket(server.server.socket, server_side=True)
    return certificate
