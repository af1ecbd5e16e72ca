# SPDX-License-Identifier: Apache-2.0
"""Pages that people look at before they are read: the largest that the service takes are drawn within a child's memory,
smaller."""

from __future__ import annotations

import dataclasses
import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PIL import Image

from docparser.documents.decoder import MOST_DRAWN
from docparser.documents.page import DocumentLimits
from docparser.sandbox.pool import ChildPool
from docparser.sandbox.process import Bounds, Reach, Zygote
from docparser.settings import Settings
from tests.support import samples
from tests.support.wait import WAIT_S

SETTINGS = Settings()
Draw = Callable[[bytes, str], Image.Image]


@pytest.fixture
def draw(tmp_path: Path) -> Iterator[Draw]:
    """The first page of a document, drawn as for a job's originals; time has no bound here, on a busy machine."""
    pool = ChildPool(lambda: Zygote.spawn({"draw": "docparser.documents.decoder:draw"}), quick=1, most=1)
    bounds = dataclasses.replace(Bounds.of(SETTINGS), cpu_s=WAIT_S, wall_s=10 * WAIT_S)
    limits = dataclasses.asdict(DocumentLimits.of(SETTINGS))

    def drawn(document: bytes, format: str) -> Image.Image:
        path = tmp_path / "document"
        path.write_bytes(document)
        args = {"path": str(path), "format": format, "number": 1, "limits": limits}
        with (tmp_path / "in").open("w+b") as source, (tmp_path / "out").open("w+b") as sink:
            reach = Reach((str(path),), str(tmp_path))
            pool.run("draw", args, (source.fileno(), sink.fileno()), bounds, "page 1", None, reach)
            sink.seek(0)
            assert json.loads(sink.readline()) == {"pages": 1}
            return Image.open(io.BytesIO(sink.read())).convert("RGB")

    yield drawn
    pool.close()


def marked(mode: str, size: tuple[int, int], format: str, **options: object) -> bytes:
    """A white page with a black place of a hundredth of its width and height, near its lower right corner."""
    page = Image.new(mode, size, "white")
    page.paste("black", (size[0] * 97 // 100, size[1] * 95 // 100, size[0] * 98 // 100, size[1] * 96 // 100))
    buffer = io.BytesIO()
    page.save(buffer, format, **options)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("mode", "format", "orientation"), [("RGB", "JPEG", 3), pytest.param("RGBA", "PNG", 1, marks=pytest.mark.long)]
)
def test_the_largest_pages_are_drawn_at_half_their_size(draw: Draw, mode: str, format: str, orientation: int):
    width = height = 9999
    assert 0.99 * SETTINGS.max_image_pixels < width * height <= SETTINGS.max_image_pixels
    exif = Image.Exif()
    exif[0x0112] = orientation
    options = {"exif": exif} if format == "JPEG" else {"compress_level": 1}
    shown = draw(marked(mode, (width, height), format, **options), format)
    assert shown.size == (5000, 5000)
    places = {1: (4875, 4775), 3: (125, 225)}
    dark = {
        place: max(shown.convert("L").crop((x, y, x + 1, y + 1)).tobytes()) < 50 for place, (x, y) in places.items()
    }
    assert dark == {place: place == orientation for place in places}


def test_a_page_of_a_usual_size_is_drawn_as_it_is(draw: Draw):
    size = (6000, 6600)
    assert size[0] * size[1] < MOST_DRAWN
    assert draw(marked("1", size, "PNG"), "PNG").size == size
    assert draw(samples.blank_pages(1), "PDF").size[0] >= 40
