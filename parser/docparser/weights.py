# SPDX-License-Identifier: Apache-2.0
"""Which weights are in use, as the parser reports them. ``served_weights`` decides which they are."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from docparser.errors import NotReady
from docparser.settings import Settings
from served_weights import layout
from served_weights.catalog import Model
from served_weights.settings import WeightSettings
from served_weights.vlm import is_absent, named
from tool_errors import UsageError


@dataclasses.dataclass(frozen=True)
class Weights:
    """``path`` is where they lie on the machine that has them loaded, if that is known."""

    model: str
    path: str | None
    demo: bool | None

    def as_dict(self) -> dict:
        return {key: value for key, value in dataclasses.asdict(self).items() if value is not None}


def settled(settings: Settings) -> Settings:
    """The same with VLM_MODEL named, where it is unset and published weights are there: the service and its workers
    keep to them. Weights that are fetched while it runs would else be the newest, for each worker that starts anew.

    Where a demo model serves nothing is named, since no name leads to it. Raises NotReady.
    """
    if settings.vlm_model is not None:
        return settings
    try:
        asked = _asked(settings)
        model, folder = named(asked)
        demo = is_absent(folder) or (layout.has_one(model) and layout.find_layout(asked).demo)
    except UsageError as error:
        raise NotReady(str(error)) from error
    return settings if demo else settings.model_copy(update={"vlm_model": model.name})


def find_layout_model(settings: Settings, *, verify: bool = False) -> Weights:
    """The layout model's weights; with ``verify`` their files are compared with the manifest beside them. Ask
    ``reads_whole_pages`` first.

    Raises NotReady that names every folder it looked into, or the file that is not the listed one.
    """
    try:
        found = layout.find_layout(_asked(settings))
        if verify:
            layout.verify_layout(found.path)
    except UsageError as error:
        raise NotReady(str(error)) from error
    return Weights(found.name, str(found.path), found.demo)


def served_model(settings: Settings) -> Model:
    """The entry of models.yaml for the VLM that this service asks, which says what it knows and how it is prompted.

    Raises NotReady for a models.yaml that cannot be used, and where VLM_MODEL and VLM_MODEL_NAME mean two of its
    entries.
    """
    try:
        asked = _asked(settings)
        model, _ = named(asked)
        by_name = asked.catalog.by_served_name(settings.vlm_model_name)
    except UsageError as error:
        raise NotReady(str(error)) from error
    if by_name not in (None, model):
        raise NotReady(
            f"VLM_MODEL_NAME is {settings.vlm_model_name}, which models.yaml serves for {by_name.name}, but VLM_MODEL "
            f"leads to {model.name}; set VLM_MODEL={by_name.name} and leave VLM_MODEL_NAME empty."
        )
    return model


def reads_whole_pages(settings: Settings) -> bool:
    """Whether the VLM that is asked needs no layout model. Raises NotReady."""
    return not layout.has_one(served_model(settings))


def pipeline_file(settings: Settings) -> Path:
    """PARSER_PIPELINE_CONFIG, or the file that models.yaml names for the VLM. Raises NotReady."""
    if settings.pipeline_config is not None:
        return settings.pipeline_config
    model = served_model(settings)
    if model.pipeline is None:
        raise NotReady(f"models.yaml: models.{model.name} names no pipeline; set PARSER_PIPELINE_CONFIG.")
    return settings.models_config.parent / model.pipeline


def _asked(settings: Settings) -> WeightSettings:
    return WeightSettings(
        models_dir=settings.models_dir,
        hardware=settings.hardware,
        vlm_model=settings.vlm_model,
        layout_model_dir=settings.layout_model_dir,
        models_config=settings.models_config,
    )
