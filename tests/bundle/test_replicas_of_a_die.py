# SPDX-License-Identifier: Apache-2.0
"""What the replicas of a die share: memory, cache, requests at once and graphs; what does not fit is refused."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
from pathlib import Path

import pytest

import npu_smi
from tests.support.launched import SERVING, resolve, settings, value
from tests.support.paths import ROOT
from tests.support.weights import PUBLISHED, make_weights
from tool_errors import UsageError
from vlm_server import die_memory
from vlm_server.__main__ import main
from vlm_server.command import build_command, max_num_seqs
from vlm_server.die_memory import BESIDES, check_graphs_of_a_die, fit_to_die, share_of_a_replica
from vlm_server.settings import Settings
from vlm_server.words import last_value, video_megapixels


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
    check_graphs_on_die(tmp_path, "PaddleOCR-VL", "0.11.1", 8, f"--max-num-seqs 4096 {word} 2")


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


@pytest.mark.parametrize(("text", "expected"), [("", "0.8"), ("0.65", "0.65")])
def test_memory_of_a_die_by_one_variable(tmp_path: Path, text: str, expected: str):
    make_weights(tmp_path / "PaddleOCR-VL")
    chosen = settings(tmp_path, HARDWARE="ascend", VLM_MEMORY_UTILIZATION=text)
    assert value(build_command(chosen, SERVING, resolve(chosen), []), "--gpu-memory-utilization") == expected


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


GIB_32, GIB_64 = 32768 << 20, 65536 << 20


def on_die(tmp_path: Path, name: str, total: int | None, replicas: int = 1, words: str = "") -> list[str]:
    """The command of a replica of the model `name`, with weights of its size, on a die of `total` bytes."""
    said, size = PUBLISHED[name]
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
        ("HunyuanOCR", GIB_64, 1, "--dtype float32", 1997),
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


@pytest.mark.parametrize("name", PUBLISHED)
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
    refused = ("check_graphs", "check_precision", "check_videos", "check_graphs_of_a_die")
    for check in refused:

        def refuse(*_: object, name: str = check) -> None:
            raise UsageError(f"{name} refuses")

        with monkeypatch.context() as patch:
            patch.setattr(f"vlm_server.__main__.{check}", refuse)
            assert main(["--print-command"]) == 2 and f"{check} refuses" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "value", "asked_for"),
    [("VLM_ARGS", "--api-key first other --max-num-seqs 7", ["first", "other"]), ("VLLM_API_KEY", "first", ["first"])],
)
def test_keys_reach_the_middleware_as_digests_and_vllm_not_at_all(
    name: str, value: str, asked_for: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
):
    """vLLM logs its arguments, and every user of a machine sees those of a process."""
    make_weights(tmp_path / "PaddleOCR-VL")
    for known, text in {"HARDWARE": "cpu", "MODELS_DIR": str(tmp_path), "VLM_MODEL": "", name: value}.items():
        monkeypatch.setenv(known, text)
    became: list[tuple[list[str], dict[str, str]]] = []
    monkeypatch.setattr(os, "execve", lambda program, command, env: became.append((command, env)))
    main([])
    ((command, env),) = became
    assert env["VLM_KEY_DIGESTS"] == ",".join(hashlib.sha256(key.encode()).hexdigest() for key in asked_for)
    assert not {"--api-key", "first", "other"} & set(command) and "VLLM_API_KEY" not in env
    assert (command[-2:] == ["--max-num-seqs", "7"]) == (name == "VLM_ARGS")
    capsys.readouterr()
    assert main(["--print-command"]) == 0 and "first" not in capsys.readouterr().out
    assert main(["--check"]) == 0 and json.loads(capsys.readouterr().out)["api_key"] == "first", "for the watchdog"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], ""),
        (
            ["--media-io-kwargs", '{"video": {"megapixels": 100}}', '--media-io-kwargs={"video": {"megapixels": 9}}'],
            "9",
        ),
        (["--media-io-kwargs", '{"video": {"fps": 1}}'], ""),
        (["--media-io-kwargs.video.megapixels", "9"], "9"),
    ],
)
def test_the_middleware_is_told_what_a_video_may_have(words: list[str], told: str):
    assert video_megapixels(["vllm", "serve", *words]) == told


def test_without_the_middleware_vllm_keeps_its_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    make_weights(tmp_path / "PaddleOCR-VL")
    config = (ROOT / "config/models.yaml").read_text().replace("vlm_models.middleware.ChatOnly", "site.Middleware")
    (tmp_path / "models.yaml").write_text(config)
    told = {"HARDWARE": "cpu", "MODELS_DIR": str(tmp_path), "MODELS_CONFIG": str(tmp_path / "models.yaml")}
    for name, text in {**told, "VLM_MODEL": "", "VLM_ARGS": "--api-key first"}.items():
        monkeypatch.setenv(name, text)
    assert main(["--print-command"]) == 0 and "--api-key first" in capsys.readouterr().out


def test_the_check_names_the_entry_that_the_container_settles_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    make_weights(tmp_path / "PaddleOCR-VL")
    for name, text in {"HARDWARE": "cpu", "MODELS_DIR": str(tmp_path), "VLM_MODEL": ""}.items():
        monkeypatch.setenv(name, text)
    found = {"model": "PaddleOCR-VL-0.9B", "max_num_seqs": 16, "entry": "PaddleOCR-VL", "api_key": None}
    assert main(["--check"]) == 0 and json.loads(capsys.readouterr().out) == found
    assert main(["--check", "--", "--max-num-seqs", "7"]) == 0
    assert json.loads(capsys.readouterr().out) == found | {"max_num_seqs": 7}
    # The watchdog asks by what VLM_ARGS say: a refusal would tell nothing of the engine.
    monkeypatch.setenv("VLM_ARGS", "--served-model-name mine yours --api-key=first")
    assert main(["--check"]) == 0
    assert json.loads(capsys.readouterr().out) == found | {"model": "mine", "api_key": "first"}
    monkeypatch.delenv("VLM_ARGS")
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
