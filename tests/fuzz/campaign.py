# SPDX-License-Identifier: Apache-2.0
"""Coverage-guided fuzzing of one family of targets: `python -m tests.fuzz.campaign FAMILY --seconds N --out FOLDER`.

One `--seed` tries the same inputs in the same order (with PYTHONHASHSEED set), so far as its seconds reach.

Runs with the parser's Python, beside which the environment `fuzz` brings atheris (libFuzzer for Python). A finding does
not end it: the smallest input that was reached goes to FOLDER/findings, and the search goes on. Exit status 1 says that
there are findings. A crash or a hang inside native code ends the process; libFuzzer then leaves the input in FOLDER.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import time
from pathlib import Path

# Code whose branches guide the search: ours, and the libraries in Python that read what strangers send.
GUIDING = (
    *("docparser", "file_types", "npu_smi", "served_weights", "container", "bundle"),
    *("vlm_models.fields", "vlm_models.video", "tests.fuzz.targets", "tests.fuzz.choices"),
    *("latex2mathml", "markdown_it", "html", "_markupbase", "openpyxl", "PIL", "prometheus_client"),
)
LONGEST_INPUT = 4096  # bytes
HANG_SECONDS = 120  # of the clock, for code that does not look at signals


class Recorder:
    """Judges each input, and keeps one input of each finding."""

    def __init__(self, family: str, folder: Path) -> None:
        from tests.fuzz import targets, verdict

        self._verdict = verdict
        self._target = targets.load(family).target
        self._folder = folder / "findings"
        self._folder.mkdir(parents=True, exist_ok=True)
        self._seen: set[str] = set()
        self.inputs = 0

    def one(self, data: bytes) -> None:
        self.inputs += 1
        found = self._verdict.judge(self._target, data)
        if found is None or found.signature in self._seen:
            return
        self._seen.add(found.signature)
        data = self._verdict.smaller(self._target, data, found.signature)
        name = hashlib.sha256(found.signature.encode()).hexdigest()[:12]
        (self._folder / name).write_bytes(data)
        report = {"signature": found.signature, "input": repr(data[:2000]), "report": found.report}
        (self._folder / f"{name}.json").write_text(json.dumps(report, indent=1))
        print(f"finding: {found.signature}", file=sys.stderr, flush=True)

    @property
    def findings(self) -> int:
        return len(self._seen)


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="tests.fuzz.campaign", description=__doc__.splitlines()[0])
    parser.add_argument("family")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--inputs", type=int, default=0, help="end after so many; 0: the seconds alone end it")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args(words)

    import atheris

    with atheris.instrument_imports(include=list(GUIDING), enable_loader_override=False):
        from tests.fuzz import targets, verdict

        seeds = targets.load(options.family).seeds()
    corpus = options.out / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(seeds):
        (corpus / f"seed-{number:03}").write_bytes(seed)
    recorder = Recorder(options.family, options.out)
    ends = time.monotonic() + options.seconds

    def one(data: bytes) -> None:
        if time.monotonic() >= ends or 0 < options.inputs <= recorder.inputs:
            summary = {"family": options.family, "inputs": recorder.inputs, "findings": recorder.findings}
            print(json.dumps(summary), flush=True)
            os._exit(1 if recorder.findings else 0)  # libFuzzer would take an exit for a crash
        verdict.limit_memory()  # from here: in an hour what the fuzzer itself keeps would reach a limit set once
        recorder.one(data)

    # Its own limit of memory counts what the kernel has not taken back yet; limit_memory does the work. Inputs that are
    # slow by the clock say nothing on a busy machine.
    flags = [f"-max_len={LONGEST_INPUT}", "-len_control=20", f"-seed={options.seed}", "-rss_limit_mb=0"]
    flags += [f"-timeout={HANG_SECONDS}", f"-report_slow_units={HANG_SECONDS}"]
    atheris.Setup([sys.argv[0], *flags, f"-artifact_prefix={options.out}/native-", str(corpus)], one)
    atheris.Fuzz()
    return 2  # not reached


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
