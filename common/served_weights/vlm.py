# SPDX-License-Identifier: Apache-2.0
"""Chooses the VLM's weights, by VLM_MODEL, HARDWARE, models.yaml and the present files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tool_errors import WeightsError

from . import identity
from .catalog import Catalog, Model
from .manifest import DEMO_FOLDER, is_demo
from .settings import WeightSettings


@dataclass(frozen=True)
class VlmWeights:
    """The weights to serve. ``demo`` is true for the small ones that the project made itself."""

    model: Model
    path: Path
    demo: bool


def is_absent(folder: Path) -> bool:
    """Whether there is nothing at ``folder``, or an empty folder, as a mount point leaves it."""
    return not folder.exists() or (folder.is_dir() and not any(folder.iterdir()))


def check_complete(folder: Path) -> None:
    """Raise WeightsError unless ``folder`` holds a config.json and at least one *.safetensors, and these are such
    files."""
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
            raise WeightsError(
                f"{file} is not a safetensors file (a pointer of a large-file store?); copy the weights again"
            )


def named(settings: WeightSettings) -> tuple[Model, Path]:
    """The model and the folder that the settings name. The folder need not exist.

    VLM_MODEL is a name in models.yaml, or a folder under MODELS_DIR that is served like the model whose weights it
    holds. Unset, it is the first of the defaults that is there, else on CPU the one that has demo weights, else the
    recommended one. Raises UsageError for a models.yaml that cannot be used.
    """
    catalog = settings.catalog
    name = settings.vlm_model or unnamed(settings).name
    if name in catalog.models:
        model = catalog.models[name]
        return model, settings.models_dir / model.path
    folder = (settings.models_dir / name).resolve()
    return recognised(folder, catalog), folder


def there(settings: WeightSettings) -> list[Model]:
    """The defaults whose folders are there, the newest first."""
    defaults = (settings.catalog.models[name] for name in settings.catalog.defaults)
    return [model for model in defaults if not is_absent(settings.models_dir / model.path)]


def unnamed(settings: WeightSettings) -> Model:
    """The model to serve if VLM_MODEL is unset."""
    models = settings.catalog.models
    with_demo = [models[name] for name in settings.catalog.defaults if models[name].demo]
    found = there(settings) or (with_demo if settings.hardware == "cpu" else [])
    return found[0] if found else settings.catalog.recommended


def recognised(folder: Path, catalog: Catalog) -> Model:
    """The first model of the catalog whose weights may lie in ``folder``; if none fits, the catalog's first."""
    models = list(catalog.models.values())
    return next((model for model in models if not why_other(folder, model, catalog)), models[0])


def serving(served_name: str, folder: Path, catalog: Catalog) -> Model:
    """The model that a server serves, by its name there and the folder that it says it has loaded."""
    by_name = (model for model in catalog.models.values() if served_name in (model.served_name, model.name))
    return next(by_name, None) or recognised(folder, catalog)


def why_other(folder: Path, model: Model, catalog: Catalog) -> str | None:
    """Why the weights in ``folder`` are not the model's, in words; None if they are. Raises WeightsError."""
    return identity.why_other(folder, model.signs, [other.signs for other in catalog.models.values()])


def check_identity(folder: Path, model: Model, catalog: Catalog) -> None:
    """Raise WeightsError unless the weights in ``folder`` are the model's: another version's prompt spoils them."""
    why = why_other(folder, model, catalog)
    if why is None and identity.lacks_token(folder, model.signs.token):
        why = f"tokenizer.json lacks {model.signs.token}"
    if why is None:
        return
    true = recognised(folder, catalog)
    remedy = (
        "copy the right weights there" if true == model else f"set VLM_MODEL={true.name}, and copy them to its folder"
    )
    raise WeightsError(f"the weights in {folder} are not {model.name}: {why}; {remedy}")


def find_vlm(settings: WeightSettings) -> VlmWeights:
    """Choose the weights. If none may be served, raises WeightsError with a remedy.

    Demo weights are served in place of others only on CPU and only where VLM_MODEL is unset.
    """
    model, folder = named(settings)
    catalog = settings.catalog
    models = catalog.models
    is_folder = settings.vlm_model is not None and settings.vlm_model not in models
    if is_folder and not (folder.is_relative_to(settings.models_dir) and folder.is_dir()):
        raise WeightsError(
            f"VLM_MODEL is {settings.vlm_model!r}; expected one of {', '.join(models)}, "
            f"or a folder with weights under MODELS_DIR ({settings.models_dir})"
        )
    if not is_absent(folder):
        check_complete(folder)
        check_identity(folder, model, catalog)
        return VlmWeights(model, folder, is_demo(folder))
    if settings.vlm_model:
        raise WeightsError(
            f"VLM_MODEL is {settings.vlm_model!r}, but there are no weights in {folder}; copy them there"
        )
    remedy = f"copy the published weights to {settings.models_dir / catalog.recommended.path}"
    if settings.hardware != "cpu":
        raise WeightsError(f"there are no weights in {folder}; {remedy} (demo weights are served on CPU only)")
    if model.demo is None or is_absent(settings.models_dir / model.demo):
        raise WeightsError(
            f"there are neither weights in {folder} nor demo weights under {settings.models_dir / DEMO_FOLDER}; "
            f"{remedy}"
        )
    demo = settings.models_dir / model.demo
    check_complete(demo)
    check_identity(demo, model, catalog)
    return VlmWeights(model, demo, is_demo(demo))
