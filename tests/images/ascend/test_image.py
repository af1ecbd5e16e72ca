# SPDX-License-Identifier: Apache-2.0
"""Dockerfile.ascend on a stand-in for CANN: every step, path, user, argument and entry point, but no kernel and no NPU.

docs/operations.md lists what this cannot show.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import ROOT, stage
from project import Project

from bundle.environments import ENVIRONMENTS
from bundle.paths import ENVS_DIR
from bundle.uv import ensure_uv, registry_environment

STANDIN = Path(__file__).parent / "standin"
STACK, PACKAGE = "0.12.0", "vllm-ascend==0.12.0rc1"

pytestmark = pytest.mark.skipif(os.uname().machine != "x86_64", reason="the stubs were tried with the x86-64 wheel of torch_npu")


@pytest.fixture(scope="module")
def ascend(build_environment: dict[str, str], wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The VLM image of the second stack, built on the stand-in."""
    assert ENVIRONMENTS["vlm-ascend-0.12"].lock.is_file()
    with stage("the wheels of the second stack"):
        subprocess.run([ROOT / "scripts/fetch_wheels.sh", "--images", "supervisor", "vlm-ascend-0.12"], check=True)
    sources = tmp_path_factory.mktemp("sources") / "vllm-ascend"
    shutil.copytree(STANDIN / "vllm_ascend", sources)
    ensure_uv()
    subprocess.run([str(ENVS_DIR / "bootstrap/bin/python"), "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:", "-d",
                    str(sources), PACKAGE], env=registry_environment(), check=True)
    project = Project("paddleocr-vl-ascend", build_environment | {
        "HARDWARE": "ascend", "STACK": STACK, "NPU_IDS": "0", "CANN_IMAGE": "cann-standin:8.3",
        "VLLM_ASCEND_SOURCE": str(sources), "CATLASS_SOURCE": str(STANDIN / "catlass")})
    with stage("the stand-in for the CANN image"):
        project.docker("buildx", "build", "--load", "--network", "host", "--build-context", f"wheels={wheels}", "--tag",
                       "cann-standin:8.3", str(STANDIN), timeout=900)
    with stage("building the Ascend image"):
        output = project.compose("build", "--progress", "plain", "vlm", timeout=2400).stdout
    print(output[-4000:])
    assert "SHIM: no kernel is compiled for ascend910_9391" in output or "CACHED" in output
    return project


def inside(project: Project, *words: str, check: bool = True, options: tuple[str, ...] = ()) -> str:
    """Output of a command through the image's entry point, held in as compose would."""
    return project.docker("run", *options, "--rm", "--read-only", "--cap-drop", "ALL", "--tmpfs", "/tmp", "--tmpfs",
                          "/run/paddleocr-vl:mode=0700,uid=10001,gid=10001", "--env", "TORCH_DEVICE_BACKEND_AUTOLOAD=0",
                          f"paddleocr-vl/vlm-ascend:{STACK}", *words, check=check, timeout=900).stdout


def test_the_platform_and_our_plugin_import(ascend: Project):
    code = ("import torch, torch_npu, vllm, vllm_ascend\n"
            "from vllm.platforms import current_platform\n"
            "from vllm import ModelRegistry\n"
            "from vllm.plugins import load_general_plugins\n"
            "load_general_plugins()\n"
            "architecture = 'PaddleOCRVLForConditionalGeneration'\n"
            "entry = ModelRegistry.models[architecture]\n"
            "print(torch.__version__, torch_npu.__version__, vllm.__version__, type(current_platform).__name__,\n"
            "      torch.npu.device_count(), entry.module_name)\n")
    words = inside(ascend, "python", "-c", code).splitlines()[-1].split()
    assert words[0].startswith("2.8.0") and words[1].startswith("2.8.0") and words[2].startswith("0.12.0")
    assert words[3:5] == ["NPUPlatform", "0"] and words[5].startswith("vlm_models.")


def test_vllm_serve_help(ascend: Project):
    assert "--max-model-len" in inside(ascend, "vllm", "serve", "--help=max-model-len")


def test_triton_is_not_there(ascend: Project):
    code = "import importlib.util; print(importlib.util.find_spec('triton'))"
    assert inside(ascend, "python", "-c", code).splitlines()[-1] == "None"


def test_the_entry_point_sources_cann_and_atb_for_a_user_without_power(ascend: Project, tmp_path: Path):
    # As the node's driver lies: its libraries are in two folders below lib64.
    for name in ("common", "driver"):
        (tmp_path / "lib64" / name).mkdir(parents=True)
    mount = ("--volume", f"{tmp_path}/lib64:/usr/local/Ascend/driver/lib64:ro")
    env = dict(line.split("=", 1) for line in inside(ascend, "env", options=mount).splitlines() if "=" in line)
    paths = env["LD_LIBRARY_PATH"].split(":")
    assert [path for path in paths if "/driver/" in path] == [
        f"/usr/local/Ascend/driver/lib64{name}" for name in ("", "/common", "/driver")]
    assert any("/ascend-toolkit/" in path for path in paths) and any("/nnal/" in path for path in paths)
    assert env["ASCEND_HOME_PATH"].endswith("/ascend-toolkit/latest") and "/nnal/atb/" in env["ATB_HOME_PATH"]
    assert env["SOC_VERSION"] == "ascend910_9391" and "ASCEND_VISIBLE_DEVICES" not in env
    assert env["PYTORCH_NPU_ALLOC_CONF"] == "expandable_segments:True" and env["TASK_QUEUE_ENABLE"] == "1"
    assert inside(ascend, "id", "-u").strip() == "10001"
    for folder in (env["HOME"], env["ASCEND_PROCESS_LOG_PATH"]):
        assert inside(ascend, "sh", "-c", f"mkdir -p {folder} && touch {folder}/x && echo written").endswith("written\n")


def test_without_a_die_it_ends_with_one_line(ascend: Project):
    output = inside(ascend, check=False)
    assert [line for line in output.splitlines() if line.startswith("error:")] == [
        "error: no /dev/davinci* is mounted; NPU_IDS must name dies of this node (npu-smi info)"]


def test_the_wheel_is_for_this_chip(ascend: Project):
    code = "from vllm_ascend._build_info import __device_type__ as kind; print(kind)"
    assert inside(ascend, "python", "-c", code).splitlines()[-1] == "_910_93"


def test_labels_say_every_pinned_version(ascend: Project):
    labels = json.loads(ascend.docker("image", "inspect", f"paddleocr-vl/vlm-ascend:{STACK}").stdout)[0]["Config"]["Labels"]
    args = ascend.config()["services"]["vlm"]["build"]["args"]
    expected = {"stack": "STACK", "cann": "CANN_VERSION", "vllm": "VLLM_VERSION", "vllm-ascend": "VLLM_ASCEND_VERSION",
                "torch": "TORCH_VERSION", "torch-npu": "TORCH_VERSION", "transformers": "TRANSFORMERS_VERSION"}
    assert {name: labels[f"paddleocr-vl.{name}"] for name in expected} == {
        name: str(args[argument]) for name, argument in expected.items()}
    versions = inside(ascend, "python", "-c", "import importlib.metadata as m\nfor n in ('torch-npu', 'transformers'):\n"
                      "    print(m.version(n))").splitlines()[-2:]
    assert versions[0].startswith(labels["paddleocr-vl.torch-npu"]) and versions[1] == labels["paddleocr-vl.transformers"]
