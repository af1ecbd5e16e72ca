# SPDX-License-Identifier: Apache-2.0
"""scripts/eval_accuracy.py: does a device, the vLLM plugin or a running server compute what transformers computes?"""

from __future__ import annotations

import argparse
import math
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from selftest.server import TOP, Answer, Server
from served_weights.question import Question
from tool_errors import FAILED, UsageError, run

from . import report
from .device import DTYPES, Device, device_name
from .families import FAMILIES, model_type
from .inference import add_prompt_options, cases_of
from .prompts import Form
from .verdict import WORST, ImageFigures, Thresholds, Verdict, Worst, figures

if TYPE_CHECKING:
    from .cases import Case
    from .metrics import Positions
    from .model import ReferenceModel
    from .results import Results


def candidate_name(text: str) -> str:
    """argparse type: a device, ``plugin``, or ``vllm:URL``."""
    if text.startswith("vllm:") and not text.startswith(("vllm:http://", "vllm:https://")):
        raise argparse.ArgumentTypeError(f"{text!r} is no server; expected vllm:http://HOST:PORT")
    return text if text == "plugin" or text.startswith("vllm:") else device_name(text)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/eval_accuracy.py", description=__doc__.partition(": ")[2])
    add_prompt_options(parser)
    judged = parser.add_mutually_exclusive_group(required=True)
    judged.add_argument("--test_images", type=Path, nargs="+", metavar="FILE", help="images of blocks")
    judged.add_argument(
        "--test_pages",
        type=Path,
        nargs="+",
        metavar="FILE",
        help="images of pages: their blocks that --task is for, as a running parser finds them",
    )
    parser.add_argument(
        "--parser",
        default="http://127.0.0.1:8080",
        metavar="URL",
        help="of --test_pages (default: the one of this bundle)",
    )
    parser.add_argument(
        "--baseline",
        type=device_name,
        default="cpu",
        metavar="cpu|cuda|npu",
        help="where transformers computes what is right (default cpu)",
    )
    parser.add_argument(
        "--candidate",
        type=candidate_name,
        default="npu",
        metavar="npu|cuda|cpu|plugin|vllm:URL",
        help="what is judged: transformers on a device, the vLLM plugin, or a server (default npu)",
    )
    parser.add_argument(
        "--line_pixels",
        type=int,
        default=0,
        metavar="N",
        help="a server's candidate: it gets text and tables as the parser sends them with PARSER_LINE_PIXELS=N, the "
        "baseline as PaddleX does",
    )
    parser.add_argument(
        "--dtype", choices=DTYPES, default="float32", help="the candidate's; a server has its own (default %(default)s)"
    )
    parser.add_argument("--baseline_dtype", choices=DTYPES, default="float32", help="default %(default)s")
    parser.add_argument("--threshold_mre", type=float, default=1.0, metavar="PERCENT", help="at most (default 1.0)")
    parser.add_argument("--threshold_top1", type=float, default=99.0, metavar="PERCENT", help="at least (default 99.0)")
    parser.add_argument("--threshold_cosine", type=float, default=0.999, help="at least (default 0.999)")
    parser.add_argument(
        "--threshold_logprob",
        type=float,
        default=0.25,
        metavar="NATS",
        help="served candidate: mean difference over its top 20, at most (default 0.25)",
    )
    parser.add_argument(
        "--max_new_tokens",
        type=int,
        default=128,
        metavar="N",
        help="length of the answer that is compared (default %(default)s)",
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("accuracy_report.md"),
        metavar="FILE.md",
        help="Markdown report; a JSON report is written beside it (default %(default)s)",
    )
    parser.add_argument(
        "--plugin_python",
        type=Path,
        nargs="+",
        default=[Path(part) for part in os.environ.get("PLUGIN_PYTHON", "").split(os.pathsep) if part],
        metavar="FILE",
        help="Pythons of environments with the plugin; the first whose stack serves the model runs it (default: those "
        "of vlm and vlm-0.23)",
    )
    return parser.parse_args()


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def compute(model: ReferenceModel, cases: list[tuple[str, Case]], results: Results) -> None:
    """The logits of every case, to files."""
    for number, (name, case) in enumerate(cases):
        began = time.perf_counter()
        results.save(number, model.logits(case))
        say(f"{results.side}, {name}: {time.perf_counter() - began:.1f} s")


