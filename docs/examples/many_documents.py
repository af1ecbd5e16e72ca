#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Parse a folder of documents with jobs, many at once, and go on where the last call stopped.

    pip install httpx
    python many_documents.py scans/ parsed/ --url http://127.0.0.1:8080

Writes parsed/NAME.md for each file of scans/ that has the ending of a document and is not hidden. The exit status is 0
if every page of every document was read.

- Bounded: at most --at-once documents are with the service.
- Idempotent: the same file gets the same job, also in a second call; what is written is not asked for again.
- Retrying: a full queue, a full disk, a service that starts again, a cut connection are waited out. A job or a page
  that failed is tried once more in each call.
- Told: with --listen 9000 and CALLBACK_SECRET, the service says when a job has ended. On its side this needs
  PARSER_CALLBACK_HOSTS=127.0.0.1:9000, PARSER_CALLBACK_NETWORKS=127.0.0.0/8 and the secret in PARSER_CALLBACK_SECRETS.
  A call that got lost costs a minute, because all jobs are asked for then anyway. A job is told at the address that it
  was submitted with, so a call with another address makes other jobs.

PARSER_API_KEY is the key, where the service asks for one.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import hashlib
import hmac
import http.server
import io
import os
import random
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

JOBS = "/api/v2/ocr/jobs"
COME_AGAIN = {429, 502, 503, 504, 507}
PATIENCE_S = 3600.0  # for a service that is away, or takes nothing
LOOK_S, LOOK_ALTHOUGH_TOLD_S = 2.0, 60.0
MOST_IDS = 100  # of one request
ENDINGS = "pdf png jpg jpeg jpe jfif tif tiff bmp webp gif jp2 j2k jpx avif ppm pgm pbm pnm".split()


class Refused(Exception):
    """The service will not take this document, however often it is sent."""


class Away(Exception):
    """The service was away for PATIENCE_S, or asks to wait for longer: a used-up quota may say 31 days."""


class Jobs:
    """The jobs that this call waits for. One request tells how a hundred of them stand."""

    def __init__(self, http: httpx.AsyncClient, callback_url: str | None) -> None:
        self._http = http
        self._callback_url = callback_url
        self._waiting: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self.news = asyncio.Event()

    async def submit(self, document: Path) -> str:
        """The id of the document's job. The same file gets the job that it got before."""
        content = await asyncio.to_thread(document.read_bytes)
        digest = hashlib.sha256(os.fsencode(f"{document.absolute()} {self._callback_url}\n") + content).hexdigest()
        fields = {"model": "PaddleOCR-VL"}
        if self._callback_url:
            fields["callbackUrl"] = self._callback_url
        name = document.name.encode("utf-8", "replace").decode()  # Linux has names that are no text
        files = {"file": (name, content)}
        answer = await self._ask("POST", JOBS, data=fields, files=files, headers={"Idempotency-Key": digest})
        return answer.json()["data"]["jobId"]

    async def ended(self, job_id: str) -> dict[str, Any]:
        """The job's state once it has ended."""
        future = self._waiting[job_id] = asyncio.get_running_loop().create_future()
        self.news.set()  # it may have ended in an earlier call
        return await future

    async def retry(self, job_id: str) -> None:
        """Let the document be opened, or the failed pages be read, again."""
        await self._ask("POST", f"{JOBS}/{job_id}/retry")

    async def markdown(self, job_id: str) -> bytes:
        return (await self._ask("GET", f"{JOBS}/{job_id}/result", params={"format": "md"})).content

    async def look(self) -> None:
        """Ask for the jobs again and again, at once when there is news."""
        while True:
            self.news.clear()
            # An answer may be older than a retry, so it counts only for those that waited before it was asked for.
            waiting = list(self._waiting)
            for start in range(0, len(waiting), MOST_IDS):
                await self._look_at(waiting[start : start + MOST_IDS])
            try:
                async with asyncio.timeout(LOOK_ALTHOUGH_TOLD_S if self._callback_url else LOOK_S):
                    await self.news.wait()
            except TimeoutError:
                pass

    async def _look_at(self, ids: list[str]) -> None:
        answer = await self._ask("GET", JOBS, params={"jobId": ids, "limit": MOST_IDS})
        found = {job["jobId"]: job for job in answer.json()["data"]["jobs"]}
        for job_id in ids:
            if job_id not in found:
                self._waiting.pop(job_id).set_exception(Refused("its job was removed; call again"))
            elif found[job_id]["state"] in ("done", "failed"):
                self._waiting.pop(job_id).set_result(found[job_id])

    async def _ask(self, method: str, path: str, **what: Any) -> httpx.Response:
        """Send until there is an answer that stays. Raises Refused if it is an error, and Away."""
        pause, deadline = 1.0, time.monotonic() + PATIENCE_S
        while True:
            try:
                answer = await self._http.request(method, path, **what)
                if answer.status_code not in COME_AGAIN:
                    if answer.is_error:
                        raise Refused(f"{answer.status_code} {answer.text}")
                    return answer
                asked = answer.headers.get("Retry-After", "")
                pause = float(asked) if asked.isdigit() else pause
                trouble = f"{answer.status_code} {answer.text}"
            except httpx.TransportError as error:
                trouble = repr(error)
            if time.monotonic() + pause > deadline:
                raise Away(trouble)
            await asyncio.sleep(pause * random.uniform(1, 1.5))  # not all at the same moment
            pause = min(2 * pause, 60)


