# SPDX-License-Identifier: Apache-2.0
"""Sizes, limits, patches and decoding, without a model."""

from __future__ import annotations

import base64
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from selftest.tiny_image import TINY_PNG, tiny_request
from tests.plugin.chat import MODEL, encode, lying
from tests.plugin.family_checkpoints import SERVED
from vlm_models.images import decode_image, to_rgb
from vlm_models.media import DataUrlConnector, decode_data_url
from vlm_models.paddleocr_vl.image_processing import (
    PaddleOCRVLImageProcessor,
    is_grey,
    merge_block_order,
    smart_resize,
)
from vlm_models.pixel_limits import PixelLimits
from vlm_models.qwen2_vl.model import processors

CLIENT = (112896, 1003520)
LIMITS = PixelLimits(*CLIENT, bound=2822400)


@pytest.mark.parametrize(
    ("height", "width", "expected"),
    [
        (336, 336, (336, 336)),
        (1, 1, (336, 336)),
        (3, 40, (112, 1232)),
        (1000, 1000, (980, 980)),
        (60, 400, (140, 868)),
        (28, 5600, (28, 5600)),
        (4000, 3000, (1148, 840)),
    ],
)
def test_sizes_with_the_clients_limits(height, width, expected):
    assert smart_resize(height, width, 28, *CLIENT) == expected


def test_sizes_stay_within_the_limits_and_are_whole_blocks():
    random = np.random.default_rng(0)
    for height, width in random.integers(1, 5000, (2000, 2)).tolist():
        if max(height, width) > 100 * min(height, width):
            continue
        new_height, new_width = smart_resize(height, width, 28, *CLIENT)
        assert new_height % 28 == 0 and new_width % 28 == 0
        assert CLIENT[0] <= new_height * new_width <= CLIENT[1]


@pytest.mark.parametrize(("height", "width"), [(1, 8000), (8000, 1), (40, 8100), (201 * 28, 28)])
def test_thin_images_are_refused(height, width):
    with pytest.raises(ValueError, match="aspect ratio .* above 200"):
        smart_resize(height, width, 28, *CLIENT)


def test_limits_of_a_request():
    assert LIMITS.for_request({"min_pixels": 784, "max_pixels": 5000}) == PixelLimits(784, 5000, 2822400)
    # More than the operator allows is cut; a default gives way to the limit that is named.
    assert LIMITS.for_request({"max_pixels": 10**8}).max_pixels == 2822400
    assert LIMITS.for_request({"max_pixels": 1000}) == PixelLimits(1000, 1000, 2822400)
    assert LIMITS.for_request({"min_pixels": 2_000_000}).max_pixels == 2_000_000


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"min_pixels": 9, "max_pixels": 8}, "min_pixels: 9 is more than max_pixels"),
        ({"min_pixels": 3_000_000}, "at most 2822400"),
        ({"max_pixels": 0}, "max_pixels: 0 is not a positive"),
        ({"max_pixels": True}, "max_pixels: True is not"),
        ({"max_pixels": 1.5}, "max_pixels: 1.5 is not"),
        ({"bound": 1}, "unknown key 'bound'"),
    ],
)
def test_limits_that_make_no_sense(options, words):
    with pytest.raises(ValueError, match=words):
        LIMITS.for_request(options)


@pytest.mark.parametrize("family", ["paddleocr_vl", *SERVED])
def test_the_tiny_image_of_watchdog_and_readiness_is_one_token(family: str, tmp_path: Path):
    """Whatever the checkpoint's own least is."""
    limits = PixelLimits(262144, 4194304, bound=4194304).for_request(tiny_request(MODEL)["mm_processor_kwargs"])
    image = decode_image(base64.b64decode(TINY_PNG))
    (tmp_path / "preprocessor_config.json").write_text("{}")
    if family == "paddleocr_vl":
        _, grid = PaddleOCRVLImageProcessor().patches(image, limits)
    elif family == "qwen2_vl":
        options = {"min_pixels": limits.min_pixels, "max_pixels": limits.max_pixels}
        processor, _ = processors(str(tmp_path))
        (grid,) = processor(image, **options, return_tensors="pt")["image_grid_thw"].tolist()
    else:
        from vlm_models.hunyuan_vl.multimodal import image_processor

        processor = image_processor(str(tmp_path), limits)
        (grid,) = processor(images=image, return_tensors="pt")["image_grid_thw"].tolist()
    assert tuple(grid) == (1, 2, 2), "a block of four patches"


