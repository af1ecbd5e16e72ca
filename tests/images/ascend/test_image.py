# SPDX-License-Identifier: Apache-2.0
"""Dockerfile.ascend on a simulated CANN: every step, path, user, argument and entry point of both stacks, but no NPU.

docs/tried.md lists what this cannot show.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import atlas
from tests.images.ascend.compiled import DEVICE_TYPES
from tests.images.ascend.conftest import Built
from tests.images.bill import check_bill
from tests.images.contents import check_contents

# Where each stack's CANN has its toolkit, behind all links.
TOOLKIT = {"0.11.1": "/usr/local/Ascend/ascend-toolkit/latest", "0.23.0": "/usr/local/Ascend/cann-9.1.0"}


def test_the_libraries_have_the_versions_of_the_stack(built: Built, facts: dict[str, Any]):
    """And what CANN's Python parts import can be imported beside them."""
    args = built.stack.args
    for name, argument in (("torch", "TORCH"), ("torch_npu", "TORCH"), ("vllm", "VLLM")):
        assert facts[name].startswith(args[f"{argument}_VERSION"])
    assert facts["transformers"] == args["TRANSFORMERS_VERSION"]
    assert facts["triton"] is False


def test_the_platform_and_our_plugin_import(ascend: Built, facts: dict[str, Any]):
    assert (facts["platform"], facts["devices"]) == ("NPUPlatform", 0)
    assert facts["model"].startswith("vlm_models.")


def test_the_wheel_is_for_this_chip(ascend: Built, facts: dict[str, Any]):
    assert facts["device_type"] == DEVICE_TYPES[atlas.DEFAULT.key][ascend.stack.name]


def test_vllm_serve_help(ascend: Built):
    assert "--max-model-len" in ascend.inside("vllm", "serve", "--help=max-model-len")


def test_the_entry_point_sources_cann_and_atb_for_a_user_without_power(ascend: Built, tmp_path: Path):
    # As the node's driver lies: its libraries are in two folders below lib64.
    for name in ("common", "driver"):
        (tmp_path / "lib64" / name).mkdir(parents=True)
    mount = ("--volume", f"{tmp_path}/lib64:/usr/local/Ascend/driver/lib64:ro")
    env = dict(line.split("=", 1) for line in ascend.inside("env", options=mount).splitlines() if "=" in line)
    paths = env["LD_LIBRARY_PATH"].split(":")
    assert [path for path in paths if "/driver/" in path] == [
        f"/usr/local/Ascend/driver/lib64{name}" for name in ("", "/common", "/driver")
    ]
    toolkit = TOOLKIT[ascend.stack.name]
    assert f"{toolkit}/lib64" in paths
    # The published CANN image says cxx_abi_0; ATB's own file asks our torch.
    assert any(path.endswith("/nnal/atb/latest/atb/cxx_abi_1/lib") for path in paths)
    assert env["ASCEND_HOME_PATH"] == toolkit and "/nnal/atb/" in env["ATB_HOME_PATH"]
    assert env["SOC_VERSION"] == "ascend910_9391" and "ASCEND_VISIBLE_DEVICES" not in env
    assert env["PYTORCH_NPU_ALLOC_CONF"] == "expandable_segments:True" and env["TASK_QUEUE_ENABLE"] == "1"
    assert ascend.inside("id", "-u").strip() == "10001"
    home = env["HOME"]
    assert ascend.inside("sh", "-c", f"mkdir -p {home} && touch {home}/x && echo written").endswith("written\n")


def test_without_a_die_it_ends_with_one_line(ascend: Built):
    output = ascend.inside(check=False)
    assert [line for line in output.splitlines() if line.startswith("error:")] == [
        "error: no /dev/davinci* is mounted; NPU_IDS must name dies of this node (npu-smi info); "
        "in Kubernetes the device plugin brings them (docs/kubernetes.md, Ascend)"
    ]


def test_the_image_holds_only_what_its_container_runs(ascend: Built):
    check_contents(ascend.project, "vlm", ascend.image)
    check_bill(ascend.project, ascend.image)


def test_labels_say_every_pinned_version(ascend: Built):
    labels = json.loads(ascend.project.docker("image", "inspect", ascend.image).stdout)[0]["Config"]["Labels"]
    args = ascend.project.config()["services"]["vlm"]["build"]["args"]
    expected = {
        "stack": "STACK",
        "cann": "CANN_VERSION",
        "vllm": "VLLM_VERSION",
        "vllm-ascend": "VLLM_ASCEND_VERSION",
        "torch": "TORCH_VERSION",
        "torch-npu": "TORCH_VERSION",
        "transformers": "TRANSFORMERS_VERSION",
    }
    assert labels["paddleocr-vl.hardware"] == "ascend" and labels["org.opencontainers.image.title"].endswith("(Ascend)")
    assert {name: labels[f"paddleocr-vl.{name}"] for name in expected} == {
        name: str(args[argument]) for name, argument in expected.items()
    }
