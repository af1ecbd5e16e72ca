# SPDX-License-Identifier: Apache-2.0
"""Which weights are served: the decision that VLM_MODEL, HARDWARE and the files present lead to."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from .catalog import Catalog, Model
from .errors import WeightsError
from .settings import Settings


@dataclass(frozen=True)
class Weights:
    """The weights to serve. `demo` is true for the small ones that the project made itself."""

    model: Model
    path: Path
    demo: bool


def is_absent(folder: Path) -> bool:
    """Whether there is nothing at `folder`, or an empty folder as a mount point leaves it."""
    return not folder.exists() or (folder.is_dir() and not any(folder.iterdir()))


def check_complete(folder: Path) -> None:
    """Raise WeightsError unless `folder` holds a config.json and at least one non-empty *.safetensors."""
    if not (folder / "config.json").is_file():
        raise WeightsError(f"the weights in {folder} are incomplete: config.json is missing; copy them again")
    files = list(folder.glob("*.safetensors"))
    if not files:
        raise WeightsError(f"the weights in {folder} are incomplete: no *.safetensors file, the only format loaded")
    for file in files:
        with file.open("rb") as stream:
            head = stream.read(9)
        # Eight bytes of header length, then JSON; a text pointer of a large-file store has neither.
        if len(head) < 9 or head[8:9] != b"{":
            raise WeightsError(f"{file} is not a safetensors file (a pointer of a large-file store?); "
                               "copy the weights again")


def wanted(settings: Settings, catalog: Catalog) -> tuple[Model, Path]:
    """The model and the folder that the settings name.

    VLM_MODEL is a name in models.yaml, or a folder under MODELS_DIR that is served like the default model.
    Raises WeightsError for anything else.
    """
    name = settings.vlm_model or catalog.default
    if name in catalog.models:
        model = catalog.models[name]
        return model, settings.models_dir / model.path
    folder = (settings.models_dir / name).resolve()
    if not folder.is_relative_to(settings.models_dir) or not folder.is_dir():
        raise WeightsError(f"VLM_MODEL is {name!r}; expected one of {', '.join(catalog.models)}, "
                           f"or a folder with weights under MODELS_DIR ({settings.models_dir})")
    return catalog.models[catalog.default], folder


def resolve(settings: Settings, catalog: Catalog) -> Weights:
    """Choose the weights; raises WeightsError with what to do when there are none that may be served.

    Demo weights stand in only on CPU and only where VLM_MODEL names nothing.
    """
    model, folder = wanted(settings, catalog)
    demo_root = settings.models_dir / "demo"
    if not is_absent(folder):
        check_complete(folder)
        return Weights(model, folder, demo=folder.is_relative_to(demo_root))
    remedy = f"copy the published weights to {folder}"
    if settings.vlm_model:
        raise WeightsError(f"VLM_MODEL is {settings.vlm_model!r}, but there are no weights in {folder}; {remedy}")
    if settings.hardware != "cpu":
        raise WeightsError(f"there are no weights in {folder}; {remedy} (demo weights are served on CPU only)")
    if model.demo is None or is_absent(settings.models_dir / model.demo):
        raise WeightsError(f"there are neither weights in {folder} nor demo weights under {demo_root}; {remedy}")
    check_complete(settings.models_dir / model.demo)
    return Weights(model, settings.models_dir / model.demo, demo=True)
