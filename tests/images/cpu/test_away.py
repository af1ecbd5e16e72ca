# SPDX-License-Identifier: Apache-2.0
"""The VLM goes away again and again while one durable job runs: every page is there at the end, none failed.

`AWAY_MOMENTS=20 scripts/test.sh images -k test_away` runs the long form.
"""

from __future__ import annotations

import base64
import json
import os
import random
import struct
import time
import urllib.request
from collections import Counter
from typing import Any

from bundle.progress import say
from tests.images.project import Project
from tests.support.paths import ROOT

LETTER = ROOT / "tests/data/letter.png"
MOMENTS = int(os.environ.get("AWAY_MOMENTS", "4"))
# What is done to the service `vlm`, in turn. The demo VLM needs about a minute on two cores after some of them.
KINDS = ("balancer", "pause", "engine", "stop and start", "balancer", "pause", "balancer", "API server", "balancer")
PAGES_BETWEEN = 1
PAUSE_S = 8.0  # longer than the parser's patience


def chunks(png: bytes, kind: bytes) -> bytes:
    """The contents of all chunks of a kind, one after the other."""
    found, at = b"", 8
    while at < len(png):
        (length,) = struct.unpack(">I", png[at : at + 4])
        if png[at + 4 : at + 8] == kind:
            found += png[at + 8 : at + 8 + length]
        at += 12 + length
    return found


def pdf_of(png: bytes, pages: int) -> bytes:
    """A PDF that shows a picture with a palette on each page: PDF reads the compressed rows of a PNG as they are."""
    width, height, bits, color, *_ = struct.unpack(">IIBBBBB", chunks(png, b"IHDR"))
    assert color == 3, "a picture with a palette"
    rows, palette = chunks(png, b"IDAT"), chunks(png, b"PLTE")
    picture = (
        f"<< /Type /XObject /Subtype /Image /Width {width} /Height {height} /BitsPerComponent {bits} "
        f"/ColorSpace [/Indexed /DeviceRGB {len(palette) // 3 - 1} <{palette.hex()}>] /Filter /FlateDecode "
        f"/DecodeParms << /Predictor 15 /Colors 1 /BitsPerComponent {bits} /Columns {width} >> /Length {len(rows)} >>\n"
    )
    show = "q 595 0 0 842 0 0 cm /P Do Q"
    kids = " ".join(f"{number} 0 R" for number in range(5, 5 + pages))
    page = (
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Resources << /XObject << /P 3 0 R >> >> /Contents 4 0 R"
    )
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {pages} >>".encode(),
        picture.encode() + b"stream\n" + rows + b"\nendstream",
        f"<< /Length {len(show)} >>\nstream\n{show}\nendstream".encode(),
        *[f"{page} >>".encode()] * pages,
    ]
    out, places = b"%PDF-1.4\n", []
    for number, content in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    size = len(objects) + 1
    out += f"xref\n0 {size}\n0000000000 65535 f \n{table}trailer << /Size {size} /Root 1 0 R >>\n".encode()
    return out + f"startxref\n{out.rindex(b'xref')}\n%%EOF".encode()


class Job:
    def __init__(self, bundle: Project, document: bytes) -> None:
        self._url = f"{bundle.parser_url}/api/v2/ocr/jobs"
        url = "data:application/pdf;base64," + base64.b64encode(document).decode()
        body = json.dumps({"model": "PaddleOCR-VL", "fileUrl": url, "optionalPayload": {"visualize": False}})
        request = urllib.request.Request(self._url, body.encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=120) as answer:
            self.id = json.load(answer)["data"]["jobId"]

    def state(self) -> dict[str, Any]:
        with urllib.request.urlopen(f"{self._url}/{self.id}", timeout=120) as answer:
            return json.load(answer)["data"]

    def results(self) -> list[dict[str, Any]]:
        with urllib.request.urlopen(self.state()["resultUrl"]["jsonUrl"], timeout=120) as answer:
            return [json.loads(line)["result"] for line in answer]


def kill(bundle: Project, part: str) -> None:
    """As soon as there is one: the absence before may not be over yet."""
    bundle.wait_for(lambda: bundle.find("vlm", part), 900, f"a process {part!r}")
    bundle.kill("vlm", part)


def take_away(bundle: Project, kind: str) -> None:
    if kind == "balancer":
        kill(bundle, "haproxy -db")
    elif kind == "pause":
        bundle.compose("pause", "vlm")
        time.sleep(PAUSE_S)
        bundle.compose("unpause", "vlm")
    elif kind == "engine":
        kill(bundle, "EngineCore")
    elif kind == "API server":
        kill(bundle, "vllm serve")
    else:
        bundle.compose("stop", "--timeout", "5", "vlm")
        bundle.compose("start", "vlm")


def test_a_vlm_that_goes_away_at_any_moment_fails_no_page(bundle: Project):
    chance, done = random.Random(14), Counter[str]()
    pages = PAGES_BETWEEN * (MOMENTS + 1) + 1
    bundle.wait_ready()
    restarts = bundle.inspect("vlm")["RestartCount"]
    began = time.monotonic()
    job = Job(bundle, pdf_of(LETTER.read_bytes(), pages))
    for number in range(MOMENTS):
        bundle.wait_for(
            lambda number=number: job.state()["docparser"]["pages"]["done"] >= PAGES_BETWEEN * number + 1,
            900,
            f"pages before absence {number + 1}",
        )
        time.sleep(chance.random() * 3)
        kind = KINDS[number % len(KINDS)]
        take_away(bundle, kind)
        done[kind] += 1
    bundle.wait_for(lambda: job.state()["state"] in ("done", "failed"), 1200, "the end of the job")
    state = job.state()
    assert state["state"] == "done", state
    assert state["docparser"]["pages"] == {"queued": 0, "running": 0, "done": pages, "failed": 0}, state
    assert bundle.inspect("vlm")["RestartCount"] == restarts, "the container itself must not have ended"
    assert len(bundle.find("vlm", "EngineCore")) <= 1, "the engine of a killed server was not ended"
    results = job.results()
    assert len(results) == pages
    for result in results:
        (report,) = result["docparser"]["pages"]
        assert report.keys() == {"page"}, report
        assert "dear" in result["layoutParsingResults"][0]["markdown"]["text"].lower()
    say(f"  {MOMENTS} absences ({done}), {pages} pages, {time.monotonic() - began:.0f} s: none failed")
