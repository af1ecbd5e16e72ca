# SPDX-License-Identifier: Apache-2.0
"""Reports: Markdown for people, JSON of the same content for machines."""

from __future__ import annotations

import dataclasses
import json
import math
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tool_errors import UsageError

from .verdict import Thresholds, Verdict, percent

WHY_EPSILON = (
    "MRE is the mean of |candidate - baseline| / (|baseline| + 0.001) over all logits. Some logits are next to zero; "
    "with the usual 1e-12 these few, whose difference is a rounding error, would make the mean a number of seven "
    "digits."
)
TEACHER_FORCED = (
    "Both sides see the same tokens: prompt, image and the baseline's own greedy answer; their logits are compared at "
    "every position."
)
SERVED = (
    "The server answers greedily and gives the log-probabilities of its 20 most probable tokens; the baseline is asked "
    "for the same tokens after the same beginning. A server gives no logits: MRE and cosine are not available."
)


def table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """Lines of a Markdown table, followed by an empty one."""
    lines = [heads, ["---"] * len(heads), *rows]
    return [
        "| " + " | ".join(str(cell).replace("|", "\\|").replace("\n", " ") for cell in line) + " |" for line in lines
    ] + [""]


def setting_lines(settings: dict[str, Any]) -> list[str]:
    return [f"- {name}: {value}" for name, value in settings.items()] + [""]


def accuracy_markdown(verdict: Verdict, thresholds: Thresholds, settings: dict[str, Any]) -> str:
    marks = {True: "passed", False: "FAILED", None: "-"}
    word = "PASSED" if verdict.passed(thresholds) else "FAILED"
    lines = [f"# Accuracy: {word}", "", *setting_lines(settings)]
    checks = verdict.checks(thresholds)
    lines += table(
        ["metric", "threshold", "found", "verdict"], [(c.name, c.wanted, c.found, marks[c.passed]) for c in checks]
    )
    lines += ["## Images", ""]
    rows: list[tuple[object, ...]]
    if verdict.served:
        heads = ["image", "tokens", "same first choice", "mean log-probability difference"]
        rows = [(i.name, i.positions, i.agreeing, f"{i.error:.5f}") for i in verdict.images]
    else:
        heads = ["image", "positions", "same first choice", "of the answer's", "MRE", "cosine", "lowest cosine"]
        rows = [
            (
                i.name,
                i.positions,
                i.agreeing,
                f"{i.answer_agreeing} of {i.answer_positions}",
                percent(i.error),
                f"{i.cosine:.9f}",
                f"{i.min_cosine:.9f}",
            )
            for i in verdict.images
        ]
    lines += table(heads, rows)
    lines += ["## Worst positions", ""]
    lines += table(
        [
            "image",
            "position",
            "where",
            "token there",
            "error",
            "cosine",
            "baseline's choice",
            "candidate's",
            "baseline's margin",
        ],
        [
            (
                w.image,
                w.position,
                w.where,
                w.token,
                percent(w.error) if not verdict.served else f"{w.error:.5f}",
                "-" if w.cosine is None else f"{w.cosine:.6f}",
                w.first,
                w.candidate_first,
                f"{w.margin:.4f}",
            )
            for w in verdict.worst
        ],
    )
    texts = [f"- {image.name}: {shown(image.text)}" for image in verdict.images if image.text]
    lines += ["## Answers that were compared", "", *texts, ""] if texts else []
    lines += [SERVED if verdict.served else TEACHER_FORCED, ""]
    lines += [] if verdict.served else [WHY_EPSILON, ""]
    return "\n".join(lines)


def shown(text: str) -> str:
    """Text or a token as inline code, blanks visible."""
    return "`" + text.replace("`", "'").replace("\n", "\\n") + "`"


def accuracy_json(verdict: Verdict, thresholds: Thresholds, settings: dict[str, Any]) -> dict[str, Any]:
    return {
        "passed": verdict.passed(thresholds),
        "settings": settings,
        "thresholds": dataclasses.asdict(thresholds),
        "checks": [dataclasses.asdict(check) for check in verdict.checks(thresholds)],
        "mre_percent": None if verdict.served else 100 * verdict.error,
        "cosine": None if verdict.served else verdict.cosine,
        "logprob_difference": verdict.error if verdict.served else None,
        "top1_percent": verdict.top1,
        "images": [dataclasses.asdict(image) for image in verdict.images],
        "worst": [dataclasses.asdict(worst) for worst in verdict.worst],
    }


def finite(value: Any) -> Any:
    """JSON has no infinity and no NaN: both become null, at every level."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    return [finite(item) for item in value] if isinstance(value, (list, tuple)) else value


def check_output(path: Path) -> None:
    """Before hours of work: raise UsageError unless ``path``, and the JSON beside it, can be written."""
    if path.suffix != ".md":
        raise UsageError(f"--output {path}: expected a name that ends in .md; the JSON report is written beside it")
    folder = path.absolute().parent
    if not folder.is_dir():
        raise UsageError(f"--output {path}: the folder {folder} does not exist")
    for file in (path, path.with_suffix(".json")):
        if file.is_dir():
            raise UsageError(f"--output {path}: {file} is a folder; give the report another name")
        if not os.access(*((file, os.W_OK) if file.exists() else (folder, os.W_OK | os.X_OK))):
            raise UsageError(f"--output {path}: {file} cannot be written; name a file in a folder of your own")


def write(path: Path, markdown: str, document: dict[str, Any]) -> None:
    """``path`` (Markdown) and the same name with ``.json``."""
    path.write_text(markdown, encoding="utf-8")
    text = json.dumps(finite(document), indent=1, ensure_ascii=False, allow_nan=False)
    path.with_suffix(".json").write_text(text + "\n", encoding="utf-8")