def compare_logits(
    model: ReferenceModel, cases: list[tuple[str, Case]], baseline: Results, candidate: Results
) -> Verdict:
    """Figures of every case from the files of both sides."""
    from . import metrics

    judged = Verdict()
    for number, (name, case) in enumerate(cases):
        theirs, ours = baseline.load(number), candidate.load(number)
        if theirs.input_ids.tolist() != ours.input_ids.tolist():
            trouble = f"no: {len(ours.input_ids)} tokens for {name}, the baseline has {len(theirs.input_ids)}"
            judged.images.append(ImageFigures(name, 0, 0, 0, 0, math.inf, 0.0, 0.0, different_inputs=trouble))
            continue
        positions = metrics.compare(theirs.logits, ours.logits)
        note(judged, model, name, case, theirs.input_ids.tolist(), positions)
    return judged


def compare_served(
    options: argparse.Namespace, cases: list[tuple[str, Case]], model: ReferenceModel, server: Server
) -> Verdict:
    """Ask the server, then the baseline for the same tokens."""
    from . import metrics

    form = Form.of(options.model_path)
    # Of another picture, unlikely tokens have other probabilities; what counts is how likely the answer is.
    judged = Verdict(served=True, top=1 if options.line_pixels else TOP)
    for name, case in cases:
        asked = case.with_lines_of(options.line_pixels) if options.line_pixels else case
        answer = served_answer(server, asked, form, options.max_new_tokens)
        case.answer = answer.tokens
        result = model.logits(case)
        prompt = len(result["input_ids"]) - len(case.answer)
        expected, got = result["input_ids"][:prompt].tolist(), answer.prompt_ids
        if options.line_pixels:
            of_image = [ids.count(model.image_token_id) for ids in (expected, got)]
            say(f"{name}: {of_image[0]} tokens of the image, {of_image[1]} with --line_pixels")
            expected, got = ([token for token in ids if token != model.image_token_id] for ids in (expected, got))
        if expected != got:
            trouble = f"no: {len(got)} prompt tokens for {name}, the baseline has {len(expected)}"
            judged.images.append(ImageFigures(name, 0, 0, 0, 0, math.inf, different_inputs=trouble))
            continue
        most_probable = [
            {token: served[token]} if judged.top == 1 else served
            for token, served in zip(answer.tokens, answer.most_probable, strict=True)
        ]
        positions = metrics.compare_served(result["logits"][prompt - 1 : -1], answer.tokens, most_probable)
        note(judged, model, name, case, result["input_ids"].tolist(), positions)
    return judged


def note(judged: Verdict, model: ReferenceModel, name: str, case: Case, ids: list[int], positions: Positions) -> None:
    """Add an image to the verdict. ``ids`` are its prompt and answer, ``positions`` the figures of all of them or, of a
    served candidate, of the answer's."""
    image = figures(name, positions, len(case.answer))
    image.text = model.text(case.answer, skip_special_tokens=True)
    judged.images.append(image)
    first = len(ids) - len(positions.error)
    judged.keep_worst(
        [
            Worst(
                name,
                first + at,
                where(first + at, ids, model.image_token_id, len(case.answer)),
                token(model, ids[first + at]),
                positions.error[at],
                positions.cosine[at] if positions.cosine else None,
                token(model, positions.first[at]),
                token(model, positions.candidate_first[at]),
                positions.margin[at],
            )
            for at in sorted(range(len(positions.error)), key=lambda at: -positions.error[at])[:WORST]
        ]
    )


def served_answer(server: Server, case: Case, form: Form, max_new_tokens: int) -> Answer:
    """The server's greedy answer. Raises UsageError unless ``case.prompt`` has the chat's form, which the server
    builds."""
    from .media import png

    # As PNG, so that the server has our pixels.
    images = [png(image) for image in case.images]
    question = Question(form.question(case.prompt, len(images)), case.min_pixels, case.max_pixels)
    return server.ask(images, question, max_new_tokens)


