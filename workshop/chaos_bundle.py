# SPDX-License-Identifier: Apache-2.0
"""Bring up a bundle of its own, trouble it by a seed, and say whether anything was lost.

    .venvs/tools/bin/python workshop/chaos_bundle.py --minutes 10 --seed 7 --out .run/chaos

For use on demand, by root on the engine's own machine, with the images built (docker compose build). Settings are
those of compose.yaml, from the environment. OUT gets `report.md` and `journal.jsonl`, a line for everything that
happened with its time. Exit status 0 only without violations; 1 with some; 2 where the run could not be made.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
from pathlib import Path

from bundle.paths import ROOT
from bundle.progress import say
from chaos.bundle_project import Bundle, BundleError, environment, needs
from chaos.faults.disk import small_disk
from chaos.journal import Journal
from chaos.outcome import Limits
from chaos.plan import steps
from chaos.report import report
from chaos.run import Groups, chosen, run
from free_ports import free_port

# PARSER_MIN_FREE_MIB must stay free (512 MiB); the rest holds the jobs of an hour.
DISK_MIB = 1536


def show_plan(seed: int, count: int, groups: Groups) -> None:
    for _, step in zip(range(count), steps(seed, groups)):
        print(f"{step.number:4d}  {step.action}  {step.seconds:g} s{'' if step.calm else ', at once'}")


def logs(bundle: Bundle, out: Path) -> None:
    """What the containers said, beside the report: a violation is looked up there."""
    (out / "containers.log").write_text(bundle.compose("logs", "--no-color", "--timestamps", check=False, timeout=600))


def chaos(options: argparse.Namespace, groups: Groups) -> int:
    options.out.mkdir(parents=True, exist_ok=True)
    limits = Limits(health_s=options.health, back_s=options.back, ready_s=options.ready)
    with tempfile.TemporaryDirectory(prefix="chaos-", dir=options.out.resolve()) as name:
        folder = Path(name)
        env = environment(os.environ, options.models.resolve(), free_port())
        bundle = Bundle(folder, env)
        bundle.prepare()
        if missing := needs(bundle):
            raise BundleError(missing)
        with small_disk(bundle.state, DISK_MIB) as kind, Journal(options.out / "journal.jsonl") as journal:
            try:
                say(f"bringing up the bundle, its state on {DISK_MIB} MiB of {kind} ...")
                bundle.up()
                outcome = run(bundle, options.seed, options.minutes, journal, limits, groups)
                text = report(bundle, outcome, journal, options.seed, options.minutes, limits)
            finally:
                logs(bundle, options.out)
                bundle.down()
    (options.out / "report.md").write_text(text)
    print(text)
    return 1 if journal.violations else 0


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=1, help="the same seed makes the same plan")
    parser.add_argument("--out", type=Path, default=ROOT / ".run/chaos")
    parser.add_argument("--models", type=Path, default=Path(os.environ.get("MODELS_DIR") or ROOT / "models"))
    parser.add_argument("--health", type=float, default=1.0, help="seconds that /health may take")
    parser.add_argument("--back", type=float, default=60.0, help="seconds until a killed parser must answer again")
    parser.add_argument("--ready", type=float, default=300.0, help="seconds until all must be ready again")
    parser.add_argument("--plan", type=int, metavar="N", help="only print the first N actions of the seed's plan")
    parser.add_argument("--only", default="*", metavar="PATTERN", help="only these actions, like 'disk *'")
    parser.add_argument("--without", default="", metavar="PATTERN", help="not these actions, like 'database *'")
    options = parser.parse_args(words)
    groups = chosen(options.only, options.without)
    if not groups:
        parser.error(
            f"--only {options.only!r} --without {options.without!r} leave no action; --plan 60 shows all names"
        )
    if options.plan:
        show_plan(options.seed, options.plan, groups)
        return 0
    # So that the bundle is taken down, too, when the run is ended from outside.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(2))
    try:
        return chaos(options, groups)
    except BundleError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
