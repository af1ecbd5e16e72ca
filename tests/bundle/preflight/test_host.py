# SPDX-License-Identifier: Apache-2.0
"""The machine itself: kernel, memory, sizes, commands; and the stack that weights need."""

from __future__ import annotations

import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from bundle import envfile
from bundle.compose import project
from bundle.preflight import host
from bundle.preflight import machine as machine_module
from bundle.preflight.machine import Machine
from tests.bundle.preflight.node import Node, by_check
from tests.support.paths import ROOT


def test_a_kernel_without_landlock_is_a_warning(tmp_path: Path):
    node = Node(tmp_path, "a3")
    assert [finding.level for finding in host.check_isolation(node)] == ["PASS"]
    node.lacks = ["landlock"]
    (found,) = host.check_isolation(node)
    assert (found.level, found.found) == ("WARN", "the kernel has no landlock") and "docs/secure.md" in found.remedy


def test_a_password_with_a_dollar_is_a_warning_that_does_not_show_it(tmp_path: Path):
    values = envfile.parse("AWS_SECRET_ACCESS_KEY=s3cret$word\nVLM_ARGS='--seed 1'\n", {})
    assert values["AWS_SECRET_ACCESS_KEY"] == "s3cret"
    found = by_check(Node(tmp_path, "a3", **values))["settings"]
    assert (found.level, found.remedy) == ("WARN", "AWS_SECRET_ACCESS_KEY='...' in .env")
    assert "s3cret" not in str(found) and "word" not in found.found


def test_memory_is_that_of_the_replicas(tmp_path: Path):
    """128 GiB are enough for the two replicas of one card, whatever VLM_MEM_LIMIT would allow, and not for all dies."""
    one = by_check(Node(tmp_path / "one", "a3", NPU_IDS="0-1"))["memory"]
    assert one.level == "PASS"
    whole = Node(tmp_path / "all", "a3", NPU_IDS="")
    whole.put("/proc/meminfo", f"MemTotal: {100 << 20} kB\n")
    found = by_check(whole)["memory"]
    assert (found.level, found.found, found.needed) == ("WARN", "100 GiB", "130 GiB for all replicas and the parser")


@pytest.mark.parametrize(
    ("hardware", "values", "needed"),
    [
        ("ascend", {"PARSER_WORKERS": "32"}, None),
        ("cpu", {"PARSER_WORKERS": "4"}, None),
        ("cpu", {"PARSER_WORKERS": "16"}, "25 GiB for so many"),
        ("ascend", {"PARSER_WORKERS": "16", "PARSER_MEM_LIMIT": "12g"}, "25 GiB for so many"),
    ],
)
def test_workers_fit_into_the_parsers_memory(tmp_path: Path, hardware, values, needed):
    found = by_check(Node(tmp_path, "a3", HARDWARE=hardware, **values)).get("workers")
    assert (found and found.needed) == needed
    assert found is None or found.remedy.startswith("PARSER_MEM_LIMIT=25g in .env")


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"PARSER_CALLBACK_HOSTS": "a.example"}, "no secret to sign them"),
        ({"VLM_PRECISION": "int8"}, "VLM_PRECISION is int8"),
        ({"VLM_GRAPH_MODE": "full", "STACK": "0.11.1"}, "stack 0.11.1 pads the steps"),
        ({"VLM_GRAPH_MODE": "piecewise", "VLM_ENFORCE_EAGER": "1"}, "VLM_ENFORCE_EAGER is 1"),
        ({"VLM_GRAPH_MODE": "piecewise", "ATLAS": "310p", "STACK": "0.23.0"}, "serves without graphs"),
        ({"VLM_ARGS": "--seed '1"}, "No closing quotation"),
        ({"VLM_ARGS": "--port=9000", "HARDWARE": "cpu"}, "VLM_ARGS has '--port=9000'"),
        ({"VLM_ARGS": "-tp2"}, "VLM_ARGS has '-tp2'"),
        ({"VLM_ARGS": "-O0", "VLM_GRAPH_MODE": "piecewise"}, "VLM_ARGS has '-O0', which takes its place"),
        ({"VLM_CORES": "0-3", "NPU_IDS": ""}, "VLM_CORES has 1 of 16 lists"),
        ({"VLM_CORES": "0;1", "HARDWARE": "cpu", "VLM_REPLICAS": "3"}, "VLM_CORES has 2 of 3 lists"),
    ],
)
def test_settings_that_a_container_refuses_beside_others(tmp_path: Path, values: dict[str, str], said: str):
    """It would be started again for ever."""
    [found] = host.check_settings(Node(tmp_path, None, **values))
    assert found.level == "FAIL" and said in found.found


