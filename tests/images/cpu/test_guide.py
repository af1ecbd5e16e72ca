# SPDX-License-Identifier: Apache-2.0
"""The guide's commands for a CPU machine, word for word and in order, as a reader pastes them in a checkout: start,
keys, TLS, removal. Only acceptance's load is shortened. tests/bundle/test_guide.py holds which blocks are marked for
other tests, or for none."""

from __future__ import annotations

import json
import re
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from bundle.progress import step
from free_ports import free_port
from tests.images.archives import unpacked
from tests.images.folders import copy_checkout
from tests.images.project import Project
from tests.support.docs import Block, all_blocks, blocks, guide
from tests.support.engine import base_image
from tests.support.paths import ROOT
from tests.support.wait import wait_for

KEY = re.compile(r"^[\w-]{43}$", re.MULTILINE)
HOST = "ocr.example.org"
PROXY = "paddleocr-vl/test-nginx"
# Labels of an image that differ with every build.
ORIGIN = ("revision", "source", "created")


class Reader:
    """Runs blocks in a checkout. What is the reader's own is told by a curlrc: the port, and where the name leads."""

    def __init__(self, project: Project, checkout: Path, images: dict[str, str]) -> None:
        self.project, self.checkout, self.images = project, checkout, images
        self._home = checkout.parent / "home"
        self._home.mkdir()
        project.env["CURL_HOME"] = str(self._home)
        self._curl('noproxy = "*"', f'connect-to = "127.0.0.1:8080:127.0.0.1:{project.env["PARSER_PORT"]}"')
        self._proxy = ""

    def _curl(self, *lines: str) -> None:
        with (self._home / ".curlrc").open("a") as file:
            file.writelines(f"{line}\n" for line in lines)

    def run(self, commands: str, **settings: str) -> str:
        """What the commands print; each of them must succeed."""
        own = {" IMAGE ": f" {self.images['parser']} ", "scripts/acceptance.sh": "scripts/acceptance.sh --minutes 0.1"}
        for words, readers in own.items():
            commands = commands.replace(words, readers)
        with step(commands.strip().splitlines()[0][:100]):
            done = self.project.run("bash", "-euo", "pipefail", "-c", commands, settings=settings)
        assert done.returncode == 0, f"{commands}\n{done.stdout[-2000:]}\n{done.stderr[-3000:]}"
        return done.stdout

    def use_key(self, key: str) -> None:
        self.project.env["PARSER_API_KEY"] = key

    def start_proxy(self, server: str) -> None:
        """nginx of Debian with the guide's server, in the parser's network, where loopback and port 443 are its own."""
        files = self.checkout.parent / "proxy"
        files.mkdir()
        (files / "ocr.conf").write_text(server)
        subject = ("-subj", f"/CN={HOST}", "-addext", f"subjectAltName=DNS:{HOST}", "-days", "2", "-nodes")
        pair = ("-keyout", str(files / "ocr.key"), "-out", str(files / "ocr.pem"))
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "rsa:2048", *subject, *pair], check=True, capture_output=True
        )
        text = f"FROM {base_image.NAME}\nRUN apt-get update && apt-get install -y --no-install-recommends nginx-light\n"
        built = subprocess.run(
            ["docker", "build", "--quiet", "--network", "host", "--tag", PROXY, "-"],
            env=self.project.env,
            input=text,
            capture_output=True,
            text=True,
        )
        assert built.returncode == 0, built.stderr
        places = {"ocr.conf": "/etc/nginx/conf.d", "ocr.pem": "/etc/ssl", "ocr.key": "/etc/ssl"}
        mounts = [word for name, place in places.items() for word in ("-v", f"{files / name}:{place}/{name}:ro")]
        network = ("--network", f"container:{self.project.container('parser')}")
        words = (*network, *mounts, PROXY, "nginx", "-g", "daemon off;")
        self._proxy = self.project.docker("run", "--detach", *words).stdout.strip()
        networks = self.project.inspect("parser")["NetworkSettings"]["Networks"]
        address = networks[f"{self.project.name}_default"]["IPAddress"]
        self._curl(f'connect-to = "{HOST}:443:{address}:443"', f'cacert = "{files / "ocr.pem"}"')
        wait_for(lambda: self.status(f"https://{HOST}/health") == "200", 60)

    def status(self, url: str) -> str:
        """HTTP status of a GET, `000` where nobody answers."""
        words = ["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", url]
        return self.project.run(*words).stdout

    def end_proxy(self) -> None:
        if self._proxy:
            self.project.docker("rm", "--force", self._proxy, check=False)
        self._proxy = ""


