# SPDX-License-Identifier: Apache-2.0
"""A real container engine, the images built from the wheel folder, and the bundle brought up by `docker compose up`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "tests/support"), str(ROOT / "tests/e2e"), str(Path(__file__).parent)]

from engine import base_image, daemon  # noqa: E402
from local_mode import free_port  # noqa: E402
from project import Project  # noqa: E402

from bundle.progress import say, step  # noqa: E402

WHEELS = ROOT / ".wheels" / os.uname().machine
CA_BUNDLE = Path("/etc/ssl/certs/ca-certificates.crt")


@pytest.fixture(scope="session")
def engine() -> Iterator[daemon.Engine]:
    """The machine's own engine, or one that is started here and ended with the session."""
    found = daemon.existing()
    if found:
        yield found
        return
    folder = ROOT / ".run" / "engine"
    folder.mkdir(parents=True, exist_ok=True)
    with step("starting a container engine"):
        started = daemon.start(folder)
    try:
        yield started
    finally:
        started.stop()


@pytest.fixture(scope="session")
def wheels() -> Path:
    """The folder of wheels that the images are built from."""
    subprocess.run([ROOT / "scripts/fetch_wheels.sh", "supervisor", "vlm", "parser"], check=True)
    return WHEELS


@pytest.fixture(scope="session")
def build_environment(engine: daemon.Engine, wheels: Path) -> dict[str, str]:
    """What a build here needs: the host's network for Debian packages, the machine's certificates, the wheels."""
    with step("the base image"):
        base_image.ensure(engine)
    unset = ("VLM_MODEL", "LAYOUT_MODEL_DIR", "VLM_URL", "PYTHONPATH", "PARSER_BIND", "STACK", "COMPOSE_FILE")
    env = {key: value for key, value in engine.environment.items() if key not in unset}
    return env | {"BUILD_NETWORK": "host", "WHEELS_DIR": str(wheels), "HARDWARE": "cpu",
                  "CA_BUNDLE": str(CA_BUNDLE if CA_BUNDLE.is_file() else "/dev/null")}


@pytest.fixture(scope="session")
def cpu_images(build_environment: dict[str, str]) -> dict[str, str]:
    """Both CPU images, built; service -> image name."""
    project = Project("paddleocr-vl-test", build_environment)
    for service in ("parser", "vlm"):
        with step(f"building the image of {service}"):
            project.compose("build", service, timeout=2400)
    say(f"disk in use: {shutil.disk_usage(ROOT).used / 2**30:.1f} GiB")
    config = project.config()
    return {name: config["services"][name]["image"] for name in ("vlm", "parser")}


def demo_models(folder: Path) -> Path:
    """A models folder with nothing but the demo weights, readable by the images' user."""
    models = folder / "models"
    shutil.copytree(ROOT / "models/demo", models / "demo")
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    # pytest's folders are closed to other users; a bind mount begins at `models` itself.
    return models


@pytest.fixture(scope="session")
def bundle(cpu_images: dict[str, str], build_environment: dict[str, str],
           tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """`HARDWARE=cpu docker compose up --wait`; removed with its volumes at the end."""
    env = build_environment | {"MODELS_DIR": str(demo_models(tmp_path_factory.mktemp("bundle"))),
                               "PARSER_PORT": str(free_port())}
    project = Project("paddleocr-vl-test", env)
    try:
        with step("docker compose up --wait"):
            project.compose("up", "--detach", "--no-build", "--wait", "--wait-timeout", "1500", timeout=1600)
        yield project
    finally:
        if any(project.states()):
            sys.stderr.write(project.compose("logs", "--tail", "60", check=False).stdout)
        project.compose("down", "--volumes", "--timeout", "60", check=False, timeout=300)
