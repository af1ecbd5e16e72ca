# SPDX-License-Identifier: Apache-2.0
"""All dies serve: the bundle starts if it does not run, every replica answers and reads what it should, and each has
captured its graphs."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import atlas
from bundle import parser_client
from bundle.acceptance.node import Node, last_line
from bundle.acceptance.steps import FAIL, PASS, SKIP, WARN, Outcome, listed
from bundle.compose import project
from selftest.check import read_alike
from tool_errors import FAILED, UsageError

# Longer than Docker waits for a `vlm` that does not get well (Dockerfile.ascend: 30 minutes and 6 tries), so that
# Compose itself says what failed.
START_SECONDS = 2000
JUDGE_SECONDS = 1200
# Four servers, one after the other, each as long as mode_check waits for one; the key of the busiest measurement.
MODES_SECONDS, BUSY = 4 * 1200, "16"
# What vLLM and vllm-ascend write when a replica has captured its graphs.
CAPTURED = re.compile(r"Graph capturing finished in (\d+) secs")
# Words of VLM_ARGS without graphs; --no-enforce-eager has them.
EAGER = re.compile(
    r"""--enforce[-_]eager|-O[ =]?0\b|\bcudagraph_mode["']?\s*[:= ]\s*["']?(?:none|0)\b""", re.IGNORECASE
)
STARTED = re.compile(r"replica \d+: \d+ cores from ")


def all_dies(node: Node) -> Outcome:
    started = ""
    rows = project.containers()
    if any(rows.get(service, {}).get("State") != "running" for service in ("vlm", "parser")):
        words = ("docker", "compose", "up", "--detach", "--no-build")
        done = node.command("up.txt", *words, timeout=max(START_SECONDS, node.options.wait_s))
        if done.returncode:
            return Outcome(FAIL, f"docker compose up: {last_line(done)}")
        started = "started by this script; "
    wait = f"{node.options.wait_s:.0f}"
    done = node.command(
        "status.json", "scripts/status.sh", "--json", "--wait-all", wait, timeout=node.options.wait_s + 300
    )
    if not done.stdout.strip():
        return Outcome(FAIL, last_line(done))
    lines = {line["name"]: line for line in json.loads(done.stdout)}
    if counted := re.match(r"(\d+) of \d+ up", lines.get("replicas", {}).get("text", "")):
        node.replicas = int(counted[1])
    bad = [f"{line['name']}: {line['text']}" for line in lines.values() if line["well"] is False]
    shown = [f"{name} {lines[name]['text']}" for name in ("replicas", "weights", "disk") if name in lines]
    ready(node)
    return Outcome(FAIL if bad else PASS, started + "; ".join(bad or shown))


def ready(node: Node) -> None:
    """Learn which weights serve; without an answer, none are known, and no text is compared."""
    try:
        text = parser_client.get(f"{node.parser_url}/health/ready", 30)
    except OSError as error:
        node.keep("ready.txt", f"{node.parser_url}/health/ready: {error}\n")
        return
    node.keep("ready.json", text)
    node.weights = json.loads(text).get("result") or {}


def without_graphs(node: Node) -> str:
    """Why this machine has no graphs to measure; empty where it has."""
    if not node.ascend:
        return "HARDWARE=cpu: the model runs eagerly there (decision 0103)"
    product = atlas.named(node.values.get("ATLAS") or "")
    return "" if product.graphs else f"ATLAS={product.key}: a {product.title} serves without graphs (decision 0422)"


