# SPDX-License-Identifier: Apache-2.0
"""One page of Prometheus metrics for all replicas: every sample gets a `replica` label; vlm_replica_up says who answers."""

from __future__ import annotations

import os
import re
import sys
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from container import replicas  # noqa: E402

SAMPLE = re.compile(r"^(?P<name>[A-Za-z_:][\w:]*)(?:\{(?P<labels>.*)\})? (?P<value>\S+.*)$")
TIMEOUT_SECONDS = 5
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def fetch(url: str) -> str | None:
    """A replica's own page, None where it does not answer."""
    try:
        with OPENER.open(f"{url}/metrics", timeout=TIMEOUT_SECONDS) as response:
            return response.read().decode()
    except OSError:
        return None


def merge(pages: dict[str, str | None]) -> str:
    """Pages by replica -> one page. The lines of a metric family stay together, its HELP and TYPE come once."""
    families: dict[str, tuple[list[str], list[str]]] = {}
    up = [f'vlm_replica_up{{replica="{name}"}} {int(page is not None)}' for name, page in pages.items()]
    families["vlm_replica_up"] = (["# HELP vlm_replica_up Whether the replica answers.", "# TYPE vlm_replica_up gauge"], up)
    for name, page in pages.items():
        family = ""
        for line in (page or "").splitlines():
            if line.startswith(("# HELP ", "# TYPE ")):
                family = line.split()[2]
                heads, _ = families.setdefault(family, ([], []))
                if not any(head.split()[1] == line.split()[1] for head in heads):
                    heads.append(line)
            elif match := SAMPLE.match(line):
                # Histograms and counters add a suffix to their family's name.
                home = family if family and match["name"].startswith(family) else match["name"]
                labels = f'replica="{name}"' + (f",{match['labels']}" if match["labels"] else "")
                families.setdefault(home, ([], []))[1].append(f"{match['name']}{{{labels}}} {match['value']}")
    return "\n".join(line for heads, samples in families.values() for line in (*heads, *samples)) + "\n"


class Handler(BaseHTTPRequestHandler):
    """GET /metrics."""

    def do_GET(self) -> None:
        addresses = replicas.urls(os.environ)
        with ThreadPoolExecutor(len(addresses)) as threads:
            pages = list(threads.map(fetch, addresses))
        body = merge({str(index): page for index, page in enumerate(pages)}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """One line for each scrape would fill the log."""


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(os.environ["METRICS_PORT"])), Handler).serve_forever()
