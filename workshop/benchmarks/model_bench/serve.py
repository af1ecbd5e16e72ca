# SPDX-License-Identifier: Apache-2.0
"""A server for bench_serving.py: our model or the in-tree one, with the settings of `python -m vlm_server`.

Run in workshop/benchmarks:

    ../../.venvs/vlm/bin/python -m model_bench.serve --implementation ours|in_tree [--stages DIR] [-- words of vllm]

With --stages it counts where its time goes (model_bench.stages). The launcher's variables (MODELS_DIR, VLM_MODEL,
VLM_PORT, HARDWARE) choose weights, port and hardware.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

# How the settings reach vLLM's engine, which is a process of its own.
IMPLEMENTATION, STAGES = "MODEL_BENCH_IMPLEMENTATION", "MODEL_BENCH_STAGES"


def prepare() -> None:
    """Register what the settings ask for; every process does this before vLLM looks for a model."""
    if os.environ[IMPLEMENTATION] == "in_tree":
        from .in_tree import register

        register()
    if os.environ.get(STAGES):
        from .stages import watch

        watch(Path(os.environ[STAGES]))


def replaced(words: list[str]) -> None:
    """Start again as `vllm serve` with the launcher's arguments and environment."""
    from served_weights.vlm import find_vlm
    from vlm_server.command import build_command, build_environment
    from vlm_server.serving import Serving
    from vlm_server.settings import Settings

    cut = words.index("--") if "--" in words else len(words)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--implementation", choices=("ours", "in_tree"), required=True)
    parser.add_argument("--stages", type=Path, help="folder for the seconds of each stage")
    options = parser.parse_args(words[:cut])
    settings = Settings.from_environment(os.environ)
    serving = Serving.load(settings.weights.models_config)
    weights = find_vlm(settings.weights)
    _vllm, *arguments = build_command(settings, serving, weights, words[cut + 1 :])
    env = {
        **build_environment(settings, serving, weights, os.environ, arguments),
        IMPLEMENTATION: options.implementation,
    }
    if options.implementation == "in_tree":
        env["VLLM_PLUGINS"] = ""
    if options.stages:
        options.stages.mkdir(parents=True, exist_ok=True)
        env[STAGES] = str(options.stages.resolve())
    # A new process, since numbers of threads are read when torch is loaded.
    os.execve(sys.executable, [sys.executable, "-m", "model_bench.serve", *arguments], env)


def main(words: list[str]) -> None:
    if words[:1] != ["serve"]:
        replaced(words)
    prepare()
    from vllm.entrypoints.cli.main import main as vllm

    vllm()


if __name__ == "__main__":
    main(sys.argv[1:])
elif __name__ == "__mp_main__":
    # vLLM's engine imports the main module again.
    prepare()
