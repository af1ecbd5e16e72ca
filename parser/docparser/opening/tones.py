# SPDX-License-Identifier: Apache-2.0
"""What the numbers of a picture mean where 8 bits do not say it: wide greys, old palettes, transparent grounds."""

from __future__ import annotations

import array
import math
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, cast

from PIL import Image, ImageChops, ImageOps
from PIL.TiffImagePlugin import TiffImageFile

# Tags of TIFF 6.0.
BITS, PHOTOMETRIC, COLOUR_MAP, SAMPLE_FORMAT = 258, 262, 320, 339
WHITE_IS_ZERO, UNSIGNED = 0, 1

STRIP_PIXELS = 4 << 20
LIGHT = 160  # of 255; text that is lighter stands on a dark ground
GREY = 24  # of 255; colours whose parts differ by less are none
SEEN = 32  # of 255; what is more transparent is a shadow


class Tones(NamedTuple):
    """``full`` is the value of white in wide grey, None in other pictures; ``ground`` lies below transparent parts.
    ``negative``: what stands on it then changes black and white, since models know dark print on white paper best."""

    full: float | None = None
    white_is_zero: bool = False
    unsigned: bool = False  # 32 bits, which Pillow takes for signed ones
    ground: str | None = None
    negative: bool = False

    @classmethod
    def of(cls, image: Image.Image) -> Tones:
        """Of a decoded picture whose tags are still there. Mends a palette of 8-bit values."""
        tags: Mapping[int, Any] = cast(TiffImageFile, image).tag_v2 if image.format == "TIFF" else {}
        colours = tags.get(COLOUR_MAP, ())
        if image.mode == "P" and colours and max(colours) < 256:
            image.putpalette(bytes(colours), "RGB;L")  # as libtiff does; the values should have 16 bits
        if image.mode in ("I", "F") or image.mode.startswith("I;16"):
            bits, format = tags.get(BITS, (0,))[0], tags.get(SAMPLE_FORMAT, (UNSIGNED,))[0]
            tones = cls(1.0, tags.get(PHOTOMETRIC) == WHITE_IS_ZERO, bits == 32 and format == UNSIGNED)
            peak = max(extrema(tones._grey(strip))[1] for strip in strips(image))
            return tones._replace(full=_full(peak, image.mode, bits))
        if not image.has_transparency_data:
            return cls()
        ground, coloured = _ground(image)
        return cls(ground=ground, negative=ground == "black" and not coloured)

    def plain(self, image: Image.Image) -> Image.Image:
        """A part of the picture in 1, L or RGB."""
        if self.full is not None:
            scale = 255.0 / self.full  # Pillow would clip at 255
            if self.white_is_zero:
                return self._grey(image).point(lambda value: value * -scale + 255.0).convert("L")
            return self._grey(image).point(lambda value: value * scale + 0.0).convert("L")
        if self.ground is not None:
            over = image.convert("RGBA")
            shown = Image.alpha_composite(Image.new("RGBA", over.size, self.ground), over).convert("RGB")
            return ImageOps.invert(shown) if self.negative else shown
        return image if image.mode in ("1", "L", "RGB") else image.convert("RGB")

    def _grey(self, image: Image.Image) -> Image.Image:
        """In floats, all of them finite."""
        if self.unsigned and image.mode == "I":
            return Image.frombytes("F", image.size, image.tobytes(), "raw", "F;32N")
        grey = image.convert("F")
        if all(map(math.isfinite, extrema(grey))):
            return grey
        values = array.array("f", grey.tobytes())
        finite = array.array("f", (value if math.isfinite(value) else 0.0 for value in values))
        return Image.frombytes("F", image.size, finite.tobytes())


def extrema(band: Image.Image) -> tuple[float, float]:
    """The least and the greatest value of a picture of one band."""
    return cast(tuple[float, float], band.getextrema())


def strips(image: Image.Image) -> Iterator[Image.Image]:
    """The picture in strips of whole rows: several copies of a large one in a wider mode are gigabytes."""
    rows = max(1, STRIP_PIXELS // image.width)
    if rows >= image.height:
        yield image
        return
    for top in range(0, image.height, rows):
        yield image.crop((0, top, image.width, min(top + rows, image.height)))


def _full(peak: float, mode: str, bits: int) -> float:
    """The value of white: of as many bits as the file says, or as its values take where they are few of 16."""
    if mode == "F":
        return 1.0 if peak <= 1.0 else max(peak, 255.0)
    if bits == 12 or peak < 1 << 14:
        return 4095.0 if bits == 12 else (1 << max(8, int(peak).bit_length())) - 1.0
    return max(peak, 32767.0 if mode == "I" and bits == 16 else 65535.0)  # which are signed


def _ground(image: Image.Image) -> tuple[str, bool]:
    """White, or black where no more than half is drawn and that is light; and whether any of it has a colour."""
    drawn = light = most = 0
    for strip in strips(image):
        coloured = strip.convert("RGBA")
        seen = coloured.getchannel("A").point(lambda value: 255 * (value >= SEEN))
        counts = coloured.convert("L").histogram(mask=seen)
        drawn += sum(counts)
        light += sum(value * count for value, count in enumerate(counts))
        red, green, blue, _ = coloured.split()
        for one, other in ((red, green), (green, blue)):
            counts = ImageChops.multiply(ImageChops.difference(one, other), seen).histogram()
            most = max(most, *(value for value, count in enumerate(counts) if count))
    dark = 0 < 2 * drawn <= image.width * image.height and light > LIGHT * drawn
    return ("black" if dark else "white"), most >= GREY
