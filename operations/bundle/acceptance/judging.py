# SPDX-License-Identifier: Apache-2.0
"""Whether each replica reads what it should: one crop by each, then the self-test's recorded values."""

from __future__ import annotations

import json

from bundle.acceptance.node import Node, last_line
from bundle.acceptance.steps import FAIL, PASS, WARN, Outcome, listed
from bundle.compose import project
from tool_errors import FAILED, UsageError

SECONDS = 1200


def one_crop(node: Node) -> Outcome:
    words = ("docker", "compose", "exec", "-T", "vlm", "python", "-m", "selftest.read", "--replicas", project.REPLICAS)
    done = node.command("crop.json", *words, timeout=SECONDS)
    if done.returncode not in (0, FAILED) or not done.stdout.strip():
        return Outcome(FAIL, f"the crop could not be asked for: {last_line(done)}")
    answers = json.loads(done.stdout)
    wrong = [f"replica {answer['replica']}: {answer['error']}" for answer in answers if answer["error"]]
    if wrong:
        return Outcome(FAIL, listed(wrong))
    slowest = max(answer["seconds"] for answer in answers)
    same = f"all {len(answers)} replicas read the same" if len(answers) > 1 else "the replica reads"
    return Outcome(PASS, f"{same}: {answers[0]['text'][:80]!r}; at most {slowest:.1f} s")


def self_test(node: Node) -> Outcome:
    done = node.command("selftest.json", "scripts/selftest.sh", "--mode", "docker", "--json", timeout=SECONDS)
    if done.returncode == UsageError.exit_status:
        return Outcome(WARN, f"nothing to compare with: {last_line(done).removeprefix('error: ')}")
    if done.returncode not in (0, FAILED) or not done.stdout.strip():
        return Outcome(FAIL, last_line(done))
    findings = json.loads(done.stdout)["findings"]
    wrong = [f"{finding['name']}: {finding['words']}" for finding in findings if not finding["passed"]]
    if wrong:
        return Outcome(FAIL, listed(wrong))
    return Outcome(PASS, f"{len(findings)} blocks and pages as recorded for these weights")
