# SPDX-License-Identifier: Apache-2.0
"""The weights in MODELS_DIR: there, whole, and readable by the containers' user."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ..manifest import check_manifest
from ..paths import ROOT
from .machine import Finding, Machine, passed

LAYOUT = "PP-DocLayoutV2"


def check_weights(machine: Machine) -> Iterator[Finding]:
    models = (ROOT / (machine.values.get("MODELS_DIR") or "models")).resolve()
    name = machine.values.get("VLM_MODEL") or "PaddleOCR-VL"
    folder = models / name
    if not (folder / "config.json").is_file():
        if machine.hardware == "cpu" and not machine.values.get("VLM_MODEL"):
            yield Finding("WARN", "weights", f"{folder} is not there", "the published weights; until then the demo's are "
                          "served", "scripts/fetch_weights.sh")
        else:
            yield Finding("FAIL", "weights", f"{folder} is not there or incomplete", "config.json and *.safetensors",
                          "scripts/fetch_weights.sh, or copy the folder there")
        return
    trouble = check_manifest(folder)
    if trouble:
        yield Finding("FAIL", "weights", trouble, "the files of the manifest", "scripts/fetch_weights.sh, or copy them again")
    else:
        yield passed("weights", f"{folder}" + ("" if (folder / "SHA256SUMS").is_file() else ", no SHA256SUMS to compare with"))
    elsewhere = machine.values.get("LAYOUT_MODEL_DIR") or machine.values.get("LAYOUT_MODEL_SOURCE")
    if not (folder / LAYOUT).is_dir() and not (models / LAYOUT).is_dir() and not elsewhere:
        yield Finding("FAIL", "layout model", f"no {LAYOUT} in {folder} or {models}", f"the folder {LAYOUT}",
                      f"copy {LAYOUT} into {folder}, as it is published, or build it into the image (LAYOUT_MODEL_SOURCE)")
    closed = next((path for path in walk(folder) if not path.stat().st_mode & (0o005 if path.is_dir() else 0o004)), None)
    if closed:
        yield Finding("FAIL", "permissions", f"{closed} cannot be read by others", "files that user 10001 can read",
                      f"chmod -R a+rX {models}")


def walk(folder: Path) -> Iterator[Path]:
    yield folder
    yield from folder.rglob("*")


CHECKS = (check_weights,)