def test_patches_hold_the_image_in_merge_block_order():
    image = np.random.default_rng(1).integers(0, 256, (336, 392, 3), dtype=np.uint8)
    values, grid = PaddleOCRVLImageProcessor().patches(Image.fromarray(image), LIMITS)
    assert grid == (1, 24, 28) and values.shape == (24 * 28, 588) and values.dtype == torch.float32
    order = merge_block_order(24, 28, 2)
    assert order[:6].tolist() == [0, 1, 28, 29, 2, 3]
    for place in (0, 3, 100, 671):
        row, column = divmod(int(order[place]), 28)
        pixels = image[row * 14 : row * 14 + 14, column * 14 : column * 14 + 14].transpose(2, 0, 1) / 255
        np.testing.assert_allclose(values[place].view(3, 14, 14), (pixels - 0.5) / 0.5, atol=1e-6)


@pytest.mark.parametrize("mean", [(0.5, 0.5, 0.5), (0.48, 0.46, 0.41)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("colours", [1, 3])
def test_values_of_grey_and_coloured_images(mean, dtype, colours):
    """Resized channel by channel, normalised in float32, rounded once: whether the channels are equal or not."""
    image = Image.fromarray(
        np.random.default_rng(2).integers(0, 256, (90, 700, colours), dtype=np.uint8).repeat(4 - colours, 2)[..., :3]
    )
    processor = PaddleOCRVLImageProcessor(image_mean=mean)
    assert is_grey(image) == (colours == 1)
    values, (_, rows, columns) = processor.patches(image, LIMITS, dtype)
    pixels = np.asarray(image.resize((columns * 14, rows * 14), Image.Resampling.BICUBIC))
    levels = (pixels * (1 / 255)).astype(np.float32)
    expected = (levels - np.float32(mean)) / np.float32(0.5)
    patches = torch.from_numpy(expected).view(rows, 14, columns, 14, 3).permute(0, 2, 4, 1, 3).reshape(-1, 588)
    order = torch.from_numpy(merge_block_order(rows, columns, 2))
    assert values.dtype == dtype and torch.equal(values, patches[order].to(dtype))


@pytest.mark.parametrize("height", [1, 2, 511, 512, 513, 1300])
def test_one_coloured_pixel_is_seen(height):
    assert is_grey(Image.new("RGB", (30, height), "white"))
    for row in {0, height // 2, height - 1}:
        image = Image.new("RGB", (30, height), "white")
        image.putpixel((7, row), (255, 255, 254))
        assert not is_grey(image)


def test_sizes_in_either_spelling():
    spelled = PaddleOCRVLImageProcessor(size={"shortest_edge": 1, "longest_edge": 2})
    assert (spelled.min_pixels, spelled.max_pixels) == (1, 2)


def test_sixteen_bit_grey_keeps_its_shades():
    grey = np.linspace(0, 65535, 256).round().astype(np.uint16).reshape(16, 16)
    decoded = np.asarray(decode_image(encode(Image.fromarray(grey))))
    np.testing.assert_array_equal(decoded[..., 0].ravel(), np.arange(256))


def test_transparency_is_white():
    clear = Image.new("RGBA", (4, 4), (0, 0, 0, 0))
    assert to_rgb(clear).getpixel((0, 0)) == (255, 255, 255)
    named = Image.new("P", (4, 4), 3)
    named.info["transparency"] = 3
    assert to_rgb(named).getpixel((0, 0)) == (255, 255, 255)
    red = Image.new("RGB", (4, 4), "red")
    red.putpixel((0, 0), (0, 255, 0))
    expected = Image.new("RGB", (4, 4), "white")
    expected.putpixel((0, 0), (0, 255, 0))
    assert decode_image(encode(red, transparency=(255, 0, 0))) == expected


@pytest.mark.parametrize("mode", ["1", "L", "P", "CMYK", "YCbCr", "HSV", "LAB", "I", "RGBX"])
def test_white_stays_white_in_every_mode(mode):
    white = Image.new("RGB", (4, 4), "white")
    converted = white.convert("L").convert("I") if mode == "I" else Image.fromarray(np.full((4, 4, 3), 255, np.uint8))
    if mode == "LAB":
        pytest.importorskip("PIL.ImageCms")
        from PIL import ImageCms

        profiles = ImageCms.createProfile("sRGB"), ImageCms.createProfile("LAB")
        made = ImageCms.profileToProfile(white, *profiles, outputMode="LAB")
        assert made is not None, "without inPlace it returns the image"
        converted = made
    elif mode != "I":
        converted = white.convert(mode)
    assert min(to_rgb(converted).crop((1, 1, 2, 2)).tobytes()) >= 250


@pytest.mark.parametrize("form", ["PNG", "WEBP", "JPEG"])
@pytest.mark.parametrize("orientation", range(10))
def test_an_image_is_turned_upright(form: str, orientation: int):
    data, upright = lying(form, orientation)
    found = np.asarray(decode_image(data)).astype(int)
    assert found.shape == np.asarray(upright).shape
    assert np.abs(found - np.asarray(upright)).mean() <= (5 if form == "JPEG" else 0)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "0 bytes"),
        (b"hello", "format is not known"),
        (encode(Image.new("RGB", (32, 32)), "ICO"), "format is not known (send PNG, JPEG, TIFF, BMP or WEBP)"),
        (encode(Image.new("RGB", (90, 90)))[:60], "cut off or damaged"),
    ],
    ids=["empty", "text", "ICO", "cut off"],
)
def test_files_that_are_no_images(data, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        decode_image(data)


@pytest.mark.parametrize("mode", ["RGBA", "I;16", "I", "P", "1"])
def test_an_image_that_is_converted_in_bands_is_one(mode, monkeypatch):
    """Each band as the whole, however dark its own samples are."""
    height = 40
    grey = np.linspace(0, 65535, height * 30).astype(np.int32).reshape(height, 30)
    image = Image.fromarray(grey) if mode == "I" else Image.fromarray(grey.astype(np.uint16))
    if mode not in ("I", "I;16"):
        colours = np.random.default_rng(3).integers(0, 256, (height, 30, 4), dtype=np.uint8)
        image = Image.fromarray(colours) if mode == "RGBA" else Image.fromarray(colours[..., :3]).convert(mode)
    assert image.mode == mode
    whole = np.asarray(to_rgb(image))
    monkeypatch.setattr("vlm_models.images._BAND", 7 * 30)
    np.testing.assert_array_equal(np.asarray(to_rgb(image)), whole)


def test_an_enormous_image_is_refused_before_it_is_unpacked():
    with pytest.raises(ValueError, match="pixels, more than"):
        decode_image(encode(Image.new("1", (16000, 10000))))


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://localhost/x.png", "opens no URLs"),
        ("file:///etc/passwd", "opens no URLs"),
        ("/etc/passwd", "opens no URLs"),
        ("data:image/png,x", "not of the form"),
        ("data:image/png;base64", "not of the form"),
        ("data:image/png;base64,!!", "base64"),
    ],
)
def test_urls_that_are_refused(url, words):
    with pytest.raises(ValueError, match=words):
        decode_data_url(url)


def test_data_urls_are_images():
    data = base64.b64encode(encode(Image.new("RGB", (7, 5), "red"))).decode()
    image = DataUrlConnector().fetch_image(f"data:image/png;base64,{data}")
    assert image.size == (7, 5) and image.getpixel((0, 0)) == (255, 0, 0)


@pytest.mark.parametrize(
    ("method", "words"),
    [("fetch_audio", "only images"), ("fetch_video", "reads no video"), ("fetch_image_embedding", "only images")],
)
def test_only_images_are_fetched(method, words):
    with pytest.raises(ValueError, match=words):
        getattr(DataUrlConnector(), method)("data:,x")
