# SPDX-License-Identifier: Apache-2.0
"""The machine before anything serves: preflight, the driver and what it says of the dies."""

from __future__ import annotations

import json

import atlas
import npu_smi
from bundle.acceptance.node import Node
from bundle.acceptance.steps import FAIL, PASS, SKIP, WARN, Outcome
from bundle.compose import dies
from bundle.progress import plural
from bundle.support.sources import sources


def preflight(node: Node) -> Outcome:
    done = node.command("preflight.json", "scripts/preflight.sh", "--json", timeout=900)
    node.findings = json.loads(done.stdout)
    levels = {level: [f for f in node.findings if f["level"] == level] for level in ("PASS", "WARN", "FAIL")}
    counted = ", ".join(f"{len(found)} {level}" for level, found in levels.items())
    bad = [f"{finding['check']}: {finding['found']}" for level in ("FAIL", "WARN") for finding in levels[level]]
    verdict = FAIL if levels["FAIL"] else WARN if levels["WARN"] else PASS
    return Outcome(verdict, "; ".join([counted, *bad]))


def driver(node: Node) -> Outcome:
    if not node.ascend:
        return Outcome(SKIP, "HARDWARE=cpu: there is no driver")
    product = atlas.named(node.values.get("ATLAS") or "")
    done = node.command("npu-smi.txt", "npu-smi", "info")
    answer = npu_smi.Answer(done.returncode, done.stdout + done.stderr)
    if trouble := npu_smi.trouble(answer):
        return Outcome(FAIL, f"{trouble[0]}; {trouble[1]}")
    report = npu_smi.listed(answer.text)
    for source in sources(sorted({die.npu for die in report.dies})):
        if source.name.startswith("npu/") and source.name != "npu/info.txt":
            node.command(source.name.removeprefix("npu/"), *source.command, timeout=source.timeout)
    mine = set(dies.given(node.values))
    sick = [f"{die.number} ({die.health})" for die in report.dies if not die.usable and die.number in mine]
    alarmed = [f"{die.number} ({die.health})" for die in report.dies if die.raises_alarm and die.number in mine]
    lost = [str(number) for number in dies.unlisted(sorted(mine), report)]
    others = [die for die in report.dies if die.number is not None and die.number not in mine]
    spared = [f"{die.number} ({die.health})" for die in others if not die.usable]
    wrong = sorted({die.generation for die in report.dies if die.generation != product.title})
    said = f"npu-smi {report.version or 'of an unknown version'}, {plural(len(report.dies), 'die')}"
    said += f"; not usable, and left out by NPU_IDS: die {', '.join(spared)}" if spared else ""
    said += f"; with an alarm, and judged by the step of each die alone: die {', '.join(alarmed)}" if alarmed else ""
    said += f"; {report.unnumbered}" if report.unnumbered else ""
    if sick or lost or wrong:
        said += f"; not usable: die {', '.join(sick)}" if sick else ""
        said += f"; not in its table: die {', '.join(lost)}" if lost else ""
        return Outcome(FAIL, said + (f"; not {product.title} but {', '.join(wrong)}" if wrong else ""))
    of_driver = [finding for finding in node.findings if finding["check"] in ("driver", "firmware", "driver files")]
    worst = [finding for finding in of_driver if finding["level"] != "PASS"]
    said += "".join(f"; {finding['check']} {finding['found']}" for finding in of_driver)
    failed = any(finding["level"] == "FAIL" for finding in worst)
    return Outcome(FAIL if failed else WARN if worst or alarmed or report.unnumbered else PASS, said)
