# SPDX-License-Identifier: Apache-2.0
"""Does a running VLM server compute what the reference computed with the same weights? Golden blocks against recorded
values. Standard library only, so that it runs in the server's own container as well:

    python -m selftest [--vlm URL]

The values lie beside the weights (``selftest.json``) and name them by SHA-256, so that other weights are not taken for
a device that computes wrongly.
"""

from __future__ import annotations

import argparse
import difflib
import hashlib
import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from served_weights.catalog import Model
from served_weights.manifest import digest
from served_weights.question import Question
from tool_errors import FAILED, ServiceError, UsageError

from .server import Answer, Server

NAME = "selftest.json"
# The key of a VLM container's replicas, beside its replicas.json. Replicas without a key have no such file.
KEY_FILE = "vlm-api-key"
MAX_NEW_TOKENS = 256
# Where the recorded first choice leads by less than this (nats), the device's rounding may choose the second one.
NEAR_TIE = 0.5
LOGPROB_TOLERANCE = 0.05
# The least likeness of two readings of a block: a near tie changes a letter or two, a wrong computation the whole text.
LEAST_ALIKE = 0.97


@dataclass(frozen=True)
class Finding:
    """The self-test's verdict on one block or page."""

    name: str
    passed: bool
    words: str


def read_alike(text: str, other: str) -> bool:
    """Whether rounding at near ties explains the difference between two readings of a block."""
    return difflib.SequenceMatcher(None, text, other, autojunk=False).ratio() >= LEAST_ALIKE


def blocks() -> list[Path]:
    """The golden blocks: lines cut out of the pages in tests/data."""
    return sorted(Path(__file__).with_name("golden").glob("*.png"))


def fingerprint(weights: Path) -> str:
    """SHA-256 over the SHA-256 of each weights file. Raises UsageError if there are no files."""
    files = sorted(weights.glob("*.safetensors"))
    if not files:
        raise UsageError(f"--weights {weights}: has no *.safetensors; name the folder whose weights are served")
    total = hashlib.sha256()
    for file in files:
        total.update(bytes.fromhex(digest(file)))
    return total.hexdigest()


def load(values: Path, weights: Path) -> dict[str, Any]:
    """The recorded values. Raises UsageError if there are none, or if they belong to other weights."""
    remedy = "record them on a machine that is known to be right: scripts/selftest.sh --record"
    if not values.is_file():
        raise UsageError(f"{values}: there are no recorded values for these weights; {remedy}")
    try:
        recorded = json.loads(values.read_text(encoding="utf-8"))
        of = recorded["weights"]
    except (ValueError, KeyError, TypeError):
        raise UsageError(f"{values}: is damaged; {remedy}") from None
    if of != (actual := fingerprint(weights)):
        raise UsageError(
            f"{values}: the values were recorded for other weights ({of[:12]}..., here are {actual[:12]}...) and "
            f"cannot judge this device; {remedy}"
        )
    return recorded


def compare(recorded: dict[str, Any], answer: Answer, tolerance: float) -> Finding:
    """Compare the answer for one block with the recorded values.

    The tokens must be the recorded ones. Where the two most probable tokens are nearly equal, the device may choose the
    second; only the tokens before that place are compared then. Before the first token there are none, so a block that
    begins with a near tie proves nothing and passes.
    """
    name, tokens = recorded["image"], recorded["tokens"]
    same = next(
        (at for at, (ours, theirs) in enumerate(zip(answer.tokens, tokens)) if ours != theirs),
        min(len(answer.tokens), len(tokens)),
    )
    served = [probable[token] for token, probable in zip(answer.tokens[:same], answer.most_probable)]
    differences = [abs(ours - theirs) for ours, theirs in zip(served, recorded["logprobs"])]
    mean = sum(differences) / len(differences) if differences else 0.0
    figures = f"mean log-probability difference {mean:.4f} over {same} tokens (at most {tolerance})"
    if same < len(tokens):
        margin = recorded["margins"][same]
        figures = (
            f"another token at {same} of {len(tokens)}, where the recorded one led by {margin:.2f} nats; {figures}"
        )
        if margin > NEAR_TIE or not answer.tokens:
            return Finding(name, False, f"{figures}; read {answer.text!r}, recorded {recorded['text']!r}")
    return Finding(name, mean <= tolerance, figures)


