# SPDX-License-Identifier: Apache-2.0
"""Another version of the VLM on half of the replicas by the guide's commands, while a client asks for page after page:
a broken one is taken back, a good one promoted, and every answer is a page."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from bundle.progress import say, step
from tests.images.client import check_note
from tests.images.project import Project
from tests.support.docs import blocks
from tests.support.paths import NOTE, ROOT

NEXT = "LABEL paddleocr-vl.test-version=next"
BROKEN = 'ENTRYPOINT ["sh", "-c", "echo error: this version is broken; exit 1"]'


def upgrade(bundle: Project, verb: str, status: int = 0) -> str:
    """The guide's command with this verb; returns what it said."""
    command = f"scripts/upgrade.sh {verb}"
    assert any(command in block for block in blocks(ROOT / "docs/run.md", "Upgrade by halves"))
    with step(command):
        done = bundle.run(*command.split(), stderr=subprocess.STDOUT)
    assert done.returncode == status, done.stdout[-3000:]
    return done.stdout


class Reader(threading.Thread):
    """Asks for one page after the other, with three seconds between them in which the versions have the processors;
    `failures` says what was no page."""

    def __init__(self, bundle: Project) -> None:
        super().__init__(daemon=True)
        self.pages, self.failures, self._bundle, self._over = 0, list[str](), bundle, threading.Event()

    def run(self) -> None:
        while not self._over.wait(3):
            try:
                check_note(self._bundle.client.parse(NOTE))
                self.pages += 1
            except Exception as error:
                self.failures.append(f"after {self.pages} pages: {error!r}")

    def end(self) -> None:
        self._over.set()
        self.join(600)


@contextmanager
def another_version(bundle: Project, image: str, instruction: str) -> Iterator[str]:
    """An image with one instruction more under the name that compose uses; its id. The name is given back."""
    before = f"{image.rpartition(':')[0]}:before-upgrade"
    bundle.docker("tag", image, before)
    try:
        text = f"FROM {before}\n{instruction}\n"
        done = subprocess.run(
            ["docker", "build", "--quiet", "--tag", image, "-"],
            env=bundle.env,
            input=text,
            text=True,
            capture_output=True,
        )
        assert done.returncode == 0, done.stderr
        yield bundle.docker("image", "inspect", "--format", "{{.Id}}", image).stdout.strip()
    finally:
        bundle.docker("tag", before, image)
        bundle.docker("rmi", before)


def served(bundle: Project, service: str) -> float:
    """Requests that the replicas of a container have answered."""
    page = bundle.execute(
        service,
        "python",
        "-c",
        "import urllib.request; print(urllib.request.urlopen('http://127.0.0.1:8000/metrics').read().decode())",
    )
    lines = [line for line in page.splitlines() if line.startswith("vllm:request_success_total{")]
    return sum(float(line.rpartition(" ")[2]) for line in lines)


def test_an_upgrade_by_halves_fails_no_request(two_replicas: Project, cpu_images: dict[str, str]):
    bundle = two_replicas
    bundle.wait_ready()
    assert "build or load another version first" in upgrade(bundle, "start", status=2)
    old = bundle.inspect("vlm")["Image"]
    reader = Reader(bundle)
    try:
        reader.start()
        with another_version(bundle, cpu_images["vlm"], BROKEN):
            assert "error: this version is broken" in upgrade(bundle, "start", status=4)
            assert "is there already" in upgrade(bundle, "start", status=2)
        upgrade(bundle, "back")
        assert "vlm-next" not in bundle.states() and bundle.inspect("vlm")["Image"] == old
        with another_version(bundle, cpu_images["vlm"], NEXT) as new:
            upgrade(bundle, "start")
            assert (bundle.inspect("vlm")["Image"], bundle.inspect("vlm-next")["Image"]) == (old, new)
            asked = {service: served(bundle, service) for service in ("vlm", "vlm-next")}
            bundle.wait_for(
                lambda: all(served(bundle, service) > before for service, before in asked.items()),
                300,
                "both versions answer requests of the parser",
            )
            upgrade(bundle, "promote")
            assert "vlm-next" not in bundle.states() and bundle.inspect("vlm")["Image"] == new
    finally:
        reader.end()
    say(f"  {reader.pages} pages while versions changed")
    assert reader.failures == [] and reader.pages
    volumes = bundle.docker("volume", "ls", "--format", "{{.Name}}").stdout.split()
    assert f"{bundle.name}_vlm-next-state" not in volumes