@pytest.mark.parametrize(
    "values",
    [
        {"PARSER_CALLBACK_HOSTS": "a.example", "PARSER_CALLBACK_SECRETS_FILE": "/run/secrets"},
        {"VLM_GRAPH_MODE": "full", "STACK": "0.23.0"},
        {"VLM_GRAPH_MODE": "none", "VLM_ENFORCE_EAGER": "1", "ATLAS": "310p", "STACK": "0.23.0"},
        {"VLM_ARGS": "--seed 1 -O0"},
        {"VLM_ARGS": "-tp2 -O0", "VLM_GRAPH_MODE": "full", "HARDWARE": "cpu"},
        {"VLM_CORES": "0-3;4-7", "NPU_IDS": "0-1"},
        {"VLM_CORES": "0-3", "VLM_REPLICAS": "1"},
        {"VLM_PRECISION": "int8", "HARDWARE": "cpu", "VLM_CORES": "0-3"},
        {"VLM_CORES": "none", "NPU_IDS": ""},
    ],
)
def test_settings_that_go_together(tmp_path: Path, values: dict[str, str]):
    assert [found.level for found in host.check_settings(Node(tmp_path, None, **values))] == ["PASS"]


@pytest.mark.parametrize(
    ("text", "size"),
    [("12g", 12), ("512m", 0.5), ("1048576k", 1), ("1.5T", 1536), (" 2GB ", 2), ("1073741824b", 1), ("1073741824", 1)]
    + [("lots", None), ("", None), ("-1g", None)],
)
def test_a_size_is_read_as_compose_writes_it(text: str, size: float | None):
    assert machine_module.gibibytes(text) == size


def test_what_is_read_of_a_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    found = Machine({"HARDWARE": "", "NPU_IDS": "", "ATLAS": "a2"}, tmp_path)
    assert (found.hardware, found.setting("NPU_IDS"), found.product.key) == ("ascend", "", "a2")
    assert found.read("/proc/meminfo") == "" and found.memory() == 0
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemFree: 7 kB\nMemTotal:       2048 kB\n")
    assert found.memory() == 2 << 20
    assert found.run("sh", "-c", "echo out; echo err >&2") == "out\n"
    assert found.run("sh", "-c", "echo out; exit 1") is None and found.run(str(tmp_path / "none")) is None
    monkeypatch.setattr(machine_module.shutil, "disk_usage", lambda path: SimpleNamespace(free=len(str(path))))
    assert found.free_disk(tmp_path / "not/there/yet") == len(str(tmp_path))
    assert [project.version(text) for text in ("v2.20.3-desktop", "Docker 25.0", "none")] == [
        (2, 20, 3),
        (25, 0),
        (),
    ]


def test_programs_that_sudos_path_lacks():
    """As on Red Hat's relatives, whose secure_path has no folder below /usr/local."""
    words = ["bash", "-c", f'source {ROOT}/scripts/lib/python.sh; printf %s "$PATH"']
    done = subprocess.run(words, env={"PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=True)
    assert done.stdout == "/usr/bin:/bin:/usr/local/sbin:/usr/local/bin"


def test_compose_is_asked_in_this_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    assert Machine().run("pwd") == f"{ROOT}\n"


def test_a_stack_that_cannot_serve_the_model_is_told_before_it_is_built(tmp_path: Path):
    node = Node(tmp_path, "a3", VLM_MODEL="Qwen2-VL-2B-Instruct")
    found = by_check(node)["stack"]
    assert found.level == "FAIL" and "Qwen2-VL-2B-Instruct needs stack 0.23.0 on Ascend, but" in found.found
    node.values = {**node.values, "STACK": "0.23.0"}
    assert "stack" not in by_check(node)
