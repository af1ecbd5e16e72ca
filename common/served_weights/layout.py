# SPDX-License-Identifier: Apache-2.0
"""Which weights the layout model is loaded from."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from . import manifest
from .demo import FOLDER, is_demo
from .errors import WeightsError
from .settings import REPOSITORY, WeightSettings
from .vlm import named

NAME = "PP-DocLayoutV2"
FILES = ("inference.json", "inference.pdiparams", "inference.yml")
# An image for offline nodes may carry the model there (Dockerfiles: context layout_model).
CARRIED = REPOSITORY / "layout_model" / NAME


@dataclass(frozen=True)
class LayoutWeights:
    """The folder, and whether it holds the small model that the project made itself."""

    path: Path
    demo: bool


def candidates(settings: WeightSettings, carried: Path | None = None) -> list[Path]:
    """The folders that may hold the model, the first one that does counts. Raises UsageError for a wrong models.yaml.

    LAYOUT_MODEL_DIR alone if it is set. Else the folder inside the VLM's, the one under MODELS_DIR, the one that the
    image carries (``carried``, by default CARRIED), and the demo's: on CPU only, and only where VLM_MODEL names no
    other weights.
    """
    if settings.layout_model_dir is not None:
        return [settings.layout_model_dir]
    _, vlm = named(settings)
    folders = [vlm / NAME, settings.models_dir / NAME, carried or CARRIED]
    if settings.hardware == "cpu" and (settings.vlm_model is None or is_demo(vlm)):
        folders.append(settings.models_dir / FOLDER / NAME)
    return folders


def find_layout(settings: WeightSettings, carried: Path | None = None) -> LayoutWeights:
    """Choose the folder; see ``candidates``. Raises WeightsError that names every folder it looked into."""
    folders = candidates(settings, carried)
    for folder in folders:
        if is_complete(folder):
            return LayoutWeights(folder, is_demo(folder))
    looked = ", ".join(map(str, folders))
    raise WeightsError(
        f"The layout model {NAME} was not found: looked for {', '.join(FILES)} in {looked}. "
        "Set LAYOUT_MODEL_DIR, or put the published weights under MODELS_DIR."
    )


def is_complete(folder: Path) -> bool:
    """Whether all files of the model are there."""
    return all((folder / name).is_file() for name in FILES)


def verify_layout(folder: Path) -> int:
    """Compare the files with the manifest beside them; returns how many, 0 where there is no manifest.

    Raises WeightsError for a file that differs, is missing, or is not listed.
    """
    return manifest.verify(folder, must_list=FILES)
