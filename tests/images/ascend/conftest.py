# SPDX-License-Identifier: Apache-2.0
"""The VLM images of both stacks, each built on the simulated CANN that it wants, as far as their sources are here."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import atlas
from bundle.environments.setup import ENVIRONMENTS
from bundle.paths import REQUIREMENTS
from bundle.wheels import MANIFEST
from tests.images.conftest import WHEELS, stage
from tests.images.project import Project
from tests.support.ascend_sources import SETTING, STACKS, Stack, sources
from tests.support.paths import ROOT

CANN = Path(__file__).parent / "simulated_cann"


@dataclass(frozen=True)
class Built:
    """An image of one stack: `stage` is how far it was built, "vlm" where vllm-ascend's sources are here."""

    project: Project
    stack: Stack
    stage: str
    image: str

    def inside(self, *words: str, check: bool = True, options: tuple[str, ...] = ()) -> str:
        """Output of a command in a container, held in as compose would."""
        held = ("--read-only", "--cap-drop", "ALL", "--tmpfs", "/tmp")
        run = ("--tmpfs", "/run/paddleocr-vl:mode=0700,uid=10001,gid=10001")
        env = ("--env", "TORCH_DEVICE_BACKEND_AUTOLOAD=0")
        return self.project.docker(
            "run", *options, "--rm", *held, *run, *env, self.image, *words, check=check, timeout=900
        ).stdout

    def python(self, code: str, options: tuple[str, ...] = ()) -> str:
        """The last line that a program prints; the stage `vllm` has the environment, but not yet its PATH."""
        return self.inside("/opt/venv/vlm/bin/python", "-c", code, options=options).splitlines()[-1]


def build(
    project: Project,
    stack: Stack,
    target: str,
    contexts: dict[str, Path],
    soc: str = atlas.DEFAULT.soc,
    arguments: dict[str, str] | None = None,
    file: str = "Dockerfile.ascend",
) -> str:
    """Build one stage of Dockerfile.ascend, or of `file`, with the stack's arguments for a chip; returns the image's
    name."""
    image = f"paddleocr-vl/test-{target}-{soc}:{stack.name}"
    words = ["--load", "--network", "host", "--file", file, "--target", target, "--tag", image]
    own = {"CANN_IMAGE": project.env["CANN_IMAGE"], "CANN_DIGEST": "", "SOC_VERSION": soc, "VLLM_ASCEND_IMAGE": ""}
    for name, value in {**stack.args, **own, **(arguments or {})}.items():
        words += ["--build-arg", f"{name}={value}"]
    for name, folder in contexts.items():
        words += ["--build-context", f"{name}={folder}"]
    words += ["--secret", f"id=ca_bundle,src={project.env['CA_BUNDLE']}"]
    project.docker("buildx", "build", *words, str(ROOT), timeout=3600)
    return image


@pytest.fixture(scope="package")
def ascend_wheels() -> Path:
    """The folder of wheels of the Ascend images, apart from that of the CPU images, which would be built again."""
    folder = WHEELS.with_name(f"{WHEELS.name}-ascend")
    names = ["supervisor", *(Stack(name).environment for name in STACKS)]
    link_known(folder, names)
    with stage("the wheels of the Ascend images"):
        subprocess.run([ROOT / "scripts/fetch_wheels.sh", "--dir", folder, *names], check=True)
    return folder


def link_known(folder: Path, names: list[str]) -> None:
    """Give a folder the wheels of the CPU images that the environments' locks name too. Half of them are the same, and
    fetch_wheels.sh checks each."""
    folder.mkdir(parents=True, exist_ok=True)
    locks = [REQUIREMENTS / "bootstrap.txt", *(ENVIRONMENTS[name].lock for name in names)]
    named, manifest = "".join(lock.read_text() for lock in locks), WHEELS / MANIFEST
    for line in manifest.read_text().splitlines() if manifest.is_file() else ():
        digest, name = line.split()
        if digest in named and not (folder / name).exists():
            (folder / name).hardlink_to(WHEELS / name)


