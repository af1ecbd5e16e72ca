# SPDX-License-Identifier: Apache-2.0
"""Each die alone: allocation and one operator of each kind, compared with double precision on the host."""

from __future__ import annotations

import json
from typing import Any

from bundle.acceptance.node import Node, last_line
from bundle.acceptance.steps import FAIL, PASS, SKIP, Outcome, listed
from bundle.compose import project
from bundle.compose.dies import DIES
from bundle.progress import plural

# One die after the other, each as long as vlm_server.die_check lets it be; the first one may compile operators.
SECONDS = DIES * 600 + 300


def name(die: dict[str, Any]) -> str:
    return "the CPU" if die["die"] is None else f"die {die['die']}"


def atb_instead(dies: list[dict[str, Any]]) -> bool:
    """Whether the tower's attention is wrong as it is chosen, and right on every die by ATB."""
    tower = [one for die in dies for one in die["findings"] if one["name"].startswith("tower attention")]
    right = {library: not any(one["words"] for one in tower if one["library"] == library) for library in ("npu", "atb")}
    return any(one["library"] == "atb" for one in tower) and right["atb"] and not right["npu"]


def judge(dies: list[dict[str, Any]], library: str = "") -> Outcome:
    """Judge the operators of a library, or all of them if none is named."""
    wrong, worst, count = [], (-1.0, ""), 0
    for die in dies:
        if die["problem"]:
            wrong.append(f"{name(die)}: {die['problem']}")
        for finding in die["findings"]:
            if library and finding["library"] != library:
                continue
            count += 1
            error, tolerance = finding["error"], finding["tolerance"]
            if finding["words"]:
                figures = "" if error is None else f" ({error:.4f}, at most {tolerance:.4f})"
                wrong.append(f"{name(die)}, {finding['name']}: {finding['words']}{figures}")
            elif tolerance:
                worst = max(worst, (error / tolerance, f"{finding['name']}, {name(die)}"))
    if wrong:
        remedy = "; VLM_ATTENTION=npu-atb in .env is right here" if atb_instead(dies) else ""
        return Outcome(FAIL, listed(wrong) + remedy)
    if not count:
        return Outcome(FAIL, "no operator was tried")
    share = f"; the nearest to its tolerance: {worst[1]}, {100 * worst[0]:.0f} %" if worst[1] else ""
    return Outcome(PASS, f"{count} results right{share}")


def alone(node: Node) -> Outcome:
    late = ""
    try:
        done = node.in_vlm("dies.json", "python", "-m", "vlm_server.die_check", timeout=SECONDS)
        printed, why = done.stdout, last_line(done)
    except project.NoAnswer as error:
        printed, why, late = error.stdout, str(error), f"{error}; until then "
    # The last line may be cut off.
    lines = [line for line in printed.splitlines() if line.startswith("{") and line.endswith("}")]
    if not lines:
        return Outcome(FAIL, f"the check did not run: {why}")
    node.dies = [json.loads(line) for line in lines]
    outcome = judge(node.dies)
    where = plural(len(node.dies), "die") if node.dies[0]["kind"] == "npu" else "CPU, PyTorch's kernels (no die)"
    # Whatever model is served: operators in the shapes of another family are not tried.
    return Outcome(FAIL if late else outcome.verdict, f"{late}{where}, in PaddleOCR-VL's shapes: {outcome.found}")


def atb(node: Node) -> Outcome:
    if not node.ascend:
        return Outcome(SKIP, "HARDWARE=cpu: ATB is a library of CANN")
    if not node.dies:
        return Outcome(FAIL, "the dies gave no answer in the step before")
    outcome = judge(node.dies, "atb")
    return (
        Outcome(outcome.verdict, f"the library loads and computes: {outcome.found}")
        if outcome.verdict == PASS
        else outcome
    )
