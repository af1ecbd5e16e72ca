# SPDX-License-Identifier: Apache-2.0
"""What the numbers of a picture mean where 8 bits do not say it (wide greys and colours, old palettes, transparent
grounds): it gets tones of 8 bits.
"""

from __future__ import annotations

import array
import math
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, cast

from PIL import Image, ImageChops, ImageFile, ImageOps
from PIL.TiffImagePlugin import TiffImageFile

# Tags of TIFF 6.0, and values of theirs.
BITS, PHOTOMETRIC, COLOUR_MAP, EXTRA_SAMPLES, SAMPLE_FORMAT = 258, 262, 320, 338, 339
WHITE_IS_ZERO, UNSIGNED = 0, 1

STRIP_PIXELS = 4 << 20
WIDE = re.compile(r"(LA|RGB[AX]?|CMYK|[RGB]);16[BLN]")  # Pillow's raw modes of 16 bits a sample
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
        tags = tags_of(image)
        colours = tags.get(COLOUR_MAP, ())
        if image.mode == "P" and colours and max(colours) < 256:
            image.putpalette(bytes(colours), "RGB;L")  # as libtiff does; the values should have 16 bits
        if image.mode in ("I", "F") or image.mode.startswith("I;16"):
            bits, format = tags.get(BITS, (0,))[0], tags.get(SAMPLE_FORMAT, (UNSIGNED,))[0]
            tones = cls(1.0, tags.get(PHOTOMETRIC) == WHITE_IS_ZERO, bits == 32 and format == UNSIGNED)
            peak = max(extrema(tones._grey(strip))[1] for strip in strips(image))
            return tones._replace(full=_full(peak, image.mode, bits))
        if not image.has_transparency_data or _alpha_means_nothing(image):
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


def strips(image: Image.Image, multiple: int = 1) -> Iterator[Image.Image]:
    """The picture in strips of whole rows, ``multiple`` times some number in all but the last: several copies of a
    large one in a wider mode are gigabytes."""
    rows = max(1, STRIP_PIXELS // image.width // multiple) * multiple
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


def _alpha_means_nothing(image: Image.Image) -> bool:
    """Programs leave the fourth byte of a BMP at zero, so Windows and browsers show such a one as if it had none. The
    same for a TIFF that does not call its fourth samples alpha. Viewers show nothing of a PNG, WebP or other TIFF whose
    every pixel is transparent: neither do we."""
    undeclared = image.format == "BMP" or (image.format == "TIFF" and EXTRA_SAMPLES not in tags_of(image))
    return undeclared and "A" in image.getbands() and not any(extrema(image.getchannel("A")))


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


def tags_of(image: Image.Image) -> Any:
    """A TIFF's directory; of others, an empty one."""
    return cast(TiffImageFile, image).tag_v2 if image.format == "TIFF" else {}


def is_wide(image: ImageFile.ImageFile) -> bool:
    """Whether the colours of an undecoded PNG, TIFF or PPM have 16 bits. Mends what Pillow says of two kinds."""
    if image.format == "PPM":  # Pillow's decoder for other maxima would take 65535 as well, and drop the lower bytes
        tile = image.tile[0]
        if (tile.codec_name, tile.args) == ("ppm", ("RGB", 65535)):
            image.tile = [tile._replace(codec_name="raw", args="RGB;16B")]
    elif image.format == "TIFF" and set(tags_of(image).get(BITS, ())) == {16}:  # Pillow says 8 of planes of 16 bits
        order = ";16L" if tags_of(image).prefix == b"II" else ";16B"
        lay_out(image, lambda layout: layout + order if len(layout) == 1 else layout)
    elif image.format not in ("PNG", "TIFF"):
        return False
    return any(WIDE.fullmatch(layout_of(tile)) for tile in image.tile)


def layout_of(tile: Any) -> str:
    """How the samples lie in the file: Pillow's raw mode."""
    return tile.args if isinstance(tile.args, str) else tile.args[0]


def lay_out(image: ImageFile.ImageFile, change: Callable[[str], str]) -> None:
    tiles = cast(list[Any], image.tile)
    image.tile = [
        tile._replace(args=change(tile.args) if isinstance(tile.args, str) else (change(tile.args[0]), *tile.args[1:]))
        for tile in tiles
    ]


def raise_low_bits(image: Image.Image, lower: Callable[[], Image.Image]) -> None:
    """Cameras and scanners store 10 to 14 bits in 16, of which Pillow keeps the upper 8. ``lower`` gives the others."""
    bands = image.split()
    opaque = image.mode == "RGBA" and extrema(bands[3])[0] == 255  # a true alpha has as few bits as the colours
    peak = max(int(extrema(band)[1]) for band in bands[: 3 if opaque else None])
    if peak >= 64:
        return
    scale = 255 / ((256 << peak.bit_length()) - 1)
    above = [min(255, round(value * 256 * scale)) for value in range(256)] * len(bands)
    below = [round(value * scale) for value in range(256)] * len(bands)
    if opaque:
        above[768:] = range(256)
    rest, top = lower(), 0
    for strip, low in zip(strips(image), strips(rest), strict=True):
        image.paste(ImageChops.add(strip.point(above), low.point(below)), (0, top))
        top += strip.height
