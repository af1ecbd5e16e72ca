# SPDX-License-Identifier: Apache-2.0
"""The file .env: our scripts and Compose read any text of it alike, and an error's own words lead to the right line."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

from free_ports import free_port
from tests.images.folders import copy_checkout
from tests.images.project import Project
from tests.support import env_texts
from tests.support.system_packages import needs

TEXTS = 100
KEPT = ("PATH", "DOCKER_HOST", "DOCKER_CONFIG")


def test_our_scripts_read_env_as_compose_does(engine, tmp_path: Path):
    outer = {name: engine.environment[name] for name in KEPT if name in engine.environment}
    # The plugin itself, a hundred times: through `docker` it starts twice.
    listed = Project("texts", outer).docker("info", "--format", "{{json .ClientInfo.Plugins}}").stdout
    [plugin] = [one["Path"] for one in json.loads(listed) if one["Name"] == "compose"]
    different = {}
    for seed in range(TEXTS):
        text = env_texts.some(seed)
        ours, theirs = env_texts.ours(text), env_texts.composes(plugin, text, tmp_path, outer)
        if ours != theirs:
            different[text] = {"ours": ours, "Compose's": theirs}
    assert different == {}


@needs("curl")
def test_who_follows_an_errors_words_raises_the_limit(
    cpu_images: dict[str, str], build_environment: dict[str, str], tmp_path: Path
):
    """A document of 260 MiB, the parser alone, and no other knowledge than what its answers say."""
    folder = copy_checkout(tmp_path / "checkout")
    (folder / ".env").write_text(f"HARDWARE=cpu\nPARSER_PORT={free_port()}\n")
    (tmp_path / "large.pdf").touch()
    os.truncate(tmp_path / "large.pdf", 260 << 20)
    env = {name: value for name, value in build_environment.items() if name not in ("HARDWARE", "PARSER_PORT")}
    project = Project("paddleocr-vl-limit", env, folder)
    url = f"http://127.0.0.1:{(folder / '.env').read_text().split('=')[-1].strip()}"

    def send() -> tuple[str, str]:
        project.compose("up", "--detach", "--no-build", "--no-deps", "parser")
        words = ["curl", "-sS", "--noproxy", "*", "--retry-all-errors", "--retry", "60", "--retry-delay", "1"]
        subprocess.run([*words, "-o", "/dev/null", f"{url}/health"], check=True, timeout=120)
        words = ["curl", "-s", "--noproxy", "*", "-w", "\n%{http_code}", "-F", f"file=@{tmp_path / 'large.pdf'}"]
        said = subprocess.run([*words, f"{url}/parse"], stdout=subprocess.PIPE, text=True, timeout=300).stdout
        text, _, status = said.rpartition("\n")
        return status, text

    try:
        status, text = send()
        (name,) = set(re.findall(r"PARSER_[A-Z_]+", text))
        assert status == "413" and f"{name} is set in .env beside compose.yaml" in text, text
        with (folder / ".env").open("a") as file:
            file.write(f"{name}=300\n")
        status, text = send()
        assert status in ("422", "503"), f"zeros are no PDF, and there is no VLM: {status} {text}"
    finally:
        project.compose("down", "--volumes", "--timeout", "10", check=False)
