# SPDX-License-Identifier: Apache-2.0
"""What requests come to: options by their names, pages, the document's field, and what is refused. `tests/api` sends
such requests with the clients of other services."""

from __future__ import annotations

import re
from typing import Any

import pytest
from pydantic import ValidationError

from docparser.contract.docling import DoclingOptions, DoclingRequest, options_of_form
from docparser.contract.ocr import OcrRequest
from docparser.contract.request_parts import is_bulk, with_priority
from docparser.contract.schemas import ParseOptions, log_id_of
from docparser.contract.strict_json import MAX_VALUES, BeyondBounds, loads
from docparser.contract.tasks import Tasks
from docparser.errors import InvalidJob
from docparser.jobs.step_work import pages_of_job


@pytest.mark.parametrize(("bounds", "taken"), [((5, 9), True), ((7, 7), True), ((9, 5), False), ((None, 5), True)])
def test_bounds_of_pixels_are_in_order(bounds: tuple[int | None, int], taken: bool):
    said: dict[str, Any] = dict(zip(("minPixels", "maxPixels"), bounds, strict=True))
    if taken:
        assert ParseOptions(**said).minPixels == bounds[0]
    else:
        with pytest.raises(ValidationError, match=r"minPixels \(9\) must not be greater than maxPixels \(5\)"):
            ParseOptions(**said)


@pytest.mark.parametrize("field", ["useDocOrientationClassify", "useDocUnwarping"])
def test_what_needs_a_model_that_is_not_there_is_refused(field: str):
    asked = ParseOptions.model_validate({field: True})
    assert Tasks("m", None, preprocessor=True).refusal(asked) is None
    assert Tasks("m", None).refusal(asked) == f"{field}: this service has no model for it; send false or leave it out"


@pytest.mark.parametrize(
    ("known", "asked", "words"),
    [(["ocr"], None, None), (["ocr"], "ocr", None), (["ocr"], "seal", "'seal' is no task of m"), (None, "seal", None),
     (None, "document", "a model that reads whole pages"), (["document"], "document", None)],
)  # fmt: skip
def test_tasks_that_the_model_does_not_know_are_refused(known: Any, asked: Any, words: str | None):
    found = Tasks("m", known).refusal(ParseOptions(promptLabel=asked))
    assert found is None if words is None else words in (found or "")


@pytest.mark.parametrize(
    ("body", "found"), [({"logId": "a"}, "a"), ({"logId": 5}, None), ({}, None), ([], None), ("logId", None)]
)
def test_the_clients_own_id_is_a_text(body: Any, found: str | None):
    assert log_id_of(body) == found


def ocr(**fields: Any) -> OcrRequest:
    return OcrRequest.model_validate({"document": {"type": "file"}, **fields})


@pytest.mark.parametrize(
    ("pages", "selected"),
    [
        (None, [0, 1, 2, 3, 4]),
        ([4, 0, 4], [0, 4]),
        ("0,2-4", [0, 2, 3, 4]),
        (" 3 , 1-1", [1, 3]),
        ([5], "5 is not a page of the document, which has the pages 0 to 4"),
        ("3-5", "5 is not a page of"),
        ("4-3", "'4-3' is empty; pages are counted from 0"),
        ("3-", [3, 4]),
        ("3-9~", [3, 4]),
        ("x", "'x' is neither"),
        ([], "names no page"),
    ],
)
def test_pages_for_mistral(pages: Any, selected: list[int] | str):
    if isinstance(selected, list):
        assert ocr(pages=pages).selected(5) == selected
    else:
        with pytest.raises(ValueError, match=f"^pages: .*{selected}"):
            ocr(pages=pages).selected(5)


@pytest.mark.parametrize(
    ("document", "found"),
    [
        ({"type": "document_url", "document_url": "d", "image_url": "i"}, ("document.document_url", "d")),
        ({"type": "image_url", "document_url": "d", "image_url": "i"}, ("document.image_url", "i")),
        ({"type": "image_url", "image_url": {"url": "u"}}, ("document.image_url", "u")),
        ({"type": "file", "file_id": "f"}, ("document.file_id", "f")),
        ({"type": "file", "image_url": "i"}, "document.file_id: missing; expected it, since document.type is file"),
        ({"type": "image_url"}, "document.image_url: missing"),
    ],
)
def test_the_document_for_mistral(document: dict[str, Any], found: tuple[str, str] | str):
    request = ocr(document=document)
    if isinstance(found, tuple):
        assert request.source() == found and request.refusal() is None
    else:
        with pytest.raises(ValueError, match=found):
            request.source()


def test_what_mistral_has_and_this_service_has_not_is_refused():
    assert ocr(document_annotation_prompt="what?").refusal() == (
        "document_annotation_prompt: this service reads what is printed and answers no questions about it; leave it out"
    )
    assert (ocr(table_format="html").refusal() or "").startswith("table_format: tables are HTML in the Markdown")