@pytest.fixture
def reader(build_environment: dict[str, str], cpu_images: dict[str, str], tmp_path: Path) -> Iterator[Reader]:
    """A reader without settings of our own: HARDWARE comes from the `.env` that the guide makes."""
    env = {name: value for name, value in build_environment.items() if name not in ("HARDWARE", "MODELS_DIR")}
    project = Project(
        "paddleocr-vl-guide", env | {"PARSER_PORT": str(free_port())}, copy_checkout(tmp_path / "checkout")
    )
    # The removal takes the images' names away, which other tests use.
    kept = {image: f"{image.rpartition(':')[0]}:kept-by-test" for image in cpu_images.values()}
    for image, name in kept.items():
        project.docker("tag", image, name)
    found = Reader(project, project.folder, cpu_images)
    try:
        yield found
    finally:
        found.end_proxy()
        project.compose("down", "--volumes", "--timeout", "10", check=False)
        for image, name in kept.items():
            project.docker("tag", name, image)
            project.docker("rmi", name)
            project.docker("rmi", f"{image}-before", check=False)


def check_page(said: str) -> None:
    assert re.search(r"^# .*water", said, re.MULTILINE | re.IGNORECASE), said


def check_readme(reader: Reader) -> None:
    """The README's commands for containers with HARDWARE=cpu before them, and its requests. The images get the labels
    of those that run: others would differ, and both containers be made anew."""
    labels = reader.project.inspect("vlm")["Config"]["Labels"]
    built = {f"BUNDLE_{name.upper()}": labels[f"org.opencontainers.image.{name}"] for name in ORIGIN}
    _, *commands = blocks(ROOT / "README.md", "An A3 node")[0].splitlines()  # the first one fetches weights
    for command in commands:
        reader.run(f"HARDWARE=cpu {command}", **built)
    page, document, _ = blocks(ROOT / "README.md", "Call it")[0].splitlines()  # the third needs another environment
    check_page(reader.run(page))
    reader.run(document)
    assert any(name.endswith(".md") for name in zipfile.ZipFile(reader.checkout / "handbook.zip").namelist())


def check_acceptance(checkout: Path) -> None:
    """What the guide's run of acceptance.sh says about this machine, load included."""
    (archive,) = checkout.glob("acceptance-*.tar.gz")
    found = json.loads(unpacked(archive)["report.json"])
    verdicts = {step["name"]: step["verdict"] for step in found["steps"]}
    skipped = ("driver", "ATB", "graph capture", "graph modes")
    assert verdicts == {
        **dict.fromkeys(verdicts, "pass"),
        **dict.fromkeys(skipped, "not applicable"),
        # The demo weights, at least.
        "preflight": "warn",
    }, found
    words = {step["name"]: step["found"] for step in found["steps"]}
    assert "13 results right" in words["each die alone"] and "10 pages" in words["ten pages"]
    assert "0 failed" in words["load"] and "1 of 1 up" in words["all dies"]


def follow(reader: Reader, block: Block) -> None:
    """Run a block, and look at what a reader would look at."""
    if block.language == "nginx":
        reader.start_proxy(block.text)
        return
    said = reader.run(block.text)
    if "curl" in block.text:
        check_page(said)
    if block.section == "Install on a CPU machine":
        assert "0 FAIL" in said and "self-test passed" in said
        check_readme(reader)
    if "scripts/acceptance.sh" in block.text:
        check_acceptance(reader.checkout)
    if "docparser.api_keys" in block.text:
        made = KEY.findall(said)
        assert len(made) == (1 if block.section == "TLS in front" else 3), said  # two are made, one is rotated
        wait_for(lambda: reader.status("http://127.0.0.1:8080/metrics") == "401", 60)
        reader.use_key(made[0])
    if "bom.cdx.json" in block.text:
        assert json.loads((reader.checkout / "bom.cdx.json").read_text())["bomFormat"] == "CycloneDX"
    if block.section == "TLS in front" and "curl" in block.text:
        assert reader.status(f"https://{HOST}/metrics") == "401", "the key is asked for"
        reader.end_proxy()


def test_the_commands_of_the_guide_run_as_they_stand(reader: Reader):
    ours = [
        block for page in guide() for block in all_blocks(page) if block.language in ("sh", "nginx") and not block.mark
    ]
    # What installs also says how to remove, which a reader does last.
    *others, removal = sorted(ours, key=lambda block: block.section == "Removal")
    assert removal.section == "Removal"
    for block in (*others, removal):
        follow(reader, block)
    label = f"label=com.docker.compose.project={reader.project.name}"
    for kind in (("ps", "--all"), ("volume", "ls"), ("network", "ls")):
        assert reader.project.docker(*kind, "--quiet", "--filter", label).stdout == "", kind
    for image in reader.images.values():
        assert reader.project.docker("image", "inspect", image, check=False).returncode != 0
