# SPDX-License-Identifier: Apache-2.0
"""How a VLM reads whole pages: a file beside models.yaml, which the model's entry names as its ``pipeline``."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from docparser.errors import NotReady

READS = "whole pages"
SPOTTING, FORMULA = "spotting", "formula"
KEYS = {"reads", "general", "prompts", "max_pixels", "max_tokens", "places"}


@dataclasses.dataclass(frozen=True)
class Recipe:
    """``prompts``: the words for each task, the first for a page where nobody asks. ``max_pixels``: of the picture that
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
            if key not in KEYS:
                raise NotReady(f"{name}: the key {key!r} is not known; expected any of {', '.join(sorted(KEYS))}")
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


def _is_text(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())
