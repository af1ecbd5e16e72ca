# SPDX-License-Identifier: Apache-2.0
"""Clients of other services read pages here with their own code; they reach nothing but the parser."""

from __future__ import annotations

import base64
from collections.abc import Iterator

import httpx2
import pytest
from mistralai.client import Mistral
from mistralai.client.errors import SDKError

from tests.api.conftest import KEY
from tests.support.egress import Egress
from tests.support.paths import ROOT

PAGE, BOOK = ROOT / "tests/data/letter.png", ROOT / "tests/data/handbook.pdf"


@pytest.fixture
def egress() -> Iterator[Egress]:
    with Egress().refused() as watched:
        yield watched
        assert watched.tried == []


def data_url(kind: str, content: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


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
        asked = {"type": "document_url", "document_url": url}
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
        document = {"type": "image_url", "image_url": {"url": data_url("image/png", PAGE.read_bytes())}}
        (page,) = client.ocr.process(
            model="mistral-ocr-2505", document=document, image_min_size=81, include_blocks=False, pages=[0]
        ).pages
        assert page.images == [] and "img" not in page.markdown and "page 1" in page.markdown and not page.blocks

    @pytest.mark.parametrize(
        ("more", "words"),
        [
            ({"table_format": "html"}, "table_format: tables stand in the Markdown"),
            ({"document_annotation_prompt": "Who?"}, "document_annotation_prompt: this service reads"),
            ({"confidence_scores_granularity": "page"}, "confidence_scores_granularity"),
            ({"model": "gpt-5"}, "there is mistral-ocr-latest"),
            ({"pages": "1"}, "pages: 1 is none of the document's pages, which are 0 to 0"),
            ({"pages": "2-1"}, "neither a page nor a range"),
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
        document = {"type": "image_url", "image_url": data_url("image/png", PAGE.read_bytes())}
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
