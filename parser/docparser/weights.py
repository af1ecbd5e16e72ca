# SPDX-License-Identifier: Apache-2.0
"""Which weights are in use, as the parser reports them, and the pipeline that they are used by: PaddleX's, or how a VLM
reads whole pages. ``served_weights`` decides which they are."""

from __future__ import annotations

import dataclasses
import json
import urllib.request
from collections.abc import Collection, Mapping
from http.client import HTTPException
from pathlib import Path
from typing import Any

import yaml

from docparser.errors import NotReady
from docparser.settings import Settings
from docparser.settings.models import VLM_CONNECT_TIMEOUT_S
from health_probe import OPENER
from served_weights import layout
from served_weights.catalog import Model
from served_weights.settings import WeightSettings
from served_weights.vlm import is_absent, named, there
from tool_errors import UsageError

MOST_BYTES = 64 << 10
READS = "whole pages"  # the mark of a recipe, which is no pipeline of PaddleX
RECIPE_KEYS = {"reads", "general", "prompts", "max_pixels", "max_tokens", "places"}
SPOTTING, FORMULA = "spotting", "formula"  # tasks that a recipe may have


@dataclasses.dataclass(frozen=True)
class Weights:
    """``path`` is where they lie on the machine that has them loaded, if that is known."""

    model: str
    path: str | None
    demo: bool | None

    def as_dict(self) -> dict:
        return {key: value for key, value in dataclasses.asdict(self).items() if value is not None}


def settled(settings: Settings, served: Collection[str] = ()) -> Settings:
    """The same with VLM_MODEL named, where it is unset and published weights are there: the service and its workers
    keep to them. Weights that are fetched while it runs would else be the newest, for each worker that starts anew.

    `served` are the names that the VLM server lists: it may have started before newer weights were there, and goes
    before them. Where a demo model serves nothing is named, since no name leads to it. Raises NotReady.
    """
    if settings.vlm_model is not None:
        return settings
    try:
        asked = _asked(settings)
        model, folder = named(asked)
        if (other := next((one for one in there(asked) if one.served_name in served), model)) != model:
            return _for(settings, other)
        demo = is_absent(folder) or (layout.has_one(model) and layout.find_layout(asked).demo)
    except UsageError as error:
        raise NotReady(str(error)) from error
    return settings if demo else _for(settings, model)


def names_served(settings: Settings) -> list[str]:
    """The names that the VLM server lists, asked before there is an event loop; none where it does not answer."""
    headers = {"Authorization": f"Bearer {settings.vlm_api_key}"} if settings.vlm_api_key else {}
    request = urllib.request.Request(f"{settings.vlm_url}/models", headers=headers)
    try:
        with OPENER.open(request, timeout=VLM_CONNECT_TIMEOUT_S) as answer:
            return [str(model["id"]) for model in json.loads(answer.read(MOST_BYTES))["data"]]
    except (OSError, HTTPException, ValueError, LookupError, TypeError):
        return []


def _for(settings: Settings, model: Model) -> Settings:
    own = {} if "vlm_model_name" in settings.model_fields_set else {"vlm_model_name": model.served_name}
    return settings.model_copy(update={"vlm_model": model.name, **own})


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


def load_pipeline(file: Path) -> dict[str, Any]:
    """The configuration of PaddleX's pipeline. Raises NotReady."""
    try:
        config = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError) as exc:
        raise NotReady(f"PARSER_PIPELINE_CONFIG: {file} cannot be read ({exc})") from exc
    match config:
        case {"SubModules": {"LayoutDetection": dict()}}:
            return config
    raise NotReady(
        f"PARSER_PIPELINE_CONFIG: {file} is no pipeline of PaddleOCR-VL, which has SubModules.LayoutDetection. Name "
        "another, or leave it empty."
    )


def has_preprocessor(pipeline: dict[str, Any]) -> bool:
    """Whether the pipeline has models that turn and flatten pages."""
    return bool(pipeline.get("use_doc_preprocessor", True))


@dataclasses.dataclass(frozen=True)
class Recipe:
    """How a VLM reads whole pages: a file beside models.yaml, which the model's entry names as its ``pipeline``.

    ``prompts``: the words for each task, the first for a page where nobody asks. ``max_pixels``: of the picture that
    is sent. ``max_tokens``: of an answer. ``places``: what the ends of a page are called in an answer with places.
    ``general``: the model was not trained to parse documents."""

    prompts: Mapping[str, str]
    max_pixels: int
    max_tokens: int
    places: int = 1000
    general: bool = False

    @property
    def usual(self) -> str:
        """The task of a page where nobody asks for one."""
        return next(iter(self.prompts))

    @classmethod
    def load(cls, file: Path, tasks: tuple[str, ...] | None = None) -> Recipe:
        """``tasks`` are those that models.yaml promises. Raises NotReady that names the key."""
        try:
            data = yaml.safe_load(file.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as exc:
            raise NotReady(f"PARSER_PIPELINE_CONFIG: {file} cannot be read ({exc})") from exc
        except (yaml.YAMLError, ValueError, RecursionError) as exc:
            raise NotReady(f"{file.name} is not YAML: {exc}") from exc
        return cls.from_data(data, file.name, tasks)

    @classmethod
    def from_data(cls, data: Any, name: str, tasks: tuple[str, ...] | None = None) -> Recipe:
        """From the file's content. Raises NotReady that names the key."""
        if not isinstance(data, dict) or data.get("reads") != READS:
            raise NotReady(
                f"{name}: is no file of a model that reads whole pages; expected the key reads with the value "
                f"{READS!r}. Name another with PARSER_PIPELINE_CONFIG, or leave it empty"
            )
        for key in data:
            if key not in RECIPE_KEYS:
                raise NotReady(
                    f"{name}: the key {key!r} is not known; expected any of {', '.join(sorted(RECIPE_KEYS))}"
                )
        prompts = data.get("prompts")
        if (
            not isinstance(prompts, dict)
            or not prompts
            or not all(_is_text(part) for pair in prompts.items() for part in pair)
        ):
            raise NotReady(f"{name}: prompts is {prompts!r}; expected a text for each task")
        if missing := [task for task in tasks or () if task not in prompts]:
            raise NotReady(f"{name}: prompts lacks {', '.join(missing)}, of the tasks in models.yaml")
        general = data.get("general", False)
        if not isinstance(general, bool):
            raise NotReady(f"{name}: general is {general!r}; expected true or false")
        numbers = {key: data[key] for key in ("max_pixels", "max_tokens", "places") if key in data}
        for key, value in numbers.items():
            if type(value) is not int or value < 1:
                raise NotReady(f"{name}: {key} is {value!r}; expected a whole number from 1")
        for key in ("max_pixels", "max_tokens"):
            if key not in numbers:
                raise NotReady(f"{name}: lacks the key {key!r}")
        return cls(prompts, general=general, **numbers)


def _asked(settings: Settings) -> WeightSettings:
    return WeightSettings(
        models_dir=settings.models_dir,
        hardware=settings.hardware,
        vlm_model=settings.vlm_model,
        layout_model_dir=settings.layout_model_dir,
        models_config=settings.models_config,
    )


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())
