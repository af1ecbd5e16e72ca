# SPDX-License-Identifier: Apache-2.0
"""The implementations that bench_model.py compares: each in a process and an environment of its own."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from bundle.environments.setup import ENVIRONMENTS, set_up
from bundle.paths import ROOT

# Implementation -> environment that holds it.
ENVIRONMENT = {"ours": "vlm", "in_tree": "vlm", "transformers": "reference"}


class Child:
    """A program of model_bench: it prints one line of JSON about itself, then one for each line on its stdin."""

    def __init__(
        self, name: str, python: Path, module: str, words: list[object], log: Path, env: dict[str, str]
    ) -> None:
        self.name, self.log = name, log
        with log.open("wb") as output:
            command = [str(python), "-m", f"model_bench.{module}", "--implementation", name, *map(str, words)]
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=output, text=True, env=env
            )
        assert self.process.stdin and self.process.stdout, "both are pipes"
        self.requests, self.answers = self.process.stdin, self.process.stdout
        self.about = self.answer()

    def answer(self) -> dict[str, Any]:
        line = self.answers.readline()
        if not line:
            self.process.wait()
            raise RuntimeError(f"{self.name} ended: {self.log.read_text(errors='replace')[-3000:]}")
        return json.loads(line)

    def ask(self, request: str) -> dict[str, Any]:
        self.requests.write(request + "\n")
        self.requests.flush()
        return self.answer()

    def close(self) -> None:
        self.requests.close()
        self.process.wait()


def environment(name: str, threads: int) -> dict[str, str]:
    """Return a child's environment variables: our code, no network, the same number of threads for all implementations,
    our plugin only for ours."""
    folders = ("workshop/benchmarks", "workshop", "model_code", "common")
    own = {
        "PYTHONPATH": os.pathsep.join(str(ROOT / folder) for folder in folders),
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        "VLLM_LOGGING_LEVEL": "WARNING",
        "OMP_NUM_THREADS": str(threads),
        "TORCH_COMPILE_DISABLE": "1",
        # The engine in the child itself, which steps it; a cache for the language model's prompts.
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    }
    if name == "in_tree":
        own["VLLM_PLUGINS"] = ""
    return {**os.environ, **own}


def interpreter(name: str, given: Path | None) -> Path:
    """Return the Python of an implementation: ``given``, or its locked environment's, which is made if missing."""
    if given:
        return given
    set_up(ENVIRONMENTS[ENVIRONMENT[name]])
    return ENVIRONMENTS[ENVIRONMENT[name]].python


def program(python: Path, module: str, *words: object, threads: int) -> str:
    """Run one of model_bench's programs to its end; returns what it printed."""
    command = [str(python), "-m", f"model_bench.{module}", *map(str, words)]
    result = subprocess.run(command, env=environment("ours", threads), stdout=subprocess.PIPE, text=True, check=True)
    return result.stdout
