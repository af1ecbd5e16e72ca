# SPDX-License-Identifier: Apache-2.0
"""A page that waits on the disk comes back as it was, and nothing in its files can run."""

from __future__ import annotations

import json
import pickle
from typing import Any

import numpy as np
import pytest
from PIL import Image

from docparser.page.frozen import Known, restored, stored
from docparser.page.provenance import PAGE, Certainty, Origin, Provenance


def same(one: Any, other: Any) -> bool:
    if isinstance(one, Image.Image):
        return one.mode == other.mode and one.size == other.size and one.tobytes() == other.tobytes()
    if type(one) is not type(other) and not (isinstance(one, frozenset) and isinstance(other, frozenset)):
        return False
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, np.ndarray):
        return one.dtype == other.dtype and bool((one == other).all())
    return bool(one == other) and (not isinstance(one, np.generic) or one.dtype == other.dtype)


def test_a_page_comes_back_as_it_was():
    noise = np.random.default_rng(1).integers(0, 256, (30, 40, 3), dtype=np.uint8)
    picture = Image.fromarray(noise)
    page = {
        "width": 800,
        "boxes": [{"score": np.float32(0.1), "coordinate": [np.float64(1.5), 2.25, 1e-320]}],
        "blocks": [{"image": {"path": "imgs/a.jpg", "img": picture}, "polygon_points": np.eye(2), "group_id": None}],
        "imgs_in_doc": [{"path": "imgs/a.jpg", "img": picture, "coordinate": (1, 2)}],
        "block_texts": {"texts": {0: "a\ud800", 7: "«ü»"}, "inside": frozenset({3, 1}), "figures": {2: {"[F1]": "p"}}},
        "odd": {"$picture": 0, "plain": True},
    }
    files = stored(page)
    assert set(files) == {"frozen.json", "frozen-0000.png"}, "a picture that stands twice is kept once"
    assert same(page, restored(files))


def test_what_is_neither_plain_nor_a_picture_is_not_stored():
    with pytest.raises(TypeError, match="object"):
        stored({"a": object()})


@pytest.mark.parametrize("content", [pickle.dumps({}), b"", b'{"$call": [1]}', b'{"$numbers": ["O", [1], ""]}'])
def test_other_contents_are_refused(content: bytes):
    with pytest.raises(ValueError):
        restored({"frozen.json": content})


def test_a_picture_that_is_missing_is_noticed():
    with pytest.raises(IndexError):
        restored({"frozen.json": json.dumps({"img": {"$picture": 0}}).encode()})


def test_what_is_known_of_a_block_comes_back():
    known = Known(Provenance(Certainty(0.5), Origin(PAGE, 0.75)), 2, {"rows": [[0, 1]], "columns": [[0, 1]]})
    assert Known.thawed(known.frozen()) == known
    assert list(Known().frozen()) == ["head_rows", "certainty"]
    assert Known.thawed(Known().frozen()) == Known()
