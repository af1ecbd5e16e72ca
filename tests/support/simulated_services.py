# SPDX-License-Identifier: Apache-2.0
"""In place of the `python` of the environments `vlm` and `parser`: the outer behaviour of both services, simulated.

`python -m tests.support.simulated_services WORDS...` takes the words that the real interpreter would get. What goes
wrong is chosen by SIMULATED_VLM and SIMULATED_PARSER: `die`, `hang` (never ready), `slow` (a page takes 60 s), `refuse`
(HTTP 400), `fail` (HTTP 503), `short` (a page is missing).
"""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path

from tests.support.simulated_http import SimulatedServer
from tests.support.simulated_parser import SimulatedParser
from tests.support.simulated_vlm import SimulatedVlm


def serve(service: str) -> None:
    """Run one of the services until the process is ended."""
    behaviour = os.environ.get(f"SIMULATED_{service.upper()}", "")
    if os.environ.get("UNIT_TEST"):
        sys.exit(f"simulated_services: {os.environ['UNIT_TEST']} starts a service; mark it `server`")
    if behaviour == "die":
        sys.exit("fatal error: simulated death")
    port = int(os.environ[f"{service.upper()}_PORT"])
    server: SimulatedServer = SimulatedVlm(port) if service == "vlm" else configured_parser(port, behaviour)
    server.healthy = behaviour != "hang"
    threading.Event().wait()


def configured_parser(port: int, behaviour: str) -> SimulatedParser:
    parser = SimulatedParser(port)
    parser.always = {"refuse": 400, "fail": 503}.get(behaviour)
    parser.delay_s = 60 if behaviour == "slow" else 0
    parser.pages_counted = 3 if behaviour == "short" else 1
    return parser


def decode(words: list[str]) -> None:
    """In place of docparser.documents.reader: a file that holds the word `broken` is broken."""
    paths = [word.partition("=")[2] for word in words]
    for path in paths:
        if b"broken" in Path(path).read_bytes():
            sys.exit(f"{path}: the image is broken (simulated)")
    print(json.dumps(dict.fromkeys(paths, 1)))


def main(words: list[str]) -> None:
    if words[:2] == ["-m", "vlm_server"] and "--print-weights" in words:
        if os.environ.get("VLM_MODEL") == "missing":
            print("error: VLM_MODEL is 'missing'", file=sys.stderr)
            sys.exit(2)
        print("DEMO WEIGHTS (simulated banner)", file=sys.stderr)
        print(json.dumps({"model": "simulated", "path": "/simulated", "demo": True}))
    elif words[:2] == ["-m", "vlm_server"]:
        serve("vlm")
    elif words[:2] == ["-m", "docparser"]:
        serve("parser")
    elif words[0] == "-I":
        decode(words[3:])
    else:
        sys.exit(f"simulated_services: unexpected {words}")


if __name__ == "__main__":
    main(sys.argv[1:])
