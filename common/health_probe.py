#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ask a service whether it is healthy: health_probe.py URL [--timeout SECONDS]; exit status 0 only for HTTP 200.

Standard library only, so that the images need no curl; the containers' health checks and the scripts use it.
"""

from __future__ import annotations

import argparse
import http.client
import sys
import urllib.error
import urllib.request
from typing import NamedTuple


class Probe(NamedTuple):
    """The answer: `healthy` is true for HTTP 200 only; `detail` is the body, or why there is none."""

    healthy: bool
    detail: str


# A proxy named by the environment must not get between two services of one machine.
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def probe(url: str, timeout: float = 3.0) -> Probe:
    """GET `url`; never raises for a service that is away, slow or unwell."""
    try:
        with OPENER.open(url, timeout=timeout) as response:
            return Probe(response.status == 200, response.read(65536).decode("utf-8", "replace"))
    except urllib.error.HTTPError as error:
        return Probe(False, f"HTTP {error.code}: {error.read(65536).decode('utf-8', 'replace')}")
    except (OSError, http.client.HTTPException) as error:
        return Probe(False, str(getattr(error, "reason", error)) or type(error).__name__)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("url")
    parser.add_argument("--timeout", type=float, default=3.0, help="seconds (default 3)")
    options = parser.parse_args()
    result = probe(options.url, options.timeout)
    print(result.detail[:500], file=sys.stdout if result.healthy else sys.stderr)
    return 0 if result.healthy else 1


if __name__ == "__main__":
    sys.exit(main())
