# SPDX-License-Identifier: Apache-2.0
"""Coverage-guided fuzzing of families of targets: `python -m tests.fuzz.campaign FAMILY ... --seconds N --out FOLDER`.

What guides the search is imported once, which takes longer than many a search. Each family then has a process of its
own, forked from there, two at a time; its words go to FOLDER/FAMILY/log. One `--seed` tries the same inputs in the same
order (with PYTHONHASHSEED set), so far as its seconds reach.

Runs with the parser's Python, beside which the environment `fuzz` brings atheris (libFuzzer for Python). A finding does
not end a search: the smallest input that was reached goes to `findings` in the family's folder, and the search goes on.
A crash or a hang inside native code ends the process; libFuzzer then leaves the input in that folder. A line for each
family says how its process ended: 0, or 1 for findings.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
from pathlib import Path
from typing import NoReturn

# Code whose branches guide the search: ours, and the libraries in Python that read what strangers send.
GUIDING = (
    *("docparser", "file_types", "npu_smi", "served_weights", "container", "bundle"),
    *("vlm_models.fields", "vlm_models.video", "tests.fuzz.targets", "tests.fuzz.choices"),
    *("latex2mathml", "markdown_it", "html", "_markupbase", "openpyxl", "PIL", "prometheus_client"),
)
LONGEST_INPUT = 4096  # bytes
HANG_SECONDS = 120  # of the clock, for code that does not look at signals
SIDE_BY_SIDE = 2


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


def processor_s() -> float:
    """Of this process and of its children that ended: a busy machine shortens no search."""
    return sum(os.times()[:4])


def search(family: str, seeds: list[bytes], out: Path, options: argparse.Namespace) -> NoReturn:
    """Ends the process with status 1 if there are findings, else with 0."""
    import atheris

    from tests.fuzz import verdict

    corpus = out / "corpus"
    corpus.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(seeds):
        (corpus / f"seed-{number:03}").write_bytes(seed)
    log = os.open(out / "log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for stream in (1, 2):
        os.dup2(log, stream)
    recorder = Recorder(family, out)
    ends = processor_s() + options.seconds

    def one(data: bytes) -> None:
        if processor_s() >= ends or 0 < options.inputs <= recorder.inputs:
            summary = {"family": family, "inputs": recorder.inputs, "findings": recorder.findings}
            print(json.dumps(summary), flush=True)
            os._exit(1 if recorder.findings else 0)  # libFuzzer would take an exit for a crash
        verdict.limit_memory()  # from here: in an hour what the fuzzer itself keeps would reach a limit set once
        recorder.one(data)

    # Its own limit of memory counts what the kernel has not taken back yet; limit_memory does the work. Inputs that are
    # slow by the clock say nothing on a busy machine.
    flags = [f"-max_len={LONGEST_INPUT}", "-len_control=20", f"-seed={options.seed}", "-rss_limit_mb=0"]
    flags += [f"-timeout={HANG_SECONDS}", f"-report_slow_units={HANG_SECONDS}"]
    atheris.Setup([sys.argv[0], *flags, f"-artifact_prefix={out}/native-", str(corpus)], one)
    atheris.Fuzz()
    raise AssertionError("libFuzzer ends the process")


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="tests.fuzz.campaign", description=__doc__.splitlines()[0])
    parser.add_argument("families", nargs="+", metavar="FAMILY")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--inputs", type=int, default=0, help="end after so many; 0: the seconds alone end it")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args(words)

    import atheris

    with atheris.instrument_imports(include=list(GUIDING), enable_loader_override=False):
        from tests.fuzz import targets

        seeds = {family: targets.load(family).seeds() for family in options.families}
    waiting, running, worst = list(options.families), dict[int, str](), 0
    while waiting or running:
        if waiting and len(running) < SIDE_BY_SIDE:
            family = waiting.pop(0)
            if child := os.fork():
                running[child] = family
                continue
            search(family, seeds[family], options.out / family, options)
        child, status = os.wait()
        code = os.waitstatus_to_exitcode(status)
        print(json.dumps({"family": running.pop(child), "status": code}), flush=True)
        worst = worst or code
    return worst


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