def simulated_cann(stack: Stack, environment: dict[str, str], wheels: Path) -> str:
    """The simulated CANN image of a stack: its version's folders, and libraries with what its torch_npu looks for."""
    version = cann_version(stack)
    image = f"cann-simulated:{version}"
    (wheel,) = wheels.glob(f"torch_npu-{stack.args['TORCH_VERSION']}*.whl")
    words = ["buildx", "build", "--load", "--network", "host", "--tag", image, "--build-arg", f"CANN={version}"]
    with stage(f"the simulated CANN {version} image"), tempfile.TemporaryDirectory() as alone:
        shutil.copy(wheel, alone)
        for name, folder in {"torch_npu": alone, "support": ROOT / "tests/support"}.items():
            words += ["--build-context", f"{name}={folder}"]
        Project("paddleocr-vl-ascend", environment).docker(*words, str(CANN), timeout=900)
    return image


def cann_version(stack: Stack) -> str:
    """8.3 of 8.3.RC2."""
    return ".".join(stack.args["CANN_VERSION"].split(".")[:2])


@pytest.fixture(scope="package", params=STACKS)
def built(
    request: pytest.FixtureRequest,
    build_environment: dict[str, str],
    ascend_wheels: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Built:
    """The VLM image of a stack, or its stage `vllm` where vllm-ascend's sources of this stack are not here."""
    stack = Stack(request.param)
    found = sources(stack, tmp_path_factory.mktemp("sources"))
    cann = simulated_cann(stack, build_environment, ascend_wheels)
    settings = {"HARDWARE": "ascend", "STACK": stack.name, "NPU_IDS": "0", "CANN_IMAGE": cann}
    settings |= {"WHEELS_DIR": str(ascend_wheels)}
    settings |= {"VLLM_ASCEND_SOURCE": str(found or CANN / "catlass"), "CATLASS_SOURCE": str(CANN / "catlass")}
    project = Project("paddleocr-vl-ascend", build_environment | settings)
    if found is None:
        with stage(f"building the stage vllm of stack {stack.name}"):
            return Built(project, stack, "vllm", build(project, stack, "vllm", {"wheels": ascend_wheels}))
    with stage(f"building the Ascend image of stack {stack.name}"):
        print(project.compose("build", "--progress", "plain", "vlm", timeout=3600).stdout[-4000:])
    return Built(project, stack, "vlm", stack.image)


@pytest.fixture(scope="package")
def ascend(built: Built) -> Built:
    """The whole image; skips where the stack's sources are not here."""
    if built.stage != "vlm":
        commit = built.stack.args["VLLM_ASCEND_VERSION"]
        pytest.skip(f"the sources of vllm-ascend {commit[:7]} are not here: {SETTING} names a folder or git repository")
    return built


@pytest.fixture(scope="package")
def facts(built: Built) -> dict[str, Any]:
    """What one program finds in the image: importing vLLM takes seconds."""
    return json.loads(built.python((Path(__file__).parent / "inside.py").read_text()))


def built_for(
    product: atlas.Product, target: str, whole: Built, wheels: Path, file: str = "Dockerfile.ascend"
) -> Built:
    """A stage in which vllm-ascend is compiled for a product, or a later one; for A3, from the layers of the image."""
    contexts = {"wheels": wheels}
    for name, setting in (("vllm_ascend", SETTING), ("catlass", "CATLASS_SOURCE")):
        contexts[name] = Path(whole.project.env[setting])
    with stage(f"the stage {target} of stack {whole.stack.name} for {product.soc}"):
        image = build(whole.project, whole.stack, target, contexts, product.soc, file=file)
    return Built(whole.project, whole.stack, target, image)


@pytest.fixture(scope="package")
def kernels(ascend: Built, ascend_wheels: Path) -> Built:
    return built_for(atlas.DEFAULT, "kernels", ascend, ascend_wheels)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    reason = "the simulated libraries were tried with the x86-64 wheel of torch_npu"
    if os.uname().machine != "x86_64":
        for item in items:
            item.add_marker(pytest.mark.skip(reason=reason))