def graph_modes(node: Node) -> Outcome:
    """Measure the graph modes on one die and name the best one, with its line for .env. A mode that reads another text
    than the model without graphs is never the best."""
    if why := without_graphs(node):
        return Outcome(SKIP, why)
    if node.running("vlm"):
        return Outcome(
            SKIP, "vlm holds the dies; to measure the graph modes, run docker compose stop vlm, then this script again"
        )
    done = node.in_vlm("modes.json", "python", "-m", "vlm_server.mode_check", timeout=MODES_SECONDS)
    lines = done.stdout.strip().splitlines()
    if not lines or not lines[-1].startswith("["):
        return Outcome(FAIL, f"the modes were not measured: {last_line(done)}")
    found = json.loads(lines[-1])
    if not found:
        return Outcome(SKIP, "VLM_ARGS says which graphs (--compilation-config, -O or --enforce-eager)")
    right = next((one["text"] for one in found if one["mode"] == "none" and not one["problem"]), None)
    wrong = [f"{one['mode']}: {one['problem']}" for one in found if one["problem"]]
    wrong += [
        f"{one['mode']} reads another text than without graphs"
        for one in found
        if not one["problem"] and right is not None and not read_alike(one["text"], right)
    ]
    good = [one for one in found if not one["problem"] and (right is None or read_alike(one["text"], right))]
    if not good:
        return Outcome(FAIL, "; ".join(wrong))
    said = ", ".join(f"{one['mode']} {one['tokens_per_second'][BUSY]:.0f}{rounded(one)}" for one in good)
    best = max(good, key=lambda one: one["tokens_per_second"][BUSY])["mode"]
    said = f"tokens a second of {BUSY} requests at once: {said}; {for_env(best, node.values)}"
    return Outcome(WARN if wrong else PASS, "; ".join([said, *wrong]))


def rounded(mode: Mapping[str, Any]) -> str:
    """How often requests beside others chose another letter."""
    return f" ({mode['readings']} readings, all alike)" if mode["readings"] > 1 else ""


def for_env(best: str, values: Mapping[str, str]) -> str:
    """What .env should say for this mode: its name, since stacks differ in what an empty value is. VLM_ENFORCE_EAGER=1
    is refused beside a mode with graphs."""
    lines = [f"VLM_GRAPH_MODE={best}"] if values.get("VLM_GRAPH_MODE") != best else []
    if values.get("VLM_ENFORCE_EAGER") and best != "none":
        lines.append("VLM_ENFORCE_EAGER=")
    if lines:
        return f".env: {' and '.join(lines)}"
    return f"VLM_GRAPH_MODE stays {best}"


def graph_capture(node: Node) -> Outcome:
    if why := without_graphs(node):
        return Outcome(SKIP, why)
    mode = node.values.get("VLM_GRAPH_MODE") or ""
    if node.values.get("VLM_ENFORCE_EAGER") == "1" or mode == "none":
        return Outcome(SKIP, "VLM_ENFORCE_EAGER or VLM_GRAPH_MODE turns graph mode off")
    if EAGER.search(node.values.get("VLM_ARGS") or ""):
        return Outcome(SKIP, "VLM_ARGS turns graph mode off")
    log = node.command("vlm.log", "docker", "compose", "logs", "--no-color", "vlm", timeout=300).stdout
    seconds = [int(found) for found in CAPTURED.findall(log)]
    if not node.replicas:
        return Outcome(FAIL, "no replica answers")
    if len(seconds) >= node.replicas:
        return Outcome(PASS, f"{len(seconds)} captures for {node.replicas} replicas, the longest {max(seconds)} s")
    said = f"{len(seconds)} captures in the log for {node.replicas} replicas"
    if len(STARTED.findall(log)) < node.replicas:
        return Outcome(
            WARN, f"{said}, but the log does not reach back to their start: docker compose restart vlm, and again"
        )
    return Outcome(FAIL, f"{said}; the log says why; VLM_ENFORCE_EAGER=1 serves without graphs")


def one_crop(node: Node) -> Outcome:
    """Whether each replica reads a crop, and all read the same."""
    words = ("docker", "compose", "exec", "-T", "vlm", "python", "-m", "selftest.read", "--replicas", project.REPLICAS)
    done = node.command("crop.json", *words, timeout=JUDGE_SECONDS)
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
    """Whether the self-test gives the values that were recorded."""
    done = node.command("selftest.json", "scripts/selftest.sh", "--mode", "docker", "--json", timeout=JUDGE_SECONDS)
    if done.returncode == UsageError.exit_status:
        return Outcome(WARN, f"nothing to compare with: {last_line(done).removeprefix('error: ')}")
    if done.returncode not in (0, FAILED) or not done.stdout.strip():
        return Outcome(FAIL, last_line(done))
    findings = json.loads(done.stdout)["findings"]
    wrong = [f"{finding['name']}: {finding['words']}" for finding in findings if not finding["passed"]]
    if wrong:
        return Outcome(FAIL, listed(wrong))
    return Outcome(PASS, f"{len(findings)} blocks and pages as recorded for these weights")
