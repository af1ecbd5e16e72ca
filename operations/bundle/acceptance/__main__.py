# SPDX-License-Identifier: Apache-2.0
"""scripts/acceptance.sh: every step in its order, the report, the archive; exit status 0 only if no step failed."""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import sys
import time
from pathlib import Path
from typing import Any

from bundle import parser_client
from bundle.acceptance import dies, load, machine, pages, serving
from bundle.acceptance.node import Node, Options
from bundle.acceptance.steps import BROKEN_OFF, FAIL, Step, accepted, report_json, report_text, take, verdict
from bundle.archives import pack
from bundle.paths import VALUES
from bundle.progress import say, step
from bundle.support.redact import Redactor, redactor
from tool_errors import FAILED, INTERRUPTED, run

STEPS = (
    Step("preflight", "the machine has what the bundle needs", machine.preflight),
    Step(
        "driver",
        "driver and firmware are there, and every die is of the kind that ATLAS says, and healthy",
        machine.driver,
    ),
    Step("each die alone", "each die allocates and computes one operator of each kind that we use", dies.alone),
    Step("ATB", "CANN's library of transformer operators loads and computes on each die", dies.atb),
    Step(
        "graph modes",
        "which graph mode is fastest on one die, and reads the same text as without graphs",
        serving.graph_modes,
    ),
    Step("all dies", "every replica and the parser serve", serving.all_dies),
    Step("one crop", "each replica, asked by itself, reads a crop, and all read the same", serving.one_crop),
    Step("graph capture", "each replica has captured its graphs", serving.graph_capture),
    Step("self-test", "each replica gives the values that were recorded for these weights", serving.self_test),
    Step("ten pages", "documents come back complete through the whole service", pages.ten_pages),
    Step("load", "no page fails while every replica is busy", load.load),
)
# Settings that say what was accepted; none of them is a secret.
SETTINGS = (
    "ATLAS",
    "STACK",
    "NPU_IDS",
    "VLM_MODEL",
    "VLM_REPLICAS",
    "VLM_REPLICAS_PER_DIE",
    "VLM_ARGS",
    "VLM_GRAPH_MODE",
)


def minutes(text: str) -> float:
    """Raises ValueError, which argparse turns into status 2, unless `text` is a number above 0."""
    number = float(text)
    if not (0 < number < math.inf):
        raise ValueError
    return number


def arguments(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/acceptance.sh", description=__doc__.partition(": ")[2])
    parser.add_argument("--minutes", type=minutes, default=2.0, help="of load (default %(default)g)")
    parser.add_argument("--skip-load", action="store_true", help="no load")
    parser.add_argument(
        "--wait", type=minutes, default=30.0, metavar="MINUTES", help="for every replica to serve (default %(default)g)"
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="default: acceptance-HOST-DATE.tar.gz")
    return parser.parse_args(words)


def cleaned(value: Any, clean: Redactor) -> Any:
    """The same with secrets taken out of every text; the form stays."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {name: cleaned(part, clean) for name, part in value.items()}
    return [cleaned(part, clean) for part in value] if isinstance(value, (list, tuple)) else value


def main(words: list[str]) -> int:
    options, parser_url = arguments(words), parser_client.address(VALUES)
    date, host = time.strftime("%Y%m%d-%H%M%S"), platform.node() or "node"
    name = f"acceptance-{host}-{date}"
    out: Path = options.out or Path(f"{name}.tar.gz")
    node = Node(VALUES, Options(0 if options.skip_load else options.minutes, 60 * options.wait), parser_url)
    facts = {
        "host": f"{host}, {platform.machine()}, {os.cpu_count()} cores, kernel {platform.release()}",
        "date": time.strftime("%Y-%m-%d %H:%M:%S %z"),
        "hardware": "Ascend" if node.ascend else "CPU: nothing here says anything about a die",
        "settings": ", ".join(f"{key}={VALUES[key]}" for key in SETTINGS if VALUES.get(key)) or "the defaults",
    }
    clean, records = redactor(), []
    files: dict[str, str] = {}
    with pack(out, name) as add:
        for number, each in enumerate(STEPS, 1):
            with step(each.name):
                record, outputs = take(each, number, node)
            records.append(record)
            say(f"  {record.verdict}: {clean(record.found)}")
            files |= {file: clean(text) for file, text in outputs.items()}
            if record.found == BROKEN_OFF:
                break
        named = [(node.weights.get(kind) or {}).get("model") for kind in ("vlm", "layout")]
        if weights := [name for name in named if name]:
            facts["weights"] = ", ".join(weights) + (" (DEMO weights)" if node.demo else "")
        records = [type(record)(**cleaned(vars(record), clean)) for record in records]
        facts = cleaned(facts, clean)
        files["report.md"] = report_text(facts, records)
        files["report.json"] = json.dumps(report_json(facts, records), indent=1, ensure_ascii=False)
        # Before anything is written: a disk that is full takes no report away.
        print(files["report.md"], flush=True)
        for record in records:
            if record.verdict == FAIL:
                print(f"error: {record.name}: {record.found}", file=sys.stderr)
        for file, text in files.items():
            add(file, text)
    say(f"{verdict(records)}; wrote {out}")
    if records[-1].found == BROKEN_OFF:
        return INTERRUPTED
    return 0 if accepted(records) else FAILED


if __name__ == "__main__":
    sys.exit(run(lambda: main(sys.argv[1:])))