@pytest.mark.parametrize(
    ("options", "ranges", "refusal"),
    [
        ({}, None, None),
        ({"page_range": [2, 5]}, "2-5~", None),
        ({"page_range": [3, 3]}, "3-3~", None),
        ({"page_range": [2, 2**63 - 1]}, "2-", None),
        ({"page_range": [1, 2**63 - 1]}, None, None),
        ({"page_range": [0, 5]}, "0-5~", "page_range: .* is empty"),
        ({"page_range": [6, 5]}, "6-5~", "page_range: .* is empty"),
        ({"to_formats": ["md", "doctags"]}, None, "to_formats: 'doctags' is not available"),
        ({"to_formats": []}, None, "to_formats: nothing is not available"),
        ({"image_export_mode": "referenced"}, None, "image_export_mode: 'referenced'"),
        ({"md_page_break_placeholder": "--"}, None, "md_page_break_placeholder: "),
        ({"include_page_images": True}, None, "include_page_images: .*; send false or leave it out"),
        ({"include_page_images": False}, None, None),
    ],
)
def test_options_for_docling(options: dict[str, Any], ranges: str | None, refusal: str | None):
    made = DoclingOptions.model_validate(options)
    assert made.page_ranges() == ranges
    found = made.refusal()
    assert found is None if refusal is None else re.match(refusal, found or "")


@pytest.mark.parametrize(
    ("asked", "selected"),
    [
        (None, [0, 1, 2]),
        ([2, 3], [1, 2]),
        ([2, 9], [1, 2]),
        ([3, 2**63 - 1], [2]),
        ([4, 9], "page_range: 4 is not a page of the document, which has the pages 1 to 3"),
    ],
)
def test_a_task_for_docling_reads_the_pages_that_are_read_at_once(asked: Any, selected: list[int] | str):
    """One that ends beyond the document ends with it, as docling has it."""
    options = DoclingOptions.model_validate({"page_range": asked})
    if isinstance(selected, list):
        assert options.selected(3) == [page - 1 for page in pages_of_job(options.page_ranges(), 3)] == selected
        return
    with pytest.raises(ValueError, match=selected):
        options.selected(3)
    with pytest.raises(InvalidJob, match=selected.removeprefix("page_range: ")):
        pages_of_job(options.page_ranges(), 3)


def test_what_docling_asks_for_is_read_and_named():
    made = DoclingOptions.model_validate({"to_formats": ["html", "md"], "do_chart_extraction": True})
    assert made.reading() == {"visualize": False, "prettifyMarkdown": False, "useChartRecognition": True}
    assert "useChartRecognition" not in DoclingOptions.model_validate({"do_chart_extraction": False}).reading()
    placeholder = made.model_copy(update={"image_export_mode": "placeholder"})
    embedded = made.model_copy(update={"image_export_mode": "embedded"})
    assert (placeholder.task("j"), embedded.task("j")) == ("j-md.html", "j-md.html-embedded")
    form = options_of_form(
        {"to_formats": ["md", "text"], "page_range": ["2", "3"], "image_export_mode": ["x", "embedded"]}
    )
    assert (form.formats, form.page_ranges(), form.embed) == (["md", "text"], "2-3~", True)


@pytest.mark.parametrize(
    ("source", "found", "name"),
    [
        ({"kind": "file", "base64_string": "b", "filename": "a.pdf"}, ("sources.0.base64_string", "b"), "a.pdf"),
        ({"kind": "http", "url": "http://x/y/z.pdf?q=/1"}, ("sources.0.url", "http://x/y/z.pdf?q=/1"), "z.pdf"),
        ({"kind": "http", "url": "http://x/"}, ("sources.0.url", "http://x/"), "document"),
        ({"kind": "file", "url": "u"}, "sources.0.base64_string: missing; expected it, since kind is file", "document"),
        ({"kind": "http", "url": "u", "headers": {"a": "b"}}, "sources.0.headers: ", "document"),
    ],
)
def test_the_document_for_docling(source: dict[str, Any], found: tuple[str, str] | str, name: str):
    request = DoclingRequest.model_validate({"sources": [source]})
    assert request.file_name == name
    if isinstance(found, tuple):
        assert request.source() == found
    else:
        with pytest.raises(ValueError, match=found):
            request.source()


def test_who_is_bulk_says_its_name():
    bulk = with_priority("a", bulk=True)
    assert is_bulk(bulk) and with_priority(bulk, bulk=True) == bulk and with_priority("a", bulk=False) == "a"


@pytest.mark.parametrize("signs", ["", '"[,{[,{"'])
@pytest.mark.parametrize(("values", "taken"), [(MAX_VALUES, True), (MAX_VALUES + 1, False)])
def test_values_of_a_body_are_counted_before_they_are_made(signs: str, values: int, taken: bool):
    """The outermost is none of them, nor are signs inside a string."""
    text = f"[{','.join(['1'] * (values - bool(signs)) + [signs] * bool(signs))}]"
    if taken:
        assert len(loads(text)) == values
    else:
        with pytest.raises(BeyondBounds, match=str(MAX_VALUES)):
            loads(text)
