# SPDX-License-Identifier: Apache-2.0
"""Every kind of document that is accepted, and every page of it."""

from __future__ import annotations

import pytest

from tests.support import samples
from tests.support.simulated_vlm import image_of


@pytest.mark.parametrize("format", ["PNG", "JPEG", "TIFF", "BMP", "WEBP"])
def test_image_formats(service, format):
    assert service.page(samples.image(format, size=(800, 1000)))["markdown"]["text"]


@pytest.mark.parametrize(
    ("format", "mode", "color", "expected"),
    [
        ("PNG", "RGBA", (255, 0, 0, 0), 255),  # wholly transparent: white, not red
        ("PNG", "LA", (0, 255), 0),
        ("PNG", "P", 0, None),
        ("PNG", "1", 1, 255),
        ("PNG", "L", 100, 100),
        ("PNG", "I;16", 0x8000, 127),
        ("TIFF", "I;16", 0x8000, 127),
        ("TIFF", "F", 0.5, 127),
        ("JPEG", "CMYK", (0, 0, 0, 255), 0),
        ("TIFF", "CMYK", (0, 0, 0, 255), 0),
        ("WEBP", "RGBA", (0, 0, 0, 0), 255),
    ],
)
def test_pixel_modes_arrive_as_they_look(service, vlm, format, mode, color, expected):
    service.page(samples.image(format, size=(64, 64), mode=mode, color=color), useLayoutDetection=False)
    (request,) = vlm.requests
    if expected is not None:
        assert image_of(request).convert("L").getpixel((32, 32)) == pytest.approx(expected, abs=2)


def test_exif_orientation_is_applied(service):
    upright = samples.picture((200, 100))
    exif = upright.getexif()
    exif[0x0112] = 6  # turned by 90 degrees
    file = samples.encode(samples.save(upright, "JPEG", exif=exif))
    info = service.parse(file, visualize=False).json()["result"]["dataInfo"]
    assert (info["width"], info["height"]) == (100, 200)


def test_all_pages_of_a_tiff(service):
    result = service.parse(samples.tiff((400, 600), (600, 400), (500, 500)), visualize=False).json()["result"]
    sizes = [{"width": 400, "height": 600}, {"width": 600, "height": 400}, {"width": 500, "height": 500}]
    assert result["dataInfo"] == {"type": "tiff", "numPages": 3, "pages": sizes}
    assert [page["prunedResult"]["width"] for page in result["layoutParsingResults"]] == [400, 600, 500]


@pytest.mark.parametrize("file_type", [0, None])
def test_all_pages_of_a_pdf_in_order(service, file_type):
    file = samples.pdf((595, 842), (842, 595), (595, 700))
    result = service.parse(file, fileType=file_type, visualize=False).json()["result"]
    sizes = [{"width": 1190, "height": 1684}, {"width": 1684, "height": 1190}, {"width": 1190, "height": 1400}]
    assert result["dataInfo"] == {"type": "pdf", "numPages": 3, "pages": sizes}
    assert [page["prunedResult"]["width"] for page in result["layoutParsingResults"]] == [1190, 1684, 1190]


def test_a_huge_pdf_page_is_rendered_at_a_lower_scale(service):
    info = service.parse(samples.pdf((14400, 14400)), visualize=False).json()["result"]["dataInfo"]
    assert 39_000_000 < info["pages"][0]["width"] * info["pages"][0]["height"] <= 40_100_000


@pytest.mark.parametrize("size", [(1, 1), (3, 3), (1, 8000), (8000, 1), (5, 2000)])
def test_extreme_sizes(service, size):
    assert service.page(samples.image(size=size))["prunedResult"]["width"] == size[0]


def test_base64_may_have_line_breaks_and_a_data_prefix(service):
    plain = samples.image(size=(100, 100))
    lines = "\n".join(plain[start : start + 76] for start in range(0, len(plain), 76))
    assert service.page(lines)
    assert service.page("data:image/png;base64," + plain)


def test_nothing_stays_on_disk(service):
    service.page(samples.image())
    assert not list((service.log.parent / "spool").glob("*"))


def test_without_layout_detection_the_page_is_one_block_of_its_own_size(service):
    page = service.page(samples.image(size=(300, 200)), useLayoutDetection=False)
    (block,) = page["prunedResult"]["parsing_res_list"]
    assert block["block_bbox"] == [0, 0, 300, 200]


def test_an_answer_is_json_of_a_length_that_is_said(service):
    answer = service.parse(samples.image(size=(300, 200)), visualize=False)
    assert answer.headers["Content-Type"] == "application/json"
    assert int(answer.headers["Content-Length"]) == len(answer.content)
