# SPDX-License-Identifier: Apache-2.0
"""The models of config/models.yaml and the places of their weights. The launcher decides how each is served."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from tool_errors import UsageError

from . import yaml_subset
from .identity import Signs
from .question import Question

DEFAULT_FILE = Path(__file__).resolve().parents[2] / "config" / "models.yaml"
WORDS = ("tasks", "stacks", "stacks_ascend")  # several in one text
TEXTS = ("served_name", "path", "demo", "repository", "layout", "layout_repository", "pipeline", *WORDS)
REQUIRED = ("served_name", "path")
WEIGHTS = "weights"  # signs by which weights are recognised
GOLDEN = "golden"  # the self-test's question
MAPPINGS = (WEIGHTS, GOLDEN)
KEYS = (*TEXTS, *MAPPINGS)


@dataclass(frozen=True)
class Model:
    """One model. ``path`` and ``demo`` count from MODELS_DIR; ``demo`` is None where there are no demo weights.

    ``repository`` and ``layout_repository`` are where the hubs have the weights, the latter None where the former
    brings the layout model. ``tasks`` are the prompts that the model knows, None if they are not given. ``layout`` is
    the layout model that belongs to it, ``pipeline`` the parser's configuration, a file beside models.yaml. ``stacks``
    are the vLLM versions that can serve it, None for any, and ``stacks_ascend`` those on Ascend, where they are fewer.
    ``golden`` is the self-test's question, None if it is not given.
    """

    name: str
    served_name: str
    path: str
    demo: str | None = None
    repository: str | None = None
    tasks: tuple[str, ...] | None = None
    layout: str | None = None
    layout_repository: str | None = None
    pipeline: str | None = None
    stacks: tuple[str, ...] | None = None
    stacks_ascend: tuple[str, ...] | None = None
    signs: Signs = Signs()
    golden: Question | None = None

    def check_stack(self, running: str | None, hardware: str = "cpu") -> None:
        """Raise UsageError if the stack cannot serve the model on this hardware. None: the stack is unknown."""
        fewer = self.stacks_ascend if hardware == "ascend" else None
        stacks = fewer or self.stacks
        if stacks and running and running not in stacks:
            raise UsageError(
                f"{self.name} needs stack {' or '.join(stacks)}{' on Ascend' if fewer else ''}, but this is {running}; "
                f"set STACK={stacks[-1]} for the images, or install that environment"
            )


@dataclass(frozen=True)
class Catalog:
    """Every model by its name, and the names of those that are served where VLM_MODEL is unset: the first whose folder
    is there."""

    defaults: tuple[str, ...]
    models: Mapping[str, Model]

    @property
    def recommended(self) -> Model:
        """The model to fetch if nobody names one."""
        return self.models[self.defaults[0]]

    @classmethod
    def load(cls, file: Path) -> Catalog:
        """Read and check the file, once for each of its versions. Raises UsageError that names the key."""
        try:
            stat = file.stat()
        except OSError as error:
            raise UsageError(f"MODELS_CONFIG: {file} cannot be read: {error.strerror}") from error
        return _load(file, stat.st_mtime_ns, stat.st_size)

    @classmethod
    def from_data(cls, data: Any, name: str = "models.yaml") -> Catalog:
        """From the file's content. Raises UsageError that names the key."""
        if not isinstance(data, dict) or not isinstance(data.get("models"), dict):
            raise UsageError(f"{name}: expected a mapping with the keys default and models")
        models = {key: _model(name, key, entry) for key, entry in data["models"].items()}
        default = data.get("default")
        defaults = tuple(default.split()) if isinstance(default, str) else ()
        if not defaults or not set(defaults) <= set(models):
            raise UsageError(f"{name}: default is {default!r}; expected one of {', '.join(models)}, or several")
        return cls(defaults, models)

    def by_served_name(self, served_name: str) -> Model | None:
        """The model that is served under this name, or None."""
        return next((model for model in self.models.values() if model.served_name == served_name), None)


@lru_cache(maxsize=8)
def _load(file: Path, _mtime_ns: int, _size: int) -> Catalog:
    return Catalog.from_data(read(file), file.name)


def read(file: Path) -> Any:
    """The file's content, at least the keys that the catalog needs. Raises UsageError."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"MODELS_CONFIG: {file} cannot be read: {error}") from error
    try:
        import yaml
    except ModuleNotFoundError:
        try:
            return yaml_subset.load(text, wanted)
        except yaml_subset.UnreadableYaml as error:
            raise UsageError(f"MODELS_CONFIG: {file}, {error}") from error
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError) as error:  # ValueError: a date that no calendar has
        raise UsageError(f"MODELS_CONFIG: {file} is not YAML: {error}") from error
    except RecursionError as error:
        raise UsageError(f"MODELS_CONFIG: {file} is nested too deeply") from error


def wanted(keys: tuple[str, ...]) -> bool:
    """Whether the catalog needs the value of a key, given with the keys above it."""
    if keys[0] != "models":
        return keys == ("default",)
    return len(keys) < 3 or (keys[2] in KEYS and len(keys) <= 3 + (keys[2] in MAPPINGS))


def _model(file: str, name: Any, entry: Any) -> Model:
    if not isinstance(name, str):
        raise UsageError(f"{file}: models has the key {name!r}; expected a text")
    if not isinstance(entry, dict):
        raise UsageError(f"{file}: models.{name} is {entry!r}; expected a mapping")
    where = f"{file}: models.{name}"
    for key in REQUIRED:
        if entry.get(key) is None:
            raise UsageError(f"{where} lacks the key {key!r}")
    texts = {key: value for key, value in entry.items() if key in TEXTS and value is not None}
    for key, value in texts.items():
        if not isinstance(value, str):
            raise UsageError(f"{where}.{key} is {value!r}; expected a text")
    words: dict[str, Any] = {key: tuple(texts.pop(key).split()) for key in WORDS if key in texts}
    mappings = {key: entry.get(key) or {} for key in MAPPINGS}
    for key, value in mappings.items():
        if not isinstance(value, dict):
            raise UsageError(f"{where}.{key} is {value!r}; expected a mapping")
    signs = Signs.from_entry(mappings[WEIGHTS], f"{where}.{WEIGHTS}")
    golden = Question.from_entry(mappings[GOLDEN], f"{where}.{GOLDEN}") if mappings[GOLDEN] else None
    return Model(name=name, signs=signs, golden=golden, **words, **texts)
