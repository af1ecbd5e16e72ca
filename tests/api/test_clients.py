# SPDX-License-Identifier: Apache-2.0
"""Programs of others ask the parser with their own code, as docs/clients.md says. They reach nothing but the parser:
what else they try is refused, and looked at.

`tests/parser/test_client_requests.py` has the requests of programs that are no Python packages, and
`tests/jobs/test_client.py` more of the PaddleOCR SDK.
"""

from __future__ import annotations

import asyncio
import base64
import sys
from collections.abc import Callable, Iterator
from typing import Any

import fastmcp
import openai
import paddleocr_mcp.__main__
import pytest
from langchain_paddleocr import PaddleOCRVLLoader
from paddleocr import AuthError, Model, PaddleOCRClient
from pydantic import SecretStr

from tests.api.conftest import KEY
from tests.support.egress import Egress
from tests.support.paths import ROOT

PUBLIC = "paddleocr.aistudio-app.com"  # the host that the SDK asks where nobody names another
PAGE = ROOT / "tests/data/letter.png"


@pytest.fixture
def egress() -> Iterator[Egress]:
    with Egress().refused() as watched:
        yield watched


def test_the_sdk(guarded_url, egress):
    with PaddleOCRClient(token=KEY, base_url=guarded_url) as client:
        (page,) = client.parse_document(file_path=str(PAGE)).pages
        assert "page 1" in page.markdown_text
    with PaddleOCRClient(token="other", base_url=guarded_url) as client, pytest.raises(AuthError) as caught:
        client.parse_document(file_path=str(PAGE))
    assert "This key is not known here" in str(caught.value)
    assert egress.tried == []


class TestLangChain:
    """langchain-paddleocr 0.2.2."""

    def test_with_its_base_url(self, guarded_url, egress):
        loader = PaddleOCRVLLoader(str(PAGE), base_url=guarded_url, access_token=SecretStr(KEY))
        (document,) = loader.load()
        assert "page 1" in document.page_content and document.metadata["source"] == str(PAGE)
        assert egress.tried == []

    def test_by_the_sdks_variables_it_would_leave(self, guarded_url, egress, monkeypatch):
        """What the warning in docs/clients.md is about."""
        monkeypatch.setenv("PADDLEOCR_BASE_URL", guarded_url)
        monkeypatch.setenv("PADDLEOCR_ACCESS_TOKEN", KEY)
        with pytest.raises(Exception, match="beyond loopback"):
            PaddleOCRVLLoader(str(PAGE)).load()
        assert set(egress.tried) == {PUBLIC}

    def test_what_a_wrong_key_shows(self, guarded_url, egress):
        with pytest.raises(AuthError, match="This key is not known here"):
            PaddleOCRVLLoader(str(PAGE), base_url=guarded_url, access_token=SecretStr("other")).load()
        assert egress.tried == []


class TestMcp:
    """paddleocr-mcp 0.8.5: its own main program, asked in this process instead of over standard input and output."""

    @pytest.fixture
    def ask(self, egress, monkeypatch) -> Callable[..., tuple[list[str], str]]:
        """Starts it with variables; gives its tools, and what one of them says of a page."""

        def ask(tool: str = "paddleocr_vl", **variables: str) -> tuple[list[str], str]:
            for name, value in variables.items():
                monkeypatch.setenv(f"PADDLEOCR_MCP_{name}", value)
            monkeypatch.setattr(sys, "argv", ["paddleocr_mcp"])
            tools: list[str] = []
            said: list[str] = []

            async def use(server: fastmcp.FastMCP, **_: Any) -> None:
                async with fastmcp.Client(server) as client:
                    tools.extend(one.name for one in await client.list_tools())
                    data = base64.b64encode(PAGE.read_bytes()).decode()
                    asked = {"input_data": data, "return_images": False} if tool != "ocr" else {"input_data": data}
                    found = await client.call_tool(tool, asked, raise_on_error=False)
                    said.extend(part.text for part in found.content)

            monkeypatch.setattr(fastmcp.FastMCP, "run_async", use)
            asyncio.run(paddleocr_mcp.__main__.async_main())
            return tools, "".join(said)

        return ask

    def test_the_mode_aistudio_with_a_key(self, guarded_url, egress, ask):
        tools, text = ask(
            PPOCR_SOURCE="aistudio",
            MODEL="PaddleOCR-VL",
            AISTUDIO_BASE_URL=guarded_url,
            AISTUDIO_ACCESS_TOKEN=KEY,
        )
        assert "page 1" in text and tools == ["paddleocr_vl"] and egress.tried == []

    def test_the_mode_self_hosted_with_the_key_in_the_address(self, guarded_url, egress, ask):
        """It has no setting for a key."""
        url = guarded_url.replace("://", f"://any:{KEY}@")
        _, text = ask(PPOCR_SOURCE="self_hosted", MODEL="PaddleOCR-VL", SELF_HOSTED_BASE_URL=url)
        assert "page 1" in text and egress.tried == []

    def test_its_own_default_model_is_not_served(self, guarded_url, egress, ask):
        url = guarded_url.replace("://", f"://any:{KEY}@")
        tools, text = ask("ocr", PPOCR_SOURCE="self_hosted", SELF_HOSTED_BASE_URL=url)
        assert tools == ["ocr"] and text == "Error calling tool 'ocr'" and egress.tried == []


def test_openai(guarded_url, egress):
    url = f"{guarded_url}/v1"
    data = f"data:image/png;base64,{base64.b64encode(PAGE.read_bytes()).decode()}"
    messages: Any = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": data}}]}]
    with openai.OpenAI(api_key=KEY, base_url=url, max_retries=0) as client:
        model = client.models.list().data[0].id
        text = client.chat.completions.create(model=model, messages=messages).choices[0].message.content
        assert text is not None and "page 1" in text
    stranger = openai.OpenAI(api_key="other", base_url=url, max_retries=0)
    with stranger, pytest.raises(openai.AuthenticationError, match="not known"):
        stranger.models.list()
    assert egress.tried == []


def test_a_model_of_the_sdk_that_is_another_pipeline(guarded_url, egress):
    with PaddleOCRClient(token=KEY, base_url=guarded_url) as client, pytest.raises(Exception, match="not served here"):
        client.ocr(file_path=str(PAGE), model=Model.PP_OCRV5)
    assert egress.tried == []
