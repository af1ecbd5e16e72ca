# SPDX-License-Identifier: Apache-2.0
"""scripts/eval_performance.py: how fast transformers reads images on each device of this machine."""

from __future__ import annotations

import argparse
import dataclasses
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from percentiles import percentile
from tool_errors import FAILED, DeviceError, run

from . import report
from .device import DTYPES, available, device_name
from .inference import add_prompt_options, cases_of

if TYPE_CHECKING:
    from .timing import Timing

HOW = (
    "Each run reads all images one after the other, with a fixed number of greedy tokens for each; the end token does "
    "not stop it. The device is waited for before every clock reading. *Latency* is the time of a run, over all its "
    "images. *First token* is the time from one prepared image on the host to its first token: copy, vision tower and "
    "prefill. *Tokens per second* counts the tokens after the first and the time after the first. Of fewer than 100 "
    "values P99 is the greatest. Peak memory is what torch allocated on the device, on a CPU the largest resident size "
    "of the process. Preparing the images (resizing, tokens) is not part of a run."
)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/eval_performance.py", description=__doc__.partition(": ")[2])
    add_prompt_options(parser)
    parser.add_argument("--image", type=Path, nargs="+", required=True, metavar="FILE")
    parser.add_argument(
        "--devices",
        type=device_name,
        nargs="+",
        default=["cpu", "npu"],
        metavar="cpu|cuda|npu",
        help="the first that is there is the one speed-up is counted from (default cpu npu)",
    )
    parser.add_argument("--num_runs", type=int, default=20, metavar="N", help="measured runs (default 20)")
    parser.add_argument("--warmup", type=int, default=3, metavar="N", help="runs before them (default 3)")
    parser.add_argument("--new_tokens", type=int, default=32, metavar="N", help="tokens per image and run (default 32)")
    parser.add_argument("--dtype", choices=DTYPES, default="float32", help="default %(default)s")
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("performance_report.md"),
        metavar="FILE.md",
        help="Markdown report; a JSON report is written beside it (default %(default)s)",
    )
    options = parser.parse_args()
    for name, least in (("num_runs", 1), ("warmup", 0), ("new_tokens", 2)):
        if getattr(options, name) < least:
            parser.error(f"--{name} {getattr(options, name)}: expected at least {least}")
    return options


def time_device(job: dict[str, object]) -> Timing:
    """Run ``reference.timing`` in a process of its own. Raises DeviceError with its message."""
    from .timing import Timing

    command = [sys.executable, "-m", "reference.timing"]
    done = subprocess.run(command, input=json.dumps(job), capture_output=True, text=True, check=False)
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"it ended with status {done.returncode} without a word"]
        raise DeviceError(lines[-1].removeprefix("error: "))
    return Timing(**json.loads(done.stdout))


def rates(timing: Timing) -> dict[str, float]:
    """The figures of a report; times in milliseconds, memory in MiB."""
    after_first = sum(timing.total) - sum(timing.first)
    later_tokens = timing.new_tokens - timing.images  # one of each image comes with its prefill
    return {
        "average_ms": 1000 * statistics.fmean(timing.total),
        "p50_ms": 1000 * percentile(timing.total, 50),
        "p99_ms": 1000 * percentile(timing.total, 99),
        "first_token_ms": 1000 * statistics.fmean(timing.first),
        "first_token_p50_ms": 1000 * percentile(timing.first, 50),
        "first_token_p99_ms": 1000 * percentile(timing.first, 99),
        "tokens_per_second": later_tokens * len(timing.total) / after_first,
        "peak_memory_mib": timing.peak_memory / 2**20,
        "load_s": timing.load,
        "preprocess_ms": 1000 * timing.preprocess,
    }


ROWS = (
    ("Average latency", "average_ms", "{:.1f} ms"),
    ("P50", "p50_ms", "{:.1f} ms"),
    ("P99", "p99_ms", "{:.1f} ms"),
    ("First token, average", "first_token_ms", "{:.1f} ms"),
    ("First token, P50", "first_token_p50_ms", "{:.1f} ms"),
    ("First token, P99", "first_token_p99_ms", "{:.1f} ms"),
    ("Tokens per second", "tokens_per_second", "{:.1f}"),
    ("Peak memory", "peak_memory_mib", "{:.0f} MiB"),
    ("Loading the weights", "load_s", "{:.1f} s"),
    ("Preparing the images", "preprocess_ms", "{:.1f} ms"),
)


def markdown(timings: list[Timing], absent: dict[str, str], failed: dict[str, str], settings: dict[str, object]) -> str:
    """Columns for the devices that were measured only; the others are named below."""
    figures = [rates(timing) for timing in timings]
    rows = [[name, *(form.format(one[key]) for one in figures)] for name, key, form in ROWS]
    for name, key in (("Speed-up, average latency", "average_ms"), ("Speed-up, first token", "first_token_ms")):
        rows.append([name, *(f"{figures[0][key] / one[key]:.2f}x" for one in figures)])
    lines = ["# Performance", "", *report.setting_lines(settings)]
    lines += report.table(["", *(timing.device for timing in timings)], rows)
    lines += [f"- {timing.device}: {timing.description}, torch {timing.torch}" for timing in timings]
    lines += [f"- {name}: absent. {reason}" for name, reason in absent.items()]
    lines += [f"- {name}: failed. {reason}" for name, reason in failed.items()]
    return "\n".join([*lines, "", HOW, ""])


def main() -> int:
    options = parse_arguments()
    report.check_output(options.output)
    from .media import named

    cases = cases_of(options, named(options.image))
    absent, failed, timings = {}, {}, []
    present = []
    for name in dict.fromkeys(options.devices):
        device, reason = available(name)
        if device is None:
            absent[name] = reason
            print(f"{name}: absent. {reason}", file=sys.stderr)
        else:
            present.append(name)
    if not present:
        raise DeviceError(f"none of the devices is there: {', '.join(absent)}; name one that is, e.g. --devices cpu")

    from .cases import save_cases
    from .families import check_checkpoint

    check_checkpoint(options.model_path)
    with tempfile.TemporaryDirectory(prefix="eval-performance-") as folder:
        exchanged = Path(folder) / "cases.safetensors"
        save_cases(exchanged, [case for _, case in cases])
        job = {
            "model_path": str(options.model_path),
            "dtype": options.dtype,
            "cases": str(exchanged),
            "runs": options.num_runs,
            "warmup": options.warmup,
            "new_tokens": options.new_tokens,
        }
        for name in present:
            print(f"{name}: {options.warmup} + {options.num_runs} runs", file=sys.stderr)
            try:
                timings.append(time_device({**job, "device": name}))
            except DeviceError as error:
                failed[name] = str(error)
                print(f"{name}: failed. {error}", file=sys.stderr)
    if not timings:
        raise DeviceError("; ".join(f"{name}: {reason}" for name, reason in failed.items()))
    settings = {
        "model": options.model_path.name,
        "images": f"{', '.join(path.name for path in options.image)}: {timings[0].prompt_tokens} prompt tokens",
        "dtype": options.dtype,
        "runs": f"{options.num_runs} after {options.warmup} of warming up, {options.new_tokens} tokens an image",
    }
    text = markdown(timings, absent, failed, settings)
    devices = [{**dataclasses.asdict(timing), **rates(timing)} for timing in timings]
    print(text, flush=True)
    report.write(options.output, text, {"settings": settings, "devices": devices, "absent": absent, "failed": failed})
    print(f"report: {options.output} and {options.output.with_suffix('.json')}", file=sys.stderr)
    return FAILED if failed else 0


if __name__ == "__main__":
    sys.exit(run(main))