def failed(job: dict[str, Any]) -> bool:
    """Whether something of the job failed that may be tried again."""
    return (job["state"] == "failed" or job["docparser"]["pages"]["failed"] > 0) and not job["docparser"]["cancelled"]


async def parse(jobs: Jobs, places: asyncio.Semaphore, document: Path, target: Path) -> bool:
    """Parse one document and write its Markdown; tell whether all of its pages are there."""
    async with places:
        try:
            job_id = await jobs.submit(document)
            job = await jobs.ended(job_id)
            if failed(job):
                await jobs.retry(job_id)
                job = await jobs.ended(job_id)
            if job["state"] == "failed":
                raise Refused(job.get("errorMsg") or "it was cancelled")
            if lost := job["docparser"]["pages"]["failed"]:
                raise Refused(f"{lost} pages could not be read")
            text = await jobs.markdown(job_id)
            target.parent.mkdir(parents=True, exist_ok=True)
            part = target.with_name(f".{job_id}.part")
            part.write_bytes(text)
            part.replace(target)
        except (Refused, OSError) as error:
            print(f"{document}: {error}", flush=True)
            return False
    print(f"{document}: {target}", flush=True)
    return True


def listen(port: int, secret: str, news: Callable[[], object]) -> None:
    """Call `news` for each signed callback (Standard Webhooks 1.0) that comes to a port of this machine."""
    key = base64.b64decode(secret.removeprefix("whsec_"))

    class Receiver(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body, head = self.rfile.read(int(self.headers["Content-Length"])), self.headers
            signed = f"{head['webhook-id']}.{head['webhook-timestamp']}.".encode() + body
            right = "v1," + base64.b64encode(hmac.digest(key, signed, "sha256")).decode()
            good = any(hmac.compare_digest(right, each) for each in head["webhook-signature"].split())
            good = good and abs(time.time() - int(head["webhook-timestamp"])) < 300
            self.send_response(204 if good else 401)
            self.end_headers()
            if good:
                news()

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("0.0.0.0", port), Receiver)
    threading.Thread(target=server.serve_forever, daemon=True).start()


async def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--url", default="http://127.0.0.1:8080", help="the parser (%(default)s)")
    parser.add_argument("--at-once", type=int, default=50, help="documents with the service at once (%(default)s)")
    parser.add_argument("--listen", type=int, metavar="PORT", help="hear callbacks on this port")
    parser.add_argument("--callback-url", help="this program as the service reaches it (http://127.0.0.1:PORT)")
    words = parser.parse_args()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # names of files that are no text
    callback_url = words.callback_url or (f"http://127.0.0.1:{words.listen}" if words.listen else None)
    key = os.environ.get("PARSER_API_KEY")
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    files = sorted(path for path in words.folder.rglob("*") if path.is_file() and not path.name.startswith("."))
    documents = [path for path in files if path.suffix.lower()[1:] in ENDINGS]
    targets = {path: words.out / path.relative_to(words.folder).with_name(path.name + ".md") for path in documents}
    left = {path: target for path, target in targets.items() if not target.exists()}
    async with httpx.AsyncClient(base_url=words.url, headers=headers, timeout=120) as client:
        jobs = Jobs(client, callback_url)
        if words.listen:
            loop = asyncio.get_running_loop()
            listen(words.listen, os.environ["CALLBACK_SECRET"], lambda: loop.call_soon_threadsafe(jobs.news.set))
        places, whole = asyncio.Semaphore(words.at_once), 0
        try:
            async with asyncio.TaskGroup() as tasks:
                looking = tasks.create_task(jobs.look())
                reading = [tasks.create_task(parse(jobs, places, path, target)) for path, target in left.items()]
                whole = sum([await task for task in reading])
                looking.cancel()
        except* Away as away:
            print(f"the service takes nothing: {away.exceptions[0]}; call again later")
    before = len(documents) - len(left)
    print(f"{len(documents)} documents: {before} there before, {whole} parsed; {len(files)} files in all")
    return int(whole < len(left))


if __name__ == "__main__":
    raise SystemExit(asyncio.run(main()))