def where(position: int, ids: list[int], image_token: int, answer: int) -> str:
    if position >= len(ids) - answer:
        return "answer"
    return "image" if ids[position] == image_token else "prompt"


def token(model: ReferenceModel, number: int) -> str:
    return report.shown(model.text([number]))


def compare(
    options: argparse.Namespace, cases: list[tuple[str, Case]], model: ReferenceModel, python: Path | None, folder: Path
) -> Verdict:
    """Answer, baseline, candidate, figures. The baseline's weights are freed before the candidate's are loaded.
    ``python`` is the plugin's, None for a device."""
    from . import plugin
    from .model import ReferenceModel
    from .results import Results

    baseline, candidate = Results(folder, "baseline"), Results(folder, "candidate")
    for _, case in cases:
        case.answer = model.generate(case, options.max_new_tokens)
    compute(model, cases, baseline)
    model.release()
    if python:
        plugin.compute(python, options, cases, candidate)
    else:
        judged = ReferenceModel(options.model_path, Device(options.candidate), options.dtype)
        compute(judged, cases, candidate)
        judged.release()
    return compare_logits(model, cases, baseline, candidate)


def main() -> int:
    options = parse_arguments()
    report.check_output(options.output)
    if options.max_new_tokens < 1:
        raise UsageError(f"--max_new_tokens {options.max_new_tokens}: expected at least 1")
    if not 0 <= options.line_pixels <= 96:
        raise UsageError(f"--line_pixels {options.line_pixels}: expected 1 to 96, or 0 for crops as they are")
    own_words = (options.prompt, options.min_pixels, options.max_pixels) != (None, None, None)
    of_blocks = FAMILIES[model_type(options.model_path)].of_blocks
    as_the_parser = of_blocks and options.task in ("ocr", "table") and not own_words
    if options.line_pixels and not (as_the_parser and options.candidate.startswith("vllm:")):
        raise UsageError(
            "--line_pixels asks as the parser does: PaddleOCR-VL, --candidate vllm:URL, --task ocr or table, and none "
            "of --prompt, --min_pixels, --max_pixels"
        )
    from .page_blocks import pictures_to_judge

    cases = cases_of(options, pictures_to_judge(options))
    # What is not there must be known before the baseline has computed for minutes.
    device = Device(options.baseline)
    server = python = None
    if options.candidate.startswith("vllm:"):
        server = Server(options.candidate.removeprefix("vllm:"))
        say(f"candidate: {server.name} ({server.root}) at {server.url}")
    elif options.candidate == "plugin":
        from . import plugin

        python = plugin.python_of(options)
    else:
        Device(options.candidate)

    from .model import ReferenceModel

    model = ReferenceModel(options.model_path, device, options.baseline_dtype)
    thresholds = Thresholds(
        options.threshold_mre, options.threshold_top1, options.threshold_cosine, options.threshold_logprob
    )
    with tempfile.TemporaryDirectory(prefix="eval-accuracy-") as folder:
        if server:
            verdict = compare_served(options, cases, model, server)
        else:
            verdict = compare(options, cases, model, python, Path(folder))
    settings = {
        "model": options.model_path.name,
        "baseline": f"transformers on {device.name} ({device.description}), {options.baseline_dtype}",
        "candidate": options.candidate
        + ("" if server else f", {options.dtype}")
        + (f", lines of {options.line_pixels} pixels" if options.line_pixels else ""),
        "prompt": report.shown(cases[0][1].prompt),
    }
    # Before the report is written: a disk that is full takes no verdict away.
    for check in verdict.checks(thresholds):
        mark = {True: "ok  ", False: "FAIL", None: "-   "}[check.passed]
        print(f"{mark} {check.name}: {check.found} (wanted {check.wanted})", flush=True)
    markdown = report.accuracy_markdown(verdict, thresholds, settings)
    report.write(options.output, markdown, report.accuracy_json(verdict, thresholds, settings))
    passed = verdict.passed(thresholds)
    print(f"{'PASSED' if passed else 'FAILED'}; report: {options.output} and {options.output.with_suffix('.json')}")
    return 0 if passed else FAILED


if __name__ == "__main__":
    sys.exit(run(main))
