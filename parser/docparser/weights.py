# SPDX-License-Identifier: Apache-2.0
"""Which weights are in use, and whether they are the demo weights."""

from __future__ import annotations

import dataclasses
from pathlib import Path, PurePosixPath

from docparser.errors import NotReady
from docparser.settings import Settings

LAYOUT_MODEL = "PP-DocLayoutV2"
LAYOUT_FILES = ("inference.json", "inference.pdiparams", "inference.yml")


@dataclasses.dataclass(frozen=True)
class Weights:
    """``path`` is where they lie on the machine that has them loaded, if that is known."""

    model: str
    path: str | None
    demo: bool | None

    def as_dict(self) -> dict:
        return {key: value for key, value in dataclasses.asdict(self).items() if value is not None}


def is_demo(path: str | Path) -> bool:
    """The tracked demo weights, and nothing else, lie in a folder named ``demo`` under MODELS_DIR."""
    return PurePosixPath(path).parent.name == "demo"


def find_layout_model(settings: Settings) -> Weights:
    """LAYOUT_MODEL_DIR if it is set; else the folder inside the VLM's, else beside it, else (on CPU) the demo's.

    Raises NotReady that names every folder it looked into.
    """
    if settings.layout_model_dir is not None:
        candidates = [settings.layout_model_dir]
    else:
        root, vlm = settings.models_dir, settings.vlm_model or "PaddleOCR-VL"
        candidates = [root / vlm / LAYOUT_MODEL, root / LAYOUT_MODEL]
        if settings.hardware == "cpu":
            candidates.append(root / "demo" / LAYOUT_MODEL)
    for folder in candidates:
        if all((folder / name).is_file() for name in LAYOUT_FILES):
            return Weights(LAYOUT_MODEL, str(folder), is_demo(folder.absolute()))
    looked = ", ".join(str(folder) for folder in candidates)
    raise NotReady(
        f"The layout model {LAYOUT_MODEL} was not found: looked for {', '.join(LAYOUT_FILES)} in {looked}. "
        "Set LAYOUT_MODEL_DIR, or put the published weights under MODELS_DIR."
    )
