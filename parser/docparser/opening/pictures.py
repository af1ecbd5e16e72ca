# SPDX-License-Identifier: Apache-2.0
"""Pictures and their pages: which frames of a file are pages, and each as it stands upright, with square pixels.

What the numbers of a picture mean is said by ``tones``.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import math
import os
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, NamedTuple, cast

from PIL import Image, ImageFile, PngImagePlugin, UnidentifiedImageError

from docparser.opening import File, Unreadable
from docparser.opening.tones import (
    PHOTOMETRIC,
    Tones,
    extrema,
    is_wide,
    lay_out,
    layout_of,
    raise_low_bits,
    strips,
    tags_of,
)
from upright import ON_ITS_SIDE, ORIENTATION, orientation, upright

# Those who open a picture hold their own limit, with a message that names the setting.
Image.MAX_IMAGE_PIXELS = None
# Diagrams carry their source in a PNG's text, many times Pillow's bound for one piece; this is its bound for all.
PngImagePlugin.MAX_TEXT_CHUNK = PngImagePlugin.MAX_TEXT_MEMORY

# Tags of TIFF 6.0, and values of theirs.
NEW_SUBFILE, SUBFILE, X_RESOLUTION, Y_RESOLUTION = 254, 255, 282, 283
REDUCED, MASK = 1, 4  # bits of NewSubfileType
STRIPS, STRIP_SIZES = (273, 324), (279, 325)  # or tiles: where they begin, and their bytes
OLD_REDUCED = 2  # a SubfileType
TRANSPARENCY_MASK = 4  # a PhotometricInterpretation

PADDED = 64 << 20  # bytes of a damaged TIFF that may be copied
# Pillow and its decoders raise these for damaged files; most of them are not documented.
DECODE_ERRORS = (
    *(OSError, ValueError, SyntaxError, EOFError, IndexError, KeyError, TypeError, OverflowError),
    *(RuntimeError, AssertionError),  # of the AVIF decoder, and of a palette that is missing
)
UNKNOWN_KIND = "is damaged, or of a kind that is not read here; save it again, in 8-bit grey or RGB or as PNG"
NOT_SQUARE = 1.1  # resolutions that differ by less make no letter unlike itself; 204 x 196 dpi is a usual fax
MOST_STRETCHED = 5.0  # beyond, the numbers are no resolutions


class _File(io.BufferedReader):
    """Takes memory for what is there. Python's own takes it for what is asked, and a damaged file may ask for
    gigabytes."""

    def __init__(self, file: File) -> None:
        super().__init__(io.FileIO(file, closefd=not isinstance(file, int)))
        self.seek(0)
        self._size = os.fstat(self.fileno()).st_size

    def read(self, size: int | None = -1, /) -> bytes:
        left = max(self._size - self.tell(), 0)
        return super().read(left if size is None or size < 0 else min(size, left))


@contextlib.contextmanager
def opened(file: File, format: str) -> Iterator[ImageFile.ImageFile]:
    """The picture in a file of this format (Pillow's name), undecoded. Raises Unreadable."""
    with _File(file) as content:
        try:
            image = _open(content, format)
        except UnidentifiedImageError:
            raise Unreadable(UNKNOWN_KIND) from None
        except DECODE_ERRORS as exc:
            raise Unreadable(f"is damaged ({exc})") from None
        with image:
            yield image


def _open(content: BinaryIO, format: str) -> ImageFile.ImageFile:
    """The picture, also where something beside its pixels is damaged. Raises DECODE_ERRORS."""
    with contextlib.suppress(*DECODE_ERRORS):
        return Image.open(content, formats=[format])
    with _as_far_as_it_goes():
        return Image.open(content, formats=[format])


@contextlib.contextmanager
def _as_far_as_it_goes() -> Iterator[None]:
    """Pillow passes over what is damaged or missing."""
    before, ImageFile.LOAD_TRUNCATED_IMAGES = ImageFile.LOAD_TRUNCATED_IMAGES, True
    try:
        yield
    finally:
        ImageFile.LOAD_TRUNCATED_IMAGES = before


def count_pages(image: Image.Image, most: int | None = None) -> int:
    """At most ``most`` pages of a picture. Those before a damaged place count. Raises Unreadable."""
    count = 0
    try:
        for _ in itertools.islice(_page_frames(image), most):
            count += 1
    except DECODE_ERRORS as exc:
        if not count:
            raise Unreadable(f"is damaged ({exc})") from None
    return count


def _page_frames(image: Image.Image) -> Iterator[int]:
    """The frames of a picture that are pages. Only those of a TIFF can be; its reduced copies and masks are none.

    Raises Unreadable, and DECODE_ERRORS where a directory of a TIFF is damaged or missing.
    """
    if image.format != "TIFF":
        yield 0
        return
    found, frame = False, 0
    while True:  # not `n_frames`, which follows a chain of any length
        try:
            image.seek(frame)
        except EOFError:
            if tags_of(image).next is None:  # Pillow has not come to the end of the directory
                raise
            break
        except (SyntaxError, KeyError):  # Pillow reads no frame like this one, which is no matter if it is no page
            if tags_of(image).next is None:
                raise
            if _is_page(image):
                raise Unreadable(UNKNOWN_KIND) from None
        if _is_page(image):
            found = True
            yield frame
        frame += 1
    if not found:
        yield 0


def _is_page(image: Image.Image) -> bool:
    tags = tags_of(image)
    kind, old_kind = tags.get(NEW_SUBFILE, 0), tags.get(SUBFILE)
    return not (kind & (REDUCED | MASK) or old_kind == OLD_REDUCED or tags.get(PHOTOMETRIC) == TRANSPARENCY_MASK)


def resolution(said: Any) -> float:
    """As a file says it; 0 if that is no finite number above 0, like a TIFF's fractions 0/0 and 300/0."""
    try:
        value = float(said)
    except (TypeError, ValueError):
        return 0.0
    return value if 0 < value < math.inf else 0.0


def _stretch(image: Image.Image, turned: int) -> float:
    """How many times as high as wide a pixel is, where a loaded picture says so: fax pages may have half the rows."""
    tags, info = tags_of(image), image.info
    # PNG and JFIF may tell the shape of a pixel without its size.
    said = info.get("dpi") or info.get("aspect") or info.get("jfif_density") or (0, 0)
    across, along = map(resolution, (tags.get(X_RESOLUTION), tags.get(Y_RESOLUTION)) if tags else said)
    if not across or not along or not NOT_SQUARE < max(across, along) / min(across, along) < MOST_STRETCHED:
        return 1.0
    stretch = across / along
    return 1 / stretch if turned in ON_ITS_SIDE else stretch


class Picture(NamedTuple):
    """One page. ``image`` is upright and as Pillow decodes it, ``tones`` says what its numbers mean; ``stretch`` is how
    many times as high as wide a pixel is. ``turned``: the EXIF orientation of the pixels in the file, where Pillow does
    not turn them while decoding. ``lacks`` says, of this page, that the file's end is missing or damaged."""

    image: Image.Image
    tones: Tones
    stretch: float
    turned: int
    lacks: str = ""

    def strips(self, multiple: int = 1) -> Iterator[tuple[int, Image.Image]]:
        """The page in 1, L or RGB, on a ground that makes it legible, in strips as above, each with its first row."""
        top = 0
        for strip in strips(self.image, multiple):
            yield top, self.tones.plain(strip)
            top += strip.height

    def plain(self) -> Image.Image:
        """The page in 1, L or RGB."""
        strips = list(self.strips())
        whole = Image.new(strips[0][1].mode, self.image.size)
        for top, strip in strips:
            whole.paste(strip, (0, top))
        return whole

    def square_size(self, most_pixels: float, longest_side: float) -> tuple[int, int]:
        """The size in square pixels: rows or columns are added, or taken away where there would be too many pixels."""
        width, height = self.image.size
        across, along = max(1.0, 1 / self.stretch), max(1.0, self.stretch)
        if width * across * height * along > most_pixels or max(width * across, height * along) > longest_side:
            across, along = min(1.0, 1 / self.stretch), min(1.0, self.stretch)
        return max(1, int(width * across)), max(1, int(height * along))


def read(file: File, format: str, index: int, check: Callable[[Image.Image], None] = lambda image: None) -> Picture:
    """Page ``index`` (from 0) of a picture. ``check`` sees it before it is decoded, and may raise.

    A file whose end is missing is read as far as it goes, as browsers do. Raises Unreadable, and what ``check`` raises.
    """
    try:
        return _read(file, format, index, check)
    except DECODE_ERRORS as exc:
        reason = exc
    try:
        with _as_far_as_it_goes():
            picture = _read(file, format, index, check)
        if any(low < high for low, high in map(extrema, picture.image.split())):  # else nothing was there
            return picture._replace(lacks="is damaged, or its end is missing; the rest was read")
    except DECODE_ERRORS as exc:
        reason = exc
    raise Unreadable(f"is truncated or damaged ({reason}); save it again with a viewer that shows it")


def _read(file: File, format: str, index: int, check: Callable[[Image.Image], None]) -> Picture:
    with opened(file, format) as image:
        frames, lacks = _page_frames(image), ""
        frame = next(itertools.islice(frames, index, None), None)
        if frame is None:
            raise EOFError("it has no such page")
        try:
            next(frames, None)
        except DECODE_ERRORS:
            lacks = "is the last that was found; the file is damaged behind it, or its end is missing"
        image.seek(frame)
        check(image)
        turned = tags_of(image).get(ORIENTATION)  # Pillow turns a TIFF while it decodes it, and forgets this
        wide = is_wide(image)
        _load(image)
        if wide:
            raise_low_bits(image, lambda: _lower_bytes(file, format, frame))
        tones = Tones.of(image)
        stretch = _stretch(image, turned or orientation(image))
        return Picture(upright(image), tones, stretch, orientation(image), lacks)


def _load(image: ImageFile.ImageFile) -> None:
    if image.format != "TIFF" or not ImageFile.LOAD_TRUNCATED_IMAGES:
        image.load()
        return
    tags, content = tags_of(image), cast(BinaryIO, image.fp)
    content.seek(0)
    data = content.read(PADDED + 1)
    places, sizes = (tags.get(strips) or tags.get(tiles) or () for strips, tiles in (STRIPS, STRIP_SIZES))
    end = max(map(sum, zip(places, sizes, strict=False)), default=0)
    if len(data) < end <= PADDED and image.tile[0].codec_name == "libtiff":
        image.fp = io.BytesIO(data.ljust(end, b"\0"))  # libtiff does not begin a strip whose end is missing
    with contextlib.suppress(OSError):  # libtiff does not heed Pillow's setting
        image.load()
    image.load()  # without an effect, but where libtiff has failed: this is what it had decoded before


def _lower_bytes(file: File, format: str, frame: int) -> Image.Image:
    """Of a picture with colours of 16 bits."""
    with opened(file, format) as image:
        image.seek(frame)
        is_wide(image)
        grey = layout_of(image.tile[0]) == "LA;16B"  # the only way in which Pillow reads grey with alpha
        # "N" is "L" on every processor that this runs on.
        lay_out(image, lambda layout: "RGBA" if grey else layout[:-1] + ("L" if layout[-1] == "B" else "B"))
        _load(image)
        if grey:  # as pairs of bytes, the lower one behind
            _, tone, _, alpha = image.split()
            return Image.merge("RGBA", (tone, tone, tone, alpha))
        return image
