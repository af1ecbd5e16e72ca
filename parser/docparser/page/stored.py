# SPDX-License-Identifier: Apache-2.0
"""A frozen page as files: JSON, and its pictures as PNG. Whoever can write where they are kept can change what a page
says, and make nothing run; a pickle would."""

from __future__ import annotations

import base64
import io
import json
from typing import Any

import numpy as np
from PIL import Image

NAME = "frozen.json"
PICTURE = "frozen-{:04d}.png"
NUMBERS = "biuf"  # kinds of dtypes (numpy.dtype.kind)


def stored(frozen: dict[str, Any]) -> dict[str, bytes]:
    """Names and contents of the files. Raises TypeError for what is neither plain nor a picture."""
    pictures: dict[int, Image.Image] = {}
    text = json.dumps(_plain(frozen, pictures), ensure_ascii=True, separators=(",", ":"))
    files = {NAME: text.encode()}
    for number, picture in enumerate(pictures.values()):
        content = io.BytesIO()
        picture.save(content, "PNG", compress_level=1)
        files[PICTURE.format(number)] = content.getvalue()
    return files


def restored(files: dict[str, bytes]) -> dict[str, Any]:
    """The page from all its files; what ``stored`` was given, to the last bit. Belongs into a child process."""
    pictures: list[Image.Image] = []
    while (content := files.get(PICTURE.format(len(pictures)))) is not None:
        picture = Image.open(io.BytesIO(content), formats=("PNG",))
        picture.load()
        pictures.append(picture)
    return _value(json.loads(files[NAME]), pictures)


def _plain(value: Any, pictures: dict[int, Image.Image]) -> Any:
    """``value`` as JSON has it. What JSON does not know is an object with one member, whose name begins with ``$``."""
    if value is None or type(value) in (bool, int, float):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, list):
        return [_plain(item, pictures) for item in value]
    if isinstance(value, dict):
        if all(type(key) is str and key[:1] != "$" for key in value):
            return {key: _plain(item, pictures) for key, item in value.items()}
        return {"$map": [[_plain(key, pictures), _plain(item, pictures)] for key, item in value.items()]}
    if isinstance(value, tuple):
        return {"$tuple": [_plain(item, pictures) for item in value]}
    if isinstance(value, (set, frozenset)):
        return {"$set": [_plain(item, pictures) for item in sorted(value)]}
    if isinstance(value, Image.Image):
        pictures.setdefault(id(value), value)
        return {"$picture": list(pictures).index(id(value))}
    if isinstance(value, (np.generic, np.ndarray)) and value.dtype.kind in NUMBERS:
        shape = None if isinstance(value, np.generic) else value.shape
        return {"$numbers": [value.dtype.str, shape, base64.b64encode(value.tobytes()).decode()]}
    raise TypeError(f"a frozen page has a {type(value).__name__}, which cannot be stored")


def _value(plain: Any, pictures: list[Image.Image]) -> Any:
    if isinstance(plain, list):
        return [_value(item, pictures) for item in plain]
    if not isinstance(plain, dict):
        return plain
    if len(plain) != 1 or not (name := next(iter(plain))).startswith("$"):
        return {key: _value(item, pictures) for key, item in plain.items()}
    (inside,) = plain.values()
    if name == "$map":
        return {_value(key, pictures): _value(item, pictures) for key, item in inside}
    if name == "$tuple":
        return tuple(_value(item, pictures) for item in inside)
    if name == "$set":
        return frozenset(_value(item, pictures) for item in inside)
    if name == "$picture":
        return pictures[inside]
    if name == "$numbers":
        return _numbers(*inside)
    raise ValueError(f"{name} is nothing that a stored page has")


def _numbers(dtype: str, shape: list[int] | None, content: str) -> np.generic | np.ndarray:
    kind = np.dtype(dtype)
    if kind.kind not in NUMBERS:
        raise ValueError(f"{dtype} are no numbers")
    flat = np.frombuffer(base64.b64decode(content), kind)
    return flat[0] if shape is None else flat.reshape(shape).copy()
