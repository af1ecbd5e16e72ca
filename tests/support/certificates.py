# SPDX-License-Identifier: Apache-2.0
"""A certificate of a site's own, which no system trusts, for servers on loopback."""

from __future__ import annotations

import ssl
import subprocess
from pathlib import Path


def own_certificate(folder: Path) -> tuple[Path, Path]:
    """The certificate, for 127.0.0.1 and localhost, and its key. The caller needs the package `openssl`."""
    certificate, key = folder / "site.pem", folder / "site.key"
    subject = "-subj /CN=site -addext subjectAltName=IP:127.0.0.1,DNS:localhost -days 2 -nodes"
    words = f"openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 {subject} -keyout".split()
    subprocess.run([*words, key, "-out", certificate], capture_output=True, check=True)
    return certificate, key


def server_context(certificate: Path, key: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context
