# SPDX-License-Identifier: Apache-2.0
"""Each process killed comes back by itself; two replicas share the load and stand in for each other, and one that
computes wrong values is found."""

from __future__ import annotations

import hashlib
import json
import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.images.client import check_job, check_note
from tests.images.project import Project
from tests.support.paths import LETTER, NOTE
from tests.support.png_pdf import pdf_of

API_SERVER = "vllm serve"
PAGES = 8  # of a job: enough that some are left when the VLM goes


def check_parses(bundle: Project) -> None:
    check_note(bundle.client.parse(NOTE))


@pytest.mark.parametrize(
    ("service", "part"),
    [
        ("vlm", "-m container.metrics"),
        ("vlm", "-m container.watchdog"),
        ("vlm", "-m container.guard"),
        ("parser", "-m docparser"),
    ],
)
def test_a_killed_process_comes_back(bundle: Project, service: str, part: str):
    """Those on the way of each page die under load: by test_away, and below; the parser's workers by
    tests/parser/test_faults_under_load.py."""
    before = bundle.inspect(service)["RestartCount"]
    killed = bundle.kill(service, part)
    bundle.wait_for(lambda: set(bundle.find(service, part)) - set(killed), 300, f"{part} runs again")
    bundle.wait_ready()
    if service == "parser":  # the others stand on no page's way
        check_parses(bundle)
    assert bundle.inspect(service)["RestartCount"] == before, "the container itself must not have ended"


def test_a_container_whose_init_is_killed_comes_back(bundle: Project):
    """From the host: `docker kill` would tell the engine that it is wanted."""
    before = bundle.inspect("parser")
    bundle.kill("parser", "supervisord")
    bundle.wait_for(lambda: bundle.inspect("parser")["RestartCount"] > before["RestartCount"], 120, "a restart")
    bundle.wait_healthy("parser")
    bundle.wait_ready()
    check_parses(bundle)


def test_a_vlm_that_is_made_anew_fails_no_page(bundle: Project, request: pytest.FixtureRequest):
    """The fixture changes settings of it in the middle of a job, so that `docker compose up` replaces the container."""
    before = bundle.container("vlm")
    job = bundle.client.submit(pdf_of(LETTER.read_bytes(), PAGES))
    bundle.client.wait_for_pages(job, 1)
    assert bundle.client.job(job)["state"] == "running", "pages are left"
    request.getfixturevalue("two_replicas")
    assert bundle.container("vlm") != before
    check_job(bundle.client, job, PAGES)


def test_cores_are_shared_out(two_replicas: Project):
    """With two cores or more, no core belongs to both replicas."""
    shares = [
        set(Path(f"/proc/{pid}/status").read_text().partition("Cpus_allowed_list:")[2].split()[0].split(","))
        for pid in two_replicas.find("vlm", API_SERVER)
    ]
    assert len(shares) == 2 and shares[0].isdisjoint(shares[1])


def negated(weights: bytes, name: str) -> bytes:
    """A safetensors file in which one tensor has the other sign: finite, of the right shape, and wrong."""
    length = int.from_bytes(weights[:8], "little")
    entry = json.loads(weights[8 : 8 + length])[name]
    width = {"BF16": 2, "F16": 2, "F32": 4}[entry["dtype"]]
    begin, end = (8 + length + offset for offset in entry["data_offsets"])
    changed = bytearray(weights)
    changed[begin + width - 1 : end : width] = bytes(byte ^ 0x80 for byte in changed[begin + width - 1 : end : width])
    return bytes(changed)


def replace(path: Path, data: bytes) -> None:
    """In one step, as a new file: who has the old one open keeps it."""
    part = path.with_name(f".{path.name}.part")
    part.write_bytes(data)
    part.chmod(0o644)
    os.replace(part, path)


def server_of(bundle: Project, replica: int) -> int:
    """Process id of a replica's server."""
    port = f"--port {8100 + replica}"
    [pid] = [pid for pid in bundle.find("vlm", API_SERVER) if port in bundle.processes("vlm").get(pid, "")]
    return pid


def load_again(bundle: Project, replica: int) -> None:
    """Kill a replica's server and wait until another one in its place answers."""
    os.kill(server_of(bundle, replica), signal.SIGKILL)
    bundle.wait_for(lambda: bundle.replicas_up() < 2, 300, "the killed replica is missed")
    bundle.wait_for(lambda: bundle.replicas_up() == 2, 900, "another one in its place")


@pytest.fixture(scope="module")
def bad_replica(two_replicas: Project) -> Iterator[Project]:
    """The second replica computes with changed weights, until it loads the right ones, which lie there again."""
    folder = Path(two_replicas.env["MODELS_DIR"]) / "demo/PaddleOCR-VL"
    good, sums = (folder / "model.safetensors").read_bytes(), (folder / "SHA256SUMS").read_bytes()
    tensor = "model.layers.0.self_attn.o_proj.weight"
    bad = negated(good, tensor)
    right, wrong = (hashlib.sha256(data).hexdigest().encode() for data in (good, bad))
    try:
        # The manifest agrees with them, so that the launcher serves them.
        replace(folder / "model.safetensors", bad)
        replace(folder / "SHA256SUMS", sums.replace(right, wrong))
        load_again(two_replicas, 1)
    finally:
        replace(folder / "model.safetensors", good)
        replace(folder / "SHA256SUMS", sums)
    changed = server_of(two_replicas, 1)
    yield two_replicas
    if changed in two_replicas.processes("vlm"):
        load_again(two_replicas, 1)


def test_a_bad_replica_cannot_hide_behind_the_balancer(bad_replica: Project):
    """One of two replicas computes with changed weights; health, pages and metrics do not show it."""
    done = bad_replica.run("scripts/selftest.sh", "--mode", "docker", "--json")
    assert done.returncode == 1, done.stdout + done.stderr
    findings = {finding["name"]: finding["passed"] for finding in json.loads(done.stdout)["findings"]}
    verdicts = [{passed for name, passed in findings.items() if name.startswith(f"replica {n},")} for n in (0, 1)]
    assert verdicts[0] == {True} and False in verdicts[1], findings
    words = ("python", "-m", "selftest.read", "--replicas", "/run/paddleocr-vl/replicas.json")
    answers = json.loads(bad_replica.execute("vlm", *words, check=False).splitlines()[-1])
    assert [bool(answer["error"]) for answer in answers].count(True) == 1 and answers[0]["text"] != answers[1]["text"]


def test_a_replica_that_hangs_under_load_is_killed_and_fails_no_request(bad_replica: Project):
    """It is stopped before the first page, so that none is read with its weights; it takes requests none the less,
    and dies with them. The other one answers them meanwhile, and another one takes its place, with the right
    weights."""
    stopped, restarts = server_of(bad_replica, 1), bad_replica.inspect("vlm")["RestartCount"]
    os.kill(stopped, signal.SIGSTOP)
    with ThreadPoolExecutor(2) as clients:
        answers = [clients.submit(check_parses, bad_replica) for _ in range(8)]
        bad_replica.wait_for(lambda: stopped not in bad_replica.processes("vlm"), 300, "the watchdog kills it")
        for answer in answers:
            answer.result(timeout=900)
    bad_replica.wait_for(lambda: bad_replica.replicas_up() == 2, 900, "another one in its place")
    assert "killing it" in bad_replica.compose("logs", "vlm").stdout
    assert bad_replica.inspect("vlm")["RestartCount"] == restarts, "the container itself must not have ended"
    check_parses(bad_replica)
