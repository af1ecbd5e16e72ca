# SPDX-License-Identifier: Apache-2.0
"""Clients of other services read pages here with their own code; they reach nothing but the parser."""

from __future__ import annotations

import base64
import io
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import httpx2
import pytest
from docling.datamodel.base_models import ConversionStatus, DocumentStream, OutputFormat
from docling.datamodel.service.options import ConvertDocumentsOptions
from docling.service_client import DoclingServiceClient
from docling.service_client.exceptions import ServiceError, TaskExecutionError
from docling_core.types.doc import DoclingDocument, ImageRefMode, PictureItem, TextItem
from mistralai.client import Mistral
from mistralai.client.errors import SDKError
from mistralai.client.models import OCRResponse

from tests.api.conftest import KEY
from tests.support.egress import Egress
from tests.support.entries import block_of, entry_of
from tests.support.paths import ROOT, python_of

pytestmark = pytest.mark.filterwarnings("ignore:deprecated:DeprecationWarning")  # docling's own options
PAGE, BOOK = ROOT / "tests/data/letter.png", ROOT / "tests/data/handbook.pdf"


@pytest.fixture
def egress() -> Iterator[Egress]:
    with Egress().refused() as watched:
        yield watched
        assert watched.tried == []


def base64_of(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


PICTURE = f"data:image/png;base64,{base64_of(PAGE)}"


BLOCKS = [
    ("header", "A header", (10, 0, 90, 8)),
    ("doc_title", "Printing", (10, 10, 90, 18)),
    ("paragraph_title", "1.1 3D printing.", (10, 20, 90, 28)),
    ("text", "An area of $ a^2 $ and 2*3.", (10, 30, 90, 38)),
    ("display_formula", "$$ b = c $$", (10, 40, 90, 48)),
    ("table", "<table><tr><th>A</th><th>B</th></tr><tr><td colspan=2>1</td></tr></table>", (10, 50, 90, 68)),
    ("figure_title", "Figure 1", (10, 70, 90, 78)),
    ("image", "", (10, 80, 90, 100)),
    ("algorithm", "x = 1", (10, 110, 90, 118)),
    ("footer", "7", (10, 130, 90, 138)),
]
IMAGE = "imgs/img_in_image_box_10_80_90_100.jpg"
CONVERT = "import io, json, sys; from docparser.convert import docling, mistral; " + (
    "args, answer = json.load(sys.stdin); source = json.dumps(answer).encode()\n"
    "for job in (mistral, docling): sink = io.BytesIO(); job.convert_answer(args, io.BytesIO(source), sink); "
    "print(sink.getvalue().decode())"
)


@pytest.fixture(scope="module")
def converted() -> tuple[OCRResponse, dict[str, Any]]:
    """A page with many kinds of blocks, read as page 2, and one that failed: as Mistral and as docling-serve answer."""
    blocks = [block_of(label, content, box, block_id=number) for number, (label, content, box) in enumerate(BLOCKS)]
    text = f"# Printing\n\n## 1.1 3D printing\n\nAn area of $ a^2 $ and 2*3.\n\n![]({IMAGE})"
    page = entry_of(blocks, text)
    page["markdown"]["images"] = {IMAGE: base64.b64encode(b"jpeg").decode()}
    empty = {"prunedResult": {"parsing_res_list": []}, "markdown": {"text": "", "images": {}}}
    lost = {"page": 2, "blocks": [{"message": "late"}], "notes": [{"message": "cut"}]}
    failed = {"page": 3, "error": {"kind": "invalid", "message": "torn"}}
    report = {"models": {}, "partial": True, "pages": [lost, failed]}
    answer = {"result": {"layoutParsingResults": [page, empty], "docparser": report}}
    wanted = {"include_blocks": True, "extract_header": True, "extract_footer": True, "include_image_base64": True}
    args = {"name": "a.pdf", "numbers": [2, 3], "seconds": 1.5, "size": 9, "dpi": 144, "model": "m", "wanted": wanted}
    args |= {"formats": ["md", "json", "html", "text"], "embed": False}
    command = [str(python_of("parser")), "-c", CONVERT]
    done = subprocess.run(command, input=json.dumps([args, answer]), text=True, capture_output=True, check=True)
    first, second = done.stdout.splitlines()
    return OCRResponse.model_validate_json(first), json.loads(second)


def test_every_kind_of_block_for_mistral(converted: Any):
    read, _ = converted
    page, failed = read.pages
    assert (page.index, failed.index, failed.markdown, failed.dimensions) == (1, 2, "", None)
    assert "## 1.1 3D printing.\n" in page.markdown and page.markdown.endswith("![img-0.jpeg](img-0.jpeg)")
    assert (page.header, page.footer) == ("A header", "7")
    kinds = ["header", "title", "title", "text", "equation", "table", "caption", "image", "code", "footer"]
    assert [block.type for block in page.blocks] == kinds
    assert page.blocks[7].image_id == "img-0.jpeg" and page.images[0].image_base64 == "data:image/jpeg;base64,anBlZw=="


def test_every_kind_of_block_for_docling(converted: Any):
    _, answer = converted
    said = [error["error_message"] for error in answer["errors"]]
    assert answer["status"] == "partial_success" and said == ["page 2: late", "page 2: cut", "page 3: torn"]
    document = DoclingDocument.model_validate(answer["document"]["json_content"])
    items: list[Any] = [item for item, _ in document.iterate_items()]  # without furniture
    labels = ["title", "section_header", "text", "formula", "table", "caption", "picture", "code"]
    assert [str(item.label.value) for item in items] == labels
    assert [item.text for item in document.texts if item.content_layer == "furniture"] == ["A header", "7"]
    (table,) = document.tables
    assert table.export_to_dataframe(document).to_dict() == {"A": {0: "1"}, "B": {0: "1"}}
    assert all(item.prov[0].page_no == 2 for item in items) and list(document.pages) == [2]
    markdown, text = answer["document"]["md_content"], answer["document"]["text_content"]
    assert "## 1.1 3D printing.\n" in markdown and "<!-- image -->" in markdown and "2*3" in markdown
    assert (
        "A\tB\n1\t\n" in text
        and "A header" not in text
        and '<th scope="col">A</th>' in answer["document"]["html_content"]
    )


class TestMistral:
    """mistralai 3.7.0."""

    @pytest.fixture
    def client(self, guarded_url: str, egress: Egress) -> Iterator[Mistral]:
        with (
            httpx2.Client(trust_env=False) as http,
            Mistral(api_key=KEY, server_url=guarded_url, client=http) as client,
        ):
            yield client

    def test_an_uploaded_book(self, client: Mistral):
        """As Open WebUI and LibreChat do it: upload, address, read, delete."""
        uploaded = client.files.upload(file={"file_name": BOOK.name, "content": BOOK.read_bytes()}, purpose="ocr")
        assert (uploaded.filename, uploaded.size_bytes) == (BOOK.name, BOOK.stat().st_size)
        assert client.files.retrieve(file_id=uploaded.id).id == uploaded.id
        url = client.files.get_signed_url(file_id=uploaded.id, expiry=1).url
        asked: Any = {"type": "document_url", "document_url": url}
        read = client.ocr.process(model="mistral-ocr-latest", document=asked, include_image_base64=True)
        assert [page.index for page in read.pages] == [0, 1, 2]
        assert read.usage_info.pages_processed == 3 and read.usage_info.doc_size_bytes == BOOK.stat().st_size
        names = [image.id for page in read.pages for image in page.images]
        assert names == ["img-0.jpeg", "img-1.jpeg", "img-2.jpeg"]
        first = read.pages[0]
        assert "page 1" in first.markdown and "![img-0.jpeg](img-0.jpeg)" in first.markdown
        assert "imgs/" not in first.markdown
        image = first.images[0]
        corners = image.top_left_x, image.top_left_y, image.bottom_right_x, image.bottom_right_y
        assert corners == (10, 50, 90, 130) and (image.image_base64 or "").startswith("data:image/jpeg;base64,/9j/")
        assert first.dimensions is not None and (first.dimensions.width, first.dimensions.height) == (100, 140)
        assert [block.type for block in first.blocks or []] == ["text", "image"]

        some = client.ocr.process(model=None, document={"type": "file", "file_id": uploaded.id}, pages="2,0")
        assert [page.index for page in some.pages] == [0, 2] and "page 3" in some.pages[1].markdown
        assert client.files.delete(file_id=uploaded.id).deleted
        with pytest.raises(SDKError, match="Upload it again"):
            client.ocr.process(model=None, document={"type": "file", "file_id": uploaded.id})

    def test_a_data_url_without_its_pictures(self, client: Mistral):
        """As LiteLLM sends every document."""
        document: Any = {"type": "image_url", "image_url": {"url": PICTURE}}
        (page,) = client.ocr.process(
            model="mistral-ocr-2505", document=document, image_min_size=81, include_blocks=False, pages=[0]
        ).pages
        assert page.images == [] and "img" not in page.markdown and "page 1" in page.markdown and not page.blocks

    @pytest.mark.parametrize(
        ("more", "words"),
        [
            ({"table_format": "html"}, "table_format: tables are HTML in the Markdown"),
            ({"document_annotation_prompt": "Who?"}, "document_annotation_prompt: this service reads"),
            ({"confidence_scores_granularity": "page"}, "confidence_scores_granularity"),
            ({"model": "gpt-5"}, "there is mistral-ocr-latest"),
            ({"pages": "1"}, "pages: 1 is not a page of the document, which has the pages 0 to 0"),
            ({"pages": "2-1"}, "'2-1' is empty; pages are counted from 0"),
            (
                {"document": {"type": "image_url", "image_url": "data:image/png;base64,!"}},
                "document.image_url: not base64",
            ),
            (
                {"document": {"type": "document_url", "document_url": "https://example.com/a.pdf"}},
                "document.document_url: this service fetches no URLs",
            ),
            ({"document": {"type": "file", "file_id": "0" * 32}}, "is no file here"),
        ],
    )
    def test_what_cannot_be_given_is_refused_with_a_sentence(self, client: Mistral, more: dict, words: str):
        document = {"type": "image_url", "image_url": PICTURE}
        with pytest.raises(SDKError, match=words) as caught:
            client.ocr.process(**{"model": "mistral-ocr-latest", "document": document} | more)
        assert caught.value.status_code in (400, 404)

    def test_without_its_key(self, guarded_url: str, egress: Egress):
        with (
            httpx2.Client(trust_env=False) as http,
            Mistral(api_key="other", server_url=guarded_url, client=http) as client,
            pytest.raises(SDKError, match="This key is not known here"),
        ):
            client.files.upload(file={"file_name": "a", "content": b"a"}, purpose="ocr")


class TestDocling:
    """docling-client 2.143.0."""

    @pytest.fixture
    def client(
        self, guarded_url: str, egress: Egress, monkeypatch: pytest.MonkeyPatch
    ) -> Iterator[DoclingServiceClient]:
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        with DoclingServiceClient(url=guarded_url, api_key=KEY) as client:
            yield client

    def test_a_book(self, client: DoclingServiceClient):
        """A task: submitted, watched (no web socket is here, so it asks again and again), fetched."""
        assert client.health().status == "ok"
        options = ConvertDocumentsOptions(
            to_formats=[OutputFormat.JSON, OutputFormat.MARKDOWN], image_export_mode=ImageRefMode.EMBEDDED
        )
        read = client.convert(BOOK, options=options, page_range=(1, 2))
        assert read.status is ConversionStatus.SUCCESS
        document = read.document
        assert document.name == "handbook" and list(document.pages) == [1, 2]
        items = [item for item, _ in document.iterate_items()]
        assert [type(item) for item in items] == [TextItem, PictureItem] * 2
        text, picture = items[2:]
        assert isinstance(text, TextItem) and text.text.endswith("page 2") and text.prov[0].page_no == 2
        assert isinstance(picture, PictureItem) and picture.image is not None
        assert str(picture.image.uri).startswith("data:image/jpeg;base64,")
        assert "page 2" in document.export_to_markdown()

    def test_a_task_that_fails(self, client: DoclingServiceClient):
        stream = DocumentStream(name="page.pdf", stream=io.BytesIO(b"%PDF-1.4 and no more"))
        job = client.submit(stream)
        with pytest.raises(TaskExecutionError, match="damaged"):
            job.result()

    def test_what_is_no_document(self, client: DoclingServiceClient):
        stream = DocumentStream(name="page.pdf", stream=io.BytesIO(b"words"))
        with pytest.raises(ServiceError) as caught:
            client.convert(stream)
        assert "neither an image nor a PDF" in (caught.value.detail or "")

    def test_at_once(self, guarded_url: str, egress: Egress):
        """As Open WebUI asks; and every format."""
        with httpx.Client(base_url=guarded_url, headers={"X-Api-Key": KEY}, trust_env=False) as client:
            form = {"image_export_mode": "placeholder", "do_ocr": "true", "ocr_lang": ["en"]}
            files = {"files": (PAGE.name, PAGE.read_bytes(), "image/png")}
            document = client.post("/v1/convert/file", files=files, data=form).raise_for_status().json()["document"]
            assert "page 1" in document["md_content"] and "<!-- image -->" in document["md_content"]
            assert "imgs/" not in document["md_content"]
            source = {
                "kind": "file",
                "filename": "a.png",
                "base64_string": base64.b64encode(PAGE.read_bytes()).decode(),
            }
            asked = {"sources": [source], "options": {"to_formats": ["html", "text", "json"]}}
            answer = client.post("/v1/convert/source", json=asked).raise_for_status().json()
            assert answer["status"] == "success" and answer["processing_time"] > 0
            document = answer["document"]
            assert document["md_content"] is None and document["text_content"].endswith("page 1")
            assert "page 1" in document["html_content"] and document["json_content"]["pages"]["1"]["page_no"] == 1

    def test_a_task_says_how_long_it_took(self, guarded_url: str):
        source = {"kind": "file", "filename": "a.png", "base64_string": base64.b64encode(PAGE.read_bytes()).decode()}
        with httpx.Client(base_url=guarded_url, headers={"X-Api-Key": KEY}, trust_env=False, timeout=60) as client:
            task = client.post("/v1/convert/source/async", json={"sources": [source]}).raise_for_status().json()
            while task["task_status"] in ("pending", "started"):
                task = client.get(f"/v1/status/poll/{task['task_id']}", params={"wait": 20}).raise_for_status().json()
            answer = client.get(f"/v1/result/{task['task_id']}").raise_for_status().json()
        assert answer["status"] == "success" and answer["processing_time"] > 0

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            ({"to_formats": ["md", "doctags"]}, "to_formats: 'doctags' is not available"),
            ({"image_export_mode": "referenced"}, "image_export_mode: 'referenced'"),
            ({"do_picture_description": True}, "do_picture_description: this service reads what is printed"),
            ({"page_range": [2, 2]}, "page_range: 2 is not a page of the document, which has the pages 1 to 1"),
            ({"page_range": [2, 1]}, "page_range"),
        ],
    )
    def test_what_cannot_be_given_is_refused_with_a_sentence(
        self, guarded_url: str, options: dict[str, Any], words: str
    ):
        source = {"kind": "file", "base64_string": base64.b64encode(PAGE.read_bytes()).decode()}
        with httpx.Client(base_url=guarded_url, headers={"X-Api-Key": KEY}, trust_env=False) as client:
            answer = client.post("/v1/convert/source", json={"sources": [source], "options": options})
        assert answer.status_code == 422 and words in answer.json()["detail"]
