# SPDX-License-Identifier: Apache-2.0
"""Chooses the weights of the layout model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tool_errors import WeightsError

from .catalog import Model
from .identity import model_name
from .manifest import DEMO_FOLDER, is_demo, verify
from .settings import REPOSITORY, WeightSettings
from .vlm import named

DEFAULT = "PP-DocLayoutV2"  # of an entry of models.yaml that names none
NONE = "none"  # in an entry whose model reads whole pages
FILES = ("inference.json", "inference.pdiparams", "inference.yml")
# An image for offline nodes may carry the model there (Dockerfiles: context layout_model).
CARRIED = REPOSITORY / "layout_model"


@dataclass(frozen=True)
class LayoutWeights:
    """The model's name, its folder, and whether it is the small one that the project made itself."""

    name: str
    path: Path
    demo: bool


def name_of(model: Model) -> str:
    """The layout model that belongs to a VLM."""
    return model.layout or DEFAULT


def has_one(model: Model) -> bool:
    """Whether a layout model belongs to a VLM; else the VLM reads whole pages."""
    return name_of(model) != NONE


def candidates(settings: WeightSettings, carried: Path | None = None) -> list[Path]:
    """The folders that may hold the model, the first one that does counts. Raises UsageError for a wrong models.yaml.

    LAYOUT_MODEL_DIR alone if it is set. Else the folder inside the VLM's, the one under MODELS_DIR, the one that the
    image carries (a folder of ``carried``, by default CARRIED), and the demo's: on CPU only, and only where VLM_MODEL
    names no other weights. The folder's name is the layout model's that belongs to the VLM.
    """
    if settings.layout_model_dir is not None:
        return [settings.layout_model_dir]
    model, vlm = named(settings)
    name = name_of(model)
    folders = [vlm / name, settings.models_dir / name, (carried or CARRIED) / name]
    if settings.hardware == "cpu" and (settings.vlm_model is None or is_demo(vlm)):
        folders.append(settings.models_dir / DEMO_FOLDER / name)
    return folders


def find_layout(settings: WeightSettings, carried: Path | None = None) -> LayoutWeights:
    """Choose the folder; see ``candidates``. Raises WeightsError for a VLM that has no layout model (``has_one``), one
    that names every folder it looked into, and one for a folder whose inference.yml names another layout model."""
    model = named(settings)[0]
    if not has_one(model):
        raise WeightsError(f"{model.name} reads whole pages and has no layout model")
    name, folders = name_of(model), candidates(settings, carried)
    for folder in folders:
        if is_complete(folder):
            check_name(folder, name)
            return LayoutWeights(name, folder, is_demo(folder))
    looked = ", ".join(map(str, folders))
    raise WeightsError(
        f"The layout model {name} was not found: looked for {', '.join(FILES)} in {looked}. "
        "Set LAYOUT_MODEL_DIR, or put the published weights under MODELS_DIR."
    )


def check_name(folder: Path, name: str) -> None:
    """Raise WeightsError if inference.yml names another model, because its outputs and thresholds differ."""
    said = model_name(folder)
    if said not in (None, name):
        raise WeightsError(
            f"{folder} holds {said}, but {name} belongs to the VLM that is served; copy {name} there, or set VLM_MODEL "
            f"to the VLM of {said}"
        )


def is_complete(folder: Path) -> bool:
    """Whether all files of the model are there."""
    return all((folder / name).is_file() for name in FILES)


def verify_layout(folder: Path) -> int:
    """Compare the files with the manifest beside them; returns how many, 0 where there is no manifest.

    Raises WeightsError for a file that differs, is missing, or is not listed.
    """
    return verify(folder, must_list=FILES)
