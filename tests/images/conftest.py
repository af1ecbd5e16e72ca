# SPDX-License-Identifier: Apache-2.0
"""A real container engine, the images built from the wheel folder, and the bundle brought up by `docker compose up`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from bundle.progress import say, step
from free_ports import free_port
from tests.images.folders import demo_models
from tests.images.project import READY_SECONDS, Project
from tests.support.engine import daemon
from tests.support.engine.opened import open_engine
from tests.support.engine.packages import EngineError
from tests.support.paths import ROOT

WHEELS = ROOT / ".wheels" / os.uname().machine
CA_BUNDLE = Path("/etc/ssl/certs/ca-certificates.crt")
# The stack of the CPU images. The second one is tested on demand: IMAGES_STACK=0.23.0 scripts/test.sh images
STACK = os.environ.get("IMAGES_STACK") or "0.11.1"


@contextmanager
def stage(what: str) -> Iterator[None]:
    """Say how long a step took and how the disk filled."""
    used = shutil.disk_usage(ROOT).used
    with step(what):
        yield
    now = shutil.disk_usage(ROOT).used
    say(f"  {what}: {(now - used) / 2**30:+.1f} GiB, disk in use {now / 2**30:.1f} GiB")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of the bundle last, since it computes beside the others even when nobody asks it anything."""
    items.sort(key=lambda item: "bundle" in getattr(item, "fixturenames", ()))


@pytest.fixture(scope="session")
def engine() -> Iterator[daemon.Engine]:
    """An engine with the base image. A machine that cannot run one skips these tests; a base image that cannot be
    made fails them."""
    try:
        with open_engine() as found:
            yield found
    except EngineError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def wheels() -> Path:
    """The folder of wheels that the CPU images are built from. It has all of them from the beginning: a build that uses
    it runs again when a file is added."""
    pins = yaml.safe_load((ROOT / f"config/stacks/{STACK}.yaml").read_text())
    vlm = pins["services"]["vlm-cpu"]["build"]["args"]["VLM_ENVIRONMENT"]
    with stage("the wheels"):
        subprocess.run([ROOT / "scripts/fetch_wheels.sh", "supervisor", vlm, "parser", "corpus"], check=True)
    return WHEELS


@pytest.fixture(scope="session")
def build_environment(engine: daemon.Engine) -> dict[str, str]:
    """What a build here needs: the host's network for Debian packages, the machine's certificates, a folder of
    wheels. `wheels` fills it for the CPU images."""
    unset = (
        "VLM_MODEL",
        "LAYOUT_MODEL_DIR",
        "LAYOUT_SERVER",
        "LAYOUT_URL",
        "VLM_URL",
        "PYTHONPATH",
        "PARSER_BIND",
        "STACK",
        "COMPOSE_FILE",
    )
    WHEELS.mkdir(parents=True, exist_ok=True)
    env = {key: value for key, value in engine.environment.items() if key not in unset}
    return env | {
        "BUILD_NETWORK": "host",
        "WHEELS_DIR": str(WHEELS),
        "HARDWARE": "cpu",
        "STACK": STACK,
        "CA_BUNDLE": str(CA_BUNDLE if CA_BUNDLE.is_file() else "/dev/null"),
    }


@pytest.fixture(scope="session")
def cpu_images(build_environment: dict[str, str], wheels: Path) -> dict[str, str]:
    """Both CPU images, built; service -> image name."""
    project = Project("paddleocr-vl-test", build_environment)
    for service in ("parser", "vlm"):
        with stage(f"building the image of {service}"):
            project.compose("build", service, timeout=2400)
    config = project.config()
    images = {name: config["services"][name]["image"] for name in ("vlm", "parser")}
    for image in images.values():
        size = int(project.docker("image", "inspect", "--format", "{{.Size}}", image).stdout)
        say(f"  {image}: {size / 1e9:.2f} GB")
    return images


@pytest.fixture(scope="session")
def bundle(
    cpu_images: dict[str, str], build_environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Project]:
    """`HARDWARE=cpu docker compose up --wait`, with a layout server; removed with its volumes at the end."""
    env = build_environment | {
        "MODELS_DIR": str(demo_models(tmp_path_factory.mktemp("bundle"))),
        "PARSER_PORT": str(free_port()),
        "LAYOUT_SERVER": "1",
        "LAYOUT_DEVICE": "cpu",
        "LAYOUT_URL": "http://vlm:8001",
        # Plans for several pages take further seconds to make.
        "LAYOUT_BATCH": "1",
        # A second worker takes seconds of each start; others' bundles have two.
        "PARSER_WORKERS": "1",
    }
    project = Project("paddleocr-vl-test", env)
    try:
        with stage("docker compose up --wait"):
            project.compose("up", "--detach", "--no-build", "--wait", "--wait-timeout", "1500", timeout=1600)
            project.wait_for(project.layout_up, READY_SECONDS, "the layout server answers")
        yield project
    finally:
        if any(project.states()):
            sys.stderr.write(project.compose("logs", "--tail", "60", check=False).stdout)
        project.compose("down", "--volumes", "--timeout", "60", check=False, timeout=300)


@pytest.fixture(scope="session")
def two_replicas(bundle: Project) -> Project:
    """The same bundle with two replicas and a watchdog that is in a hurry. The layout server is gone
    from then on: tests of it come before."""
    bundle.env |= {"VLM_REPLICAS": "2", "WATCHDOG_INTERVAL_S": "3", "WATCHDOG_TIMEOUT_S": "10", "LAYOUT_SERVER": ""}
    bundle.compose("up", "--detach", "--no-build", "--wait", "--wait-timeout", "1200", timeout=1300)
    bundle.wait_for(lambda: bundle.replicas_up() == 2, READY_SECONDS, "both replicas answer")
    return bundle
