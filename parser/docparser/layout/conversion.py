# SPDX-License-Identifier: Apache-2.0
"""Makes the graph of a layout model: ``python -m docparser.layout.conversion MODEL_DIR OUT``.

It runs in a process of its own, because Paddle and the graph together take 1.6 GiB once (published size), and because
what goes wrong in either's code ends this process alone. Exit status 3: the model cannot be converted; standard output
says why in one line.
"""

from __future__ import annotations

import sys
from pathlib import Path

import openvino as ov

from docparser.layout.check import Disagreement, check
from docparser.layout.graph_cache import GRAPH, REFUSED
from docparser.layout.translation import translate
from paddle_program.files import model_files
from paddle_program.parameters import BadParameters
from paddle_program.program import UnknownProgram, read_program


def convert(model_dir: Path, out: Path) -> float:
    """Write the graph; returns the largest difference from Paddle's values. Raises UnknownProgram, BadParameters,
    Disagreement, OSError."""
    model, parameters = model_files(model_dir)
    program = read_program(model, parameters)
    graph = translate(program)
    difference = check(program, model, parameters)
    out.mkdir(parents=True, exist_ok=True)
    ov.save_model(graph, out / GRAPH, compress_to_fp16=False)
    return difference


def main() -> int:
    model_dir, out = map(Path, sys.argv[1:])
    try:
        print(f"{convert(model_dir, out):.1e}")
    except (UnknownProgram, BadParameters, Disagreement) as exc:
        print(exc)
        return REFUSED
    return 0


if __name__ == "__main__":
    sys.exit(main())