def question_of(model: Model) -> Question:
    """A model's question for the golden blocks. Raises UsageError for an entry without one."""
    if model.golden is None:
        raise UsageError(
            f"models.yaml: models.{model.name} lacks the key 'golden', the question for the golden blocks; add it as "
            "in the other entries"
        )
    return model.golden


def recorded_question(recorded: dict[str, Any]) -> Question:
    """The question of the recorded values. Raises UsageError for one that cannot be asked."""
    said = recorded.get("question")
    return Question.from_entry(said if isinstance(said, dict) else {}, f"{NAME}: question")


def check_blocks(server: Server, recorded: dict[str, Any], tolerance: float = LOGPROB_TOLERANCE) -> list[Finding]:
    """Ask the server the recorded question for every golden block. Raises UsageError if the values are of other golden
    blocks."""
    question = recorded_question(recorded)
    by_name = {block["image"]: block for block in recorded["blocks"]}
    if sorted(by_name) != [path.name for path in blocks()]:
        raise UsageError("the values were recorded for other golden blocks; run scripts/selftest.sh --record")
    findings = []
    for path in blocks():
        answer = server.ask([path.read_bytes()], question, MAX_NEW_TOKENS)
        findings.append(compare(by_name[path.name], answer, tolerance))
    return findings


def replica_urls(file: Path) -> list[str]:
    """The API root of every replica that a VLM container's replicas.json lists. Raises UsageError."""
    try:
        ports = json.loads(file.read_text())["ports"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"--replicas {file}: {error}; expected the file of a VLM container") from error
    return [f"http://127.0.0.1:{port}/v1" for port in ports]


def replica_key(file: Path) -> str | None:
    """The key that the container of this replicas.json asks for, None where it asks for none."""
    try:
        return file.with_name(KEY_FILE).read_text()
    except FileNotFoundError:
        return None


def check_replicas(
    urls: list[str], key: str | None, weights: Path | None, values: Path | None, tolerance: float
) -> list[Finding]:
    """Ask every replica by itself, all at the same time, so that none can hide behind the balancer.

    Findings are named `replica 0, line-1.png`. A replica that does not answer is a finding that did not pass. Raises
    UsageError where the recorded values cannot be used.
    """

    def ask(index: int) -> list[Finding]:
        try:
            server = Server(urls[index], key)
            folder = weights or Path(server.root)
            found = check_blocks(server, load(values or folder / NAME, folder), tolerance)
        except ServiceError as error:
            return [Finding(f"replica {index}", False, str(error))]
        return [replace(finding, name=f"replica {index}, {finding.name}") for finding in found]

    with ThreadPoolExecutor(len(urls)) as threads:
        return [finding for found in threads.map(ask, range(len(urls))) for finding in found]


def show(findings: list[Finding], as_json: bool = False) -> int:
    """Print the findings, as lines or as one JSON object ``{"passed": ..., "findings": [...]}``; returns the exit
    status."""
    passed = bool(findings) and all(finding.passed for finding in findings)
    if as_json:
        print(json.dumps({"passed": passed, "findings": [asdict(finding) for finding in findings]}, ensure_ascii=False))
        return 0 if passed else FAILED
    for finding in findings:
        print(f"{'ok  ' if finding.passed else 'FAIL'} {finding.name}: {finding.words}")
    print("self-test passed" if passed else "self-test FAILED: this device or image does not compute what was recorded")
    return 0 if passed else FAILED


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--weights", type=Path, metavar="DIR", help="the weights that are served (default: as the VLM says)"
    )
    parser.add_argument(
        "--values", type=Path, metavar="FILE", help=f"recorded values (default {NAME} beside the weights)"
    )
    parser.add_argument("--vlm", default="http://127.0.0.1:8000/v1", metavar="URL", help="default %(default)s")
    parser.add_argument(
        "--replicas", type=Path, metavar="FILE", help="ask each replica that the container's replicas.json lists"
    )
    parser.add_argument(
        "--tolerance", type=float, default=LOGPROB_TOLERANCE, metavar="NATS", help="default %(default)s"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout instead of lines")
    options = parser.parse_args()
    if options.replicas:
        urls = replica_urls(options.replicas)
        key = replica_key(options.replicas)
        return show(check_replicas(urls, key, options.weights, options.values, options.tolerance), options.json)
    server = Server(options.vlm)
    weights = options.weights or Path(server.root)
    findings = check_blocks(server, load(options.values or weights / NAME, weights), options.tolerance)
    return show(findings, options.json)
