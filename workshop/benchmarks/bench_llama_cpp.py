#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Our VLM server on a CPU against llama.cpp's, which people take there: the same shapes, crops, answers and threads.

    python3.11 workshop/benchmarks/bench_llama_cpp.py --llama_cpp DIR --work DIR [--servers ours:bfloat16 ours:int8
                           llama.cpp:F16 llama.cpp:Q8_0 llama.cpp:Q4_K_M] [--every 1] [--rounds 1] [--json]

--llama_cpp is its source tree, built for this processor:

    cmake -S DIR -B DIR/build -G Ninja -DCMAKE_BUILD_TYPE=Release -DGGML_NATIVE=ON -DLLAMA_BUILD_TESTS=OFF
          -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_UI=OFF -DLLAMA_USE_PREBUILT_UI=OFF -DLLAMA_OPENSSL=OFF
    cmake --build DIR/build --target llama-server llama-quantize

The weights are random, in the published shapes (--work keeps them; 2 GB, and as GGUF 4 GB). Servers are measured one
after another, a round after a round, by the chat completions that both offer: the page's crops one at a time and 16 at
once, prefill by prompts that are longer, the start and the memory. `encode` is the first token's time without prefill.
--every 3 takes each third crop. `ours:auto` is the processor's own type: float32 where it has no bfloat16.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import bench_serving
from bench_serving import Answer, ask, run_level
from model_bench.crops import PAGE

ROOT = Path(__file__).resolve().parents[2]
SERVERS = ("ours:bfloat16", "ours:int8", "llama.cpp:F16", "llama.cpp:Q8_0", "llama.cpp:Q4_K_M")
AT_ONCE, TOKENS, PORT = 16, 64, 8193
# Tokens of a request at most, and of a prompt of text: a crop's, on the mean.
CONTEXT, TEXT, PAIRS = 4096, 360, 5
START_SECONDS, ANSWER_SECONDS = 300.0, 1800.0
# Ours, without what llama.cpp's reader of templates does not know; it puts the image into the content by itself.
TEMPLATE = "<|begin_of_sentence|>{% for message in messages %}User: {{ message.content }}\nAssistant: {% endfor %}"
# Of llama.cpp: nothing that an earlier request left, and no end before TOKENS. Ours refuses `ignore_eos`, but random
# weights say the end once in 100,000 tokens.
OUTSIDE = {"cache_prompt": False, "ignore_eos": True}


def prepare(options: argparse.Namespace, shapes: Path) -> None:
    """Random weights, and their GGUF."""
    kinds = sorted({name.partition(":")[2] for name in options.servers if name.startswith("llama.cpp")})
    if not (shapes / "config.json").is_file():
        in_environment(options, "checkpoint", "--out", shapes, "--weights")
    if kinds:
        in_environment(options, "gguf_files", "--shapes", shapes, "--llama_cpp", options.llama_cpp, "--types", *kinds)


def in_environment(options: argparse.Namespace, module: str, *words: object) -> None:
    command = [str(options.python), "-m", f"model_bench.{module}", *map(str, words)]
    subprocess.run(command, env=environment(), check=True, stdout=sys.stderr)


def environment(**further: str) -> dict[str, str]:
    folders = ("workshop/benchmarks", "workshop", "model_code", "common")
    return {**os.environ, "PYTHONPATH": os.pathsep.join(str(ROOT / folder) for folder in folders), **further}


def command_of(name: str, options: argparse.Namespace, shapes: Path) -> tuple[list[str], dict[str, str]]:
    """The command line and the environment of a server."""
    whose, _, kind = name.partition(":")
    threads = str(options.threads)
    if whose == "ours":
        chosen = {"HARDWARE": "cpu", "MODELS_DIR": str(shapes.parent), "VLM_MODEL": shapes.name, "VLM_PRECISION": kind}
        own = environment(**chosen, VLM_PORT=str(PORT), OMP_NUM_THREADS=threads)
        return [str(options.python), "-m", "vlm_server"], own
    words = ["--host", "127.0.0.1", "--port", str(PORT), "--threads", threads, "--threads-batch", threads]
    words += ["--parallel", str(AT_ONCE), "--ctx-size", str(AT_ONCE * CONTEXT), "--no-cache-prompt", "--cache-ram", "0"]
    words += ["--mmproj", str(shapes / f"{kind}.projector.gguf"), "--model", str(shapes / f"{kind}.gguf")]
    words += ["--no-ui", "--jinja", "--chat-template", TEMPLATE]
    return [str(options.llama_cpp / "build/bin/llama-server"), *words], dict(os.environ)


@contextlib.contextmanager
def started(name: str, options: argparse.Namespace, shapes: Path) -> Iterator[tuple[subprocess.Popen[bytes], float]]:
    """A server that answers, and the seconds that its start took; its whole group is ended."""
    command, env = command_of(name, options, shapes)
    log = options.work / f"{name.replace(':', '-')}.log"
    began = time.monotonic()
    with log.open("wb") as output:
        process = subprocess.Popen(command, env=env, stdout=output, stderr=output, start_new_session=True)
    try:
        while not healthy():
            if process.poll() is not None or time.monotonic() - began > START_SECONDS:
                raise RuntimeError(f"{name} did not start; its log is {log}")
            time.sleep(0.2)
        yield process, time.monotonic() - began
    finally:
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError, subprocess.TimeoutExpired):
                os.killpg(process.pid, number)
                process.wait(20)


