# SPDX-License-Identifier: Apache-2.0
"""Image -> patches of the vision tower, for images of any size.

The size rule is the published one (``smart_resize`` of Qwen2-VL with PaddleOCR-VL's guard for thin
images); values equal those of transformers' PIL processor bit for bit. Only the order of the patches
differs: each 2x2 block that the projector merges lies together, so merging is a view.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from PIL import Image
from transformers.image_processing_utils import BaseImageProcessor

from ..pixel_limits import MAX_ASPECT_RATIO, PixelLimits

# Rows of an image that are looked at together.
STRIP_ROWS = 512


def smart_resize(height: int, width: int, factor: int, min_pixels: int, max_pixels: int) -> tuple[int, int]:
    """Height and width in pixels, multiples of ``factor``, near the source's shape and within the limits.

    Raises:
        ValueError: when one side is more than 200 times the other.
    """
    if height < factor:
        height, width = factor, round(width * factor / height)
    if width < factor:
        height, width = round(height * factor / width), factor
    if max(height, width) > MAX_ASPECT_RATIO * min(height, width):
        raise ValueError(
            f"aspect ratio {max(height, width) / min(height, width):.1f} is above {MAX_ASPECT_RATIO}; "
            "cut the image into pieces"
        )
    new_height, new_width = (round(side / factor) * factor for side in (height, width))
    if new_height * new_width > max_pixels:
        shrink = math.sqrt(height * width / max_pixels)
        new_height, new_width = (max(factor, math.floor(side / shrink / factor) * factor) for side in (height, width))
    elif new_height * new_width < min_pixels:
        grow = math.sqrt(min_pixels / (height * width))
        new_height, new_width = (math.ceil(side * grow / factor) * factor for side in (height, width))
    return new_height, new_width


class PaddleOCRVLImageProcessor(BaseImageProcessor):
    """Resizes (bicubic), normalises and cuts images; keys as in the published preprocessor_config.json.

    Also reads the spelling of transformers >= 5, ``size: {shortest_edge, longest_edge}``.
    """

    model_input_names = ["pixel_values", "image_grid_thw"]

    def __init__(
        self,
        min_pixels: int = 147384,
        max_pixels: int = 2822400,
        patch_size: int = 14,
        merge_size: int = 2,
        image_mean: tuple[float, ...] = (0.5, 0.5, 0.5),
        image_std: tuple[float, ...] = (0.5, 0.5, 0.5),
        rescale_factor: float = 1 / 255,
        resample: int = Image.Resampling.BICUBIC,
        size: dict[str, int] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        size = size or {}
        self.min_pixels = size.get("shortest_edge", size.get("min_pixels", min_pixels))
        self.max_pixels = size.get("longest_edge", size.get("max_pixels", max_pixels))
        self.patch_size = patch_size
        self.merge_size = merge_size
        self.image_mean = tuple(image_mean)
        self.image_std = tuple(image_std)
        self.rescale_factor = rescale_factor
        self.resample = Image.Resampling(resample)
        # value of an 8-bit sample after rescaling and normalising, [256, channels]: three roundings in
        # float32 like the reference's, once instead of per pixel
        levels = (np.arange(256, dtype=np.float64) * rescale_factor).astype(np.float32)[:, None]
        mean, std = (np.asarray(values, dtype=np.float32) for values in (image_mean, image_std))
        self._table = (levels - mean) / std

    def to_dict(self) -> dict[str, Any]:
        return {key: value for key, value in super().to_dict().items() if key != "_table"}

    @property
    def factor(self) -> int:
        """Pixels per side of the block that becomes one token."""
        return self.patch_size * self.merge_size

    def grid(self, height: int, width: int, limits: PixelLimits) -> tuple[int, int]:
        """Rows and columns of patches for an image of ``height`` x ``width`` pixels."""
        new_height, new_width = smart_resize(height, width, self.factor, limits.min_pixels, limits.max_pixels)
        return new_height // self.patch_size, new_width // self.patch_size

    def patches(
        self, image: Image.Image, limits: PixelLimits, dtype: torch.dtype = torch.float32
    ) -> tuple[torch.Tensor, tuple[int, int, int]]:
        """Patches [rows * columns, 3 * patch * patch] of ``dtype`` in merge-block order, and (1, rows, columns).

        ``image`` must be RGB. Raises ValueError for aspect ratios above 200.
        """
        rows, columns = self.grid(image.height, image.width, limits)
        side, merge = self.patch_size, self.merge_size
        size = (columns * side, rows * side)
        # Most crops are black on white. PIL resizes each channel by itself: one stands for three equal ones.
        planes: list[Image.Image] = [image.getchannel(0)] if is_grey(image) else [image]
        if image.size != size:
            planes = [plane.resize(size, self.resample) for plane in planes]
        if planes[0].mode == "RGB":
            planes = list(planes[0].split())
        # [block row, block column, row in block, column in block, channel, y, x]; moved as bytes, plane by plane, so
        # that each move copies whole rows of a patch. Four times as fast as looking values up in the scattered view.
        blocks = np.empty((rows // merge, columns // merge, merge, merge, len(planes), side, side), dtype=np.uint8)
        for channel, plane in enumerate(planes):
            pixels = np.asarray(plane).reshape(rows // merge, merge, side, columns // merge, merge, side)
            blocks[..., channel, :, :] = pixels.transpose(0, 3, 1, 4, 2, 5)
        return self.values(blocks, dtype).view(rows * columns, 3 * side * side), (1, rows, columns)

    def values(self, samples: np.ndarray, dtype: torch.dtype) -> torch.Tensor:
        """Values [..., 3, y, x] of 8-bit samples [..., channel, y, x]; one channel stands for three."""
        # Rounded to ``dtype`` in the table, not pixel by pixel, and looked up as whole numbers of its width.
        table = torch.from_numpy(self._table.T.copy()).to(dtype)
        words = table.view({4: torch.int32, 2: torch.int16}[dtype.itemsize]).numpy()
        if (words == words[0]).all():
            found = np.take(words[0], samples, mode="clip")
            if samples.shape[-3] == 1:
                found = np.repeat(found, 3, axis=-3)
        else:
            found = np.empty((*samples.shape[:-3], 3, *samples.shape[-2:]), dtype=words.dtype)
            for channel in range(3):
                plane = samples[..., min(channel, samples.shape[-3] - 1), :, :]
                found[..., channel, :, :] = np.take(words[channel], plane, mode="clip")
        return torch.from_numpy(found).view(dtype)


def is_grey(image: Image.Image) -> bool:
    """Whether the three channels of an RGB image are equal."""
    # One row tells most coloured images apart at once; strips need little memory, however large the image is.
    middle, tops = image.height // 2, range(0, image.height, STRIP_ROWS)
    spans = ((middle, middle + 1), *((top, min(top + STRIP_ROWS, image.height)) for top in tops))
    strips = (image.crop((0, top, image.width, bottom)) for top, bottom in spans)
    return all(red == green == blue for red, green, blue in map(channels, strips))


def channels(image: Image.Image) -> list[bytes]:
    return [channel.tobytes() for channel in image.split()]


def merge_block_order(rows: int, columns: int, merge: int) -> np.ndarray:
    """Row-major patch index of each place in merge-block order, [rows * columns] int64."""
    index = np.arange(rows * columns).reshape(rows // merge, merge, columns // merge, merge)
    return index.transpose(0, 2, 1, 3).reshape(-1)
