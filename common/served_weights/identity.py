# SPDX-License-Identifier: Apache-2.0
"""Checks that weights belong to the entry of models.yaml as which they would be served.

The versions of PaddleOCR-VL share one architecture and one config.json, and their prompts differ by one character. So
the files beside the weights tell them apart, the surest first:

    inference.yml               names the model (PaddleX refuses to load a folder whose name is another)
    chat_template.jinja         how an answer begins: "Assistant:" and a blank, or a newline
    config.json                 the width of the language model, which tells sizes of one model apart
    preprocessor_config.json    the pixels of an image; only where the two above say nothing, for operators change them
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tool_errors import UsageError, WeightsError

KEYS = ("architecture", "model_name", "answer_begins", "pixels", "token", "hidden_size")
MODEL_NAME = re.compile(r"^Global:\s*\n(?:[ \t]+.*\n)*?[ \t]+model_name:[ \t]*[\"']?([\w.-]+)", re.MULTILINE)
# A literal in a template, as it is written there: a newline is a backslash and an n.
ANSWER = re.compile(r"[\"']Assistant:([^\"']*)[\"']")
BEGINNINGS = {" ": "blank", "\\n": "newline", "\n": "newline"}
PIXELS = re.compile(r"(\d+) to (\d+)")


@dataclass(frozen=True)
class Signs:
    """The signs that an entry expects, or that a folder shows; None for a sign that is not given.

    ``answer_begins`` is blank or newline, ``pixels`` is "LEAST to MOST", ``token`` one that the tokenizer must have.
    """

    architecture: str | None = None
    model_name: str | None = None
    answer_begins: str | None = None
    pixels: str | None = None
    token: str | None = None
    hidden_size: str | None = None

    @classmethod
    def from_entry(cls, entry: Mapping[Any, Any], where: str) -> Signs:
        """From the mapping ``weights`` of an entry. Raises UsageError that names the key under ``where``."""
        for key, value in entry.items():
            if key not in KEYS:
                raise UsageError(f"{where} has the unknown key {key!r}; expected {', '.join(KEYS)}")
            if not isinstance(value, str):
                raise UsageError(f"{where}.{key} is {value!r}; expected a text")
        signs = cls(**entry)
        if signs.answer_begins not in (None, *BEGINNINGS.values()):
            raise UsageError(f"{where}.answer_begins is {signs.answer_begins!r}; expected blank or newline")
        if signs.pixels and not PIXELS.fullmatch(signs.pixels):
            raise UsageError(f"{where}.pixels is {signs.pixels!r}; expected a text like '147384 to 2822400'")
        return signs

    @classmethod
    def of_folder(cls, folder: Path) -> Signs:
        """The signs of the files in ``folder``. Raises WeightsError for a file that is no JSON."""
        config, pixels = _json(folder / "config.json"), _json(folder / "preprocessor_config.json")
        names = config.get("architectures")
        return cls(
            architecture=str(names[0]) if isinstance(names, list) and names else None,
            model_name=model_name(folder),
            answer_begins=_answer_begins(folder),
            hidden_size=_hidden_size(config),
            pixels=f"{pixels.get('min_pixels')} to {pixels.get('max_pixels')}" if "min_pixels" in pixels else None,
        )


def why_other(folder: Path, expected: Signs, all_signs: Iterable[Signs]) -> str | None:
    """Why the weights in ``folder`` are not those that ``expected`` describes, in words; None if they are.

    ``all_signs`` are those of every entry of models.yaml. Raises WeightsError for a file that cannot be read.
    """
    if expected == Signs():
        return None
    found = Signs.of_folder(folder)
    for said, wanted, words in (
        (found.architecture, expected.architecture, "config.json names the architecture"),
        (found.hidden_size, expected.hidden_size, "config.json has the hidden_size"),
        (found.model_name, expected.model_name, "inference.yml names"),
        (found.answer_begins, expected.answer_begins, "the chat template begins an answer with a"),
    ):
        if said and wanted and said != wanted:
            return f"{words} {said}, not {wanted}"
    if not expected.pixels:
        # If only architecture and width tell versions apart, the folder must show them.
        missing = [
            name for name in ("architecture", "hidden_size") if getattr(expected, name) and not getattr(found, name)
        ]
        return f"config.json says no {missing[0]}" if missing else None
    if not (found.model_name or found.answer_begins) and found.pixels != expected.pixels:
        if found.pixels and found.pixels in {signs.pixels for signs in all_signs}:
            return f"preprocessor_config.json allows {found.pixels} pixels, not {expected.pixels}"
        return "no inference.yml, chat_template.jinja or preprocessor_config.json says which version they are"
    return None


def lacks_token(folder: Path, token: str | None) -> bool:
    """Whether there is a tokenizer.json without this token."""
    file = folder / "tokenizer.json"
    return bool(token) and file.is_file() and json.dumps(token).encode() not in file.read_bytes()


def model_name(folder: Path) -> str | None:
    """The model's name in inference.yml; None if there is no such file or name. Raises WeightsError."""
    named = MODEL_NAME.search(_text(folder / "inference.yml"))
    return named[1] if named else None


def _hidden_size(config: Mapping[str, Any]) -> str | None:
    """The language model's, at the top as published, or in a section of its own (transformers >= 5)."""
    text = config.get("text_config")
    size = config.get("hidden_size") or (text.get("hidden_size") if isinstance(text, dict) else None)
    return str(size) if size else None


def _answer_begins(folder: Path) -> str | None:
    """None where there is no template, or where it is of another form."""
    template = _text(folder / "chat_template.jinja")
    if not template:
        # transformers < 4.50 saved it so; several templates are a list there, which nobody publishes for this model.
        inside = _json(folder / "tokenizer_config.json").get("chat_template")
        template = inside if isinstance(inside, str) else ""
    found = {BEGINNINGS.get(text) for text in ANSWER.findall(template)}
    return found.pop() if len(found) == 1 else None


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise WeightsError(f"{file} cannot be read: {error.strerror}") from error


def _json(file: Path) -> dict[str, Any]:
    """The file's object; empty where there is no file. Raises WeightsError."""
    try:
        value = json.loads(_text(file) or "{}")
    except ValueError as error:
        raise WeightsError(f"{file} is not JSON: {error}; copy the weights again") from error
    if not isinstance(value, dict):
        raise WeightsError(f"{file} is not a JSON object; copy the weights again")
    return value