def healthy() -> bool:
    with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{PORT}/health", timeout=2) as answer:
        return bool(answer.status == 200)
    return False


def memory(group: int) -> float:
    """GiB that the processes of a group have had at most, added up."""
    total = 0
    for status in Path("/proc").glob("[0-9]*/status"):
        with contextlib.suppress(OSError, ValueError):
            if os.getpgid(int(status.parent.name)) == group:
                lines = status.read_text().splitlines()
                total += sum(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))
    return round(total / (1 << 20), 2)


def crop(name: str, model: str, number: int, tokens: int) -> bytes:
    """bench_serving's request."""
    return encoded(name, json.loads(bench_serving.body(model, number, tokens)))


def prefill(name: str, url: urllib.parse.SplitResult, model: str) -> float:
    """Seconds for a token of a prompt: what a smallest crop's first token takes longer with TEXT letters, each a token.

    Each picture is a new one, so that no server answers from what it kept.
    """
    smallest = min(range(len(PAGE)), key=lambda number: PAGE[number][0] * PAGE[number][1])
    seconds = []
    for pair in range(PAIRS):
        plain, longer = (
            json.loads(bench_serving.body(model, smallest + len(PAGE) * (2 * pair + n), 1)) for n in (1, 2)
        )
        longer["messages"][0]["content"][1]["text"] = "".join(
            chr(97 + (pair + at * (pair + 3)) % 26) for at in range(TEXT)
        )
        before, behind = (ask(url, encoded(name, document), ANSWER_SECONDS) for document in (plain, longer))
        seconds.append((behind.first - before.first) / (behind.prompt_tokens - before.prompt_tokens))
    return statistics.median(seconds)


def encoded(name: str, document: dict[str, Any]) -> bytes:
    return json.dumps({**document, **(OUTSIDE if name.startswith("llama.cpp") else {})}).encode()


def measure(name: str, options: argparse.Namespace, shapes: Path) -> dict[str, Any]:
    """The figures of one server."""
    url = urllib.parse.urlsplit(f"http://127.0.0.1:{PORT}")
    numbers = range(0, len(PAGE), options.every)
    with started(name, options, shapes) as (process, start):
        model = bench_serving.served_model(url)
        for number in (3, 4):
            ask(url, crop(name, model, number, 8), ANSWER_SECONDS)
        step = prefill(name, url, model)
        alone = [ask(url, crop(name, model, number, TOKENS), ANSWER_SECONDS) for number in numbers]
        if short := [one.tokens for one in alone if one.tokens != TOKENS]:
            raise RuntimeError(f"{name}: answers of {short} tokens; expected {TOKENS}")
        crops = [crop(name, model, number, TOKENS) for number in numbers]
        crowd = run_level(url, crops, AT_ONCE, ANSWER_SECONDS)
        if crowd["failed"]:
            raise RuntimeError(f"{name}: {crowd['first_failure']}")
        used = memory(os.getpgid(process.pid))
    return {"start_s": round(start, 1), "memory_gib": used, **figures(alone, step), "page_16_s": crowd["seconds"]}


def figures(alone: list[Answer], step: float) -> dict[str, float]:
    """Of a page's answers one after another. ``step``: seconds for a token of a prompt."""
    tokens = sum(one.prompt_tokens for one in alone)
    first = sum(one.first for one in alone)
    decode = sum(one.tokens - 1 for one in alone) / sum(one.whole - one.first for one in alone)
    return {
        "prompt_tokens": tokens,
        "first_token_s": round(statistics.median(one.first for one in alone), 2),
        "encode_s": round(first - step * tokens, 1),
        "prefill_tokens_s": round(1 / step, 1),
        "decode_tokens_s": round(decode, 1),
        "page_1_s": round(sum(one.whole for one in alone), 1),
    }


def medians(rounds: list[dict[str, float]]) -> dict[str, float]:
    return {what: round(statistics.median(one[what] for one in rounds), 2) for what in rounds[0]}


def parse(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--llama_cpp", type=Path)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--servers", nargs="+", choices=(*SERVERS, "ours:auto"), default=list(SERVERS))
    parser.add_argument("--every", type=int, default=1, help="take each N-th crop of the page (default all)")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--python", type=Path, default=ROOT / ".venvs/vlm/bin/python", help="of the environment vlm")
    parser.add_argument("--json", action="store_true", help="print one JSON object on stdout")
    options = parser.parse_args(words)
    if not options.llama_cpp and any(name.startswith("llama.cpp") for name in options.servers):
        parser.error("--llama_cpp: expected its source tree, or --servers without it")
    return options


def main(words: list[str]) -> int:
    options = parse(words)
    shapes = options.work / "shapes" / "PaddleOCR-VL"
    prepare(options, shapes)
    found: dict[str, list[dict[str, float]]] = {name: [] for name in options.servers}
    for number in range(options.rounds):
        for name in options.servers:
            load = os.getloadavg()[0]
            found[name].append(measure(name, options, shapes))
            said = json.dumps(found[name][-1])
            print(f"round {number + 1}, {name}, load before {load:.1f}: {said}", file=sys.stderr, flush=True)
    result = {name: medians(rounds) for name, rounds in found.items()}
    print(json.dumps(result, indent=None if options.json else 1))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
