# SPDX-License-Identifier: Apache-2.0
"""python -m vlm_server [--check | --print-command | --print-weights] [-- further words for vllm serve]"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shlex
import sys

import npu_smi
from declared_settings import refuse_mistakes
from served_weights.manifest import verify
from served_weights.settings import WeightSettings
from served_weights.vlm import VlmWeights, find_vlm, there
from tool_errors import UsageError, with_place

from .command import GATE, build_command, build_environment, check_dtype, check_videos, max_num_seqs
from .die_memory import check_graphs_of_a_die, fit_to_die, share_of_a_replica
from .host import Host
from .serving import Serving, check_graphs, check_precision, running_stack
from .settings import Settings
from .words import keys, served_names, video_megapixels, without


def main(arguments: list[str]) -> int:
    """Print what is asked for, or become the server. Returns 2 after an error, with one line on stderr."""
    cut = arguments.index("--") if "--" in arguments else len(arguments)
    own, extra = arguments[:cut], arguments[cut + 1 :]
    parser = argparse.ArgumentParser(prog="python -m vlm_server", description="Serve the VLM of config/models.yaml.")
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument("--print-command", action="store_true", help="print the command line and end")
    shown.add_argument("--check", action="store_true", help="check settings and weights, print limits as JSON, and end")
    shown.add_argument("--print-weights", action="store_true", help="print the chosen weights as JSON and end")
    options = parser.parse_args(own)
    try:
        refuse_mistakes(os.environ)
        settings = Settings.from_environment(os.environ)
        serving = Serving.load(settings.weights.models_config)
        weights = find_vlm(settings.weights)
        if weights.demo:
            print(demo_banner(settings.weights), file=sys.stderr, flush=True)
        elif settings.weights.vlm_model is None:
            print(choice(weights, settings.weights), file=sys.stderr, flush=True)
        if options.print_weights:
            print(json.dumps({"model": weights.model.served_name, "path": str(weights.path), "demo": weights.demo}))
            return 0
        stack = running_stack()
        weights.model.check_stack(stack, settings.weights.hardware)
        product = settings.product and settings.product.on(stack)
        check_graphs(settings, stack)
        command = build_command(settings, serving, weights, extra)
        check_precision(settings, weights.model.name, serving.models[weights.model.name], Host.measure(), command)
        check_videos(command)
        if product:
            check_dtype(product, command)
            if product.graphs:
                check_graphs_of_a_die(settings, command, weights, stack)
            command = fit_to_die(settings, command, weights, npu_smi.least_memory())
            command = share_of_a_replica(settings, command, stack)
        env = build_environment(settings, serving, weights, os.environ, command)
        known = keys(command, env)
        if GATE in command:  # it asks for the key; vLLM would log its own, and the list of processes would show it
            command = without(command, "--api-key")
            env.pop("VLLM_API_KEY", None)
        if options.print_command:
            print(shlex.join(command))
            return 0
        if count := verify(weights.path, settings.state_dir):
            print(f"weights: {count} files of {weights.path} agree with their manifest", file=sys.stderr, flush=True)
        if options.check:
            asked_by = {"model": served_names(command)[0], "api_key": known[0] if known else None}
            entry = None if weights.demo else weights.model.name
            print(json.dumps({**asked_by, "max_num_seqs": max_num_seqs(command), "entry": entry}))
            return 0
        family = serving.models[weights.model.name].family
        told = {
            "VLM_SERVED_NAMES": ",".join(served_names(command)),
            "VLM_FAMILY": family,
            "VLM_VIDEO_MEGAPIXELS": video_megapixels(command),
            "VLM_KEY_DIGESTS": ",".join(hashlib.sha256(key.encode()).hexdigest() for key in known),
        }
        # -P: a folder of the working directory that is named as a package is not taken for it.
        os.execve(sys.executable, [sys.executable, "-P", "-m", "vlm_server.vllm", *command[1:]], env | told)
    except UsageError as error:
        print(f"error: {with_place(str(error))}", file=sys.stderr)
    return 2


def choice(weights: VlmWeights, settings: WeightSettings) -> str:
    """One line: which model is served where VLM_MODEL is unset, and what else lies there or is newer."""
    recommended = settings.catalog.recommended
    others = [model.name for model in there(settings) if model != weights.model]
    said = f"weights: {weights.model.name}, since VLM_MODEL is unset"
    if others:
        said += f"; {', '.join(others)} is there too, and older"
    elif weights.model != recommended:
        said += f"; {recommended.name} is newer (scripts/fetch_weights.sh hf)"
    return said


def demo_banner(settings: WeightSettings) -> str:
    """A few lines that cannot be overlooked: demo weights, what they read, and where the published ones go."""
    lines = (
        "DEMO WEIGHTS are in use: a small model of the same architecture, made by this project.",
        "It reads clean printed English. It is no substitute for the published PaddleOCR-VL.",
        f"The published weights go to {settings.models_dir / settings.catalog.recommended.path}",
    )
    width = max(map(len, lines)) + 4
    return "\n".join(("=" * width, *(f"  {line}" for line in lines), "=" * width))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
