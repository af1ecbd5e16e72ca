# SPDX-License-Identifier: Apache-2.0
"""Parts of messages before vLLM sees them: the words of other clients, parts that hold nothing, and addresses."""

from __future__ import annotations

import asyncio
import base64
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jinja2
import pytest
from PIL import Image

from env_values import WrongValue
from tests.plugin.chat import encode, image_part, text_part
from tests.plugin.families import HUNYUAN_VL, QWEN2_VL
from tests.plugin.templates import rendered
from vlm_models import parts, remote
from vlm_models.fields import Refusal
from vlm_models.settings import RequestSettings

PICTURE = encode(Image.new("RGB", (9, 9), "red"))


def request(*content: dict[str, Any] | str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": list(content)}]}


def test_other_clients_parts_are_read_as_openais():
    bare, whole = "data:,x", {"url": "data:,x"}
    for kind, image in (
        *((kind, image) for kind in ("image", "input_image") for image in (bare, whole)),
        *(("image_url", bare), ("image_url", {**whole, "detail": None}), (None, bare), (None, whole)),
    ):
        document = request({"type": kind, "image_url": image}, {"type": "input_text", "text": "a"})
        document["messages"][0]["name"] = None
        assert parts.in_openais_words(document)
        assert document == request({"type": "image_url", "image_url": whole}, text_part("a")), (kind, image)
    document = request({"type": "video_url", "video_url": bare})
    assert parts.in_openais_words(document) and document == request({"type": "video_url", "video_url": whole})
    document = request("a", image_part("data:,x"), "b")
    assert parts.in_openais_words(document)
    assert document == request(text_part("a"), image_part("data:,x"), text_part("b"))
    assert not parts.in_openais_words(request(image_part("data:,x"), {"type": "image"}, text_part("a")))


@pytest.mark.parametrize(
    ("part", "empty"),
    [
        ({"type": "image_url", "image_url": None, "uuid": "a"}, "image_url"),
        ({"image_url": None, "uuid": "a"}, "image_url"),
        ({"type": "video_url", "uuid": "a"}, "video_url"),
        ({"type": "image", "image_url": {"url": None}, "uuid": "a"}, "image_url"),
        ({"type": "video_url", "video_url": {}, "uuid": "a"}, "video_url"),
        ({"type": "image_url", "image_url": {"url": None}, "uuid": "a", "text": "a"}, "image_url"),
        ({"type": "text", "text": "a", "image_url": None}, None),
        (image_part("data:,x"), None),
    ],
)
def test_parts_that_hold_nothing_are_found(part: dict[str, Any], empty: str | None):
    found = list(parts.empty_media(request(text_part("a"), part)))
    assert found == ([f"messages[0].content[1].{empty}"] if empty else [])


IMAGE, VIDEO = ({"url": f"data:,{name}"} for name in ("image", "video"))


@pytest.mark.parametrize(
    ("part", "unread"),
    [
        ({"type": "text", "text": "a", "image_url": IMAGE}, ["image_url"]),
        ({"type": "text", "text": "a", "image_url": None}, []),
        ({"type": "input_text", "text": "a"}, []),
        ({"type": "refusal", "text": "a"}, ["text"]),
        ({"type": "image_url", "image_url": IMAGE, "text": "a", "video_url": VIDEO}, ["text", "video_url"]),
        ({"type": "image", "image_url": IMAGE, "text": "a"}, ["text"]),
        ({"type": "input_image", "image_url": "data:,x"}, []),
        ({"type": "video_url", "video_url": VIDEO, "image_url": IMAGE}, ["image_url"]),
        ({"image_url": IMAGE, "video_url": VIDEO}, ["video_url"]),
        ({"image_url": None, "video_url": VIDEO}, ["video_url"]),
        ({"video_url": VIDEO}, []),
        ({"text": "a"}, ["text"]),
    ],
)
def test_what_vllm_would_pass_over_is_found(part: dict[str, Any], unread: list[str]):
    found = list(parts.unread(request("a", part)))
    assert found == [(f"messages[0].content[1].{key}", part.get("type")) for key in unread]


class Pictures(BaseHTTPRequestHandler):
    """Answers with a picture, a redirect to it, too much, or 404."""

    def do_GET(self) -> None:
        answers = {"/a.png": (200, PICTURE), "/moved": (302, b""), "/large": (200, b"x" * 5000)}
        status, body = answers.get(self.path, (404, b""))
        self.send_response(status)
        if status == 302:
            self.send_header("Location", "/a.png")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture(scope="module")
def host() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Pictures)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def fetched(document: dict[str, Any], *hosts: str) -> tuple[bool, int]:
    """Whether something was fetched, and how many bytes were counted."""
    counted: list[int] = []
    found = asyncio.run(remote.fetch_media(document, frozenset(hosts), counted.append))
    return found, sum(counted)


@pytest.mark.server
def test_addresses_of_allowed_hosts_are_fetched_and_no_others(host: str, monkeypatch: pytest.MonkeyPatch):
    document = request(image_part(f"http://{host}/a.png"), image_part("data:,x"))
    assert fetched(document, host) == (True, len(PICTURE))
    first, second = document["messages"][0]["content"]
    data = base64.b64encode(PICTURE).decode()
    assert first["image_url"] == {"url": f"data:image/png;base64,{data}"} and second == image_part("data:,x")
    for url in (f"http://{host}/a.png", f"http://me@{host}/a.png", "file:///etc/hostname", "http://[x/"):
        document = request(image_part(url))
        before = json.dumps(document)
        assert fetched(document, "127.0.0.1") == (False, 0) and json.dumps(document) == before, url
    monkeypatch.setattr(remote, "MAX_BYTES", 4000)
    for path, words in {"moved": "answered 302", "absent": "answered 404", "large": "larger than 4000 bytes"}.items():
        with pytest.raises(Refusal, match=words) as caught:
            fetched(request(image_part(f"http://{host}/{path}")), host)
        assert str(caught.value).startswith("messages[0].content[0].image_url: ")


def test_the_operators_hosts():
    settings = RequestSettings.from_environment({"VLM_MEDIA_HOSTS": "A.example 10.0.0.7:8080"})
    assert settings.media_hosts == {"a.example", "10.0.0.7:8080"}
    with pytest.raises(WrongValue, match="VLM_MEDIA_HOSTS is '.*http://a'; expected names"):
        RequestSettings.from_environment({"VLM_MEDIA_HOSTS": "http://a"})


def render(family: str, messages: list[dict[str, Any]]) -> str:
    return rendered(f"{family}/chat_template.jinja", messages)


def turn(role: str, *content: dict[str, str] | str) -> dict[str, Any]:
    return {
        "role": role,
        "content": [{"type": "text", "text": one} if isinstance(one, str) else one for one in content],
    }


@pytest.mark.parametrize(("name", "family"), [("qwen2_vl", QWEN2_VL), ("hunyuan_vl", HUNYUAN_VL)])
def test_the_templates_write_the_families_prompts(name: str, family: Any):
    prompt = render(name, [turn("user", {"type": "image"}, "Read.")])
    assert prompt == family.chat.format(media=family.image, text="Read.")
    with pytest.raises(jinja2.TemplateError, match="role tool is not known"):
        render(name, [{"role": "tool", "content": "a"}])


def test_several_turns():
    turns = [turn("system", "S"), turn("user", "a", {"type": "video"}), turn("assistant", "b"), turn("user", "c")]
    assert render("qwen2_vl", turns) == (
        "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\na<|vision_start|><|video_pad|><|vision_end|><|im_end|>\n"
        "<|im_start|>assistant\nb<|im_end|>\n<|im_start|>user\nc<|im_end|>\n<|im_start|>assistant\n"
    )
    turns = [turn("system", ""), turn("user", "a", {"type": "image"}), turn("assistant", "b"), turn("user", "c")]
    image = HUNYUAN_VL.image
    assert render("hunyuan_vl", turns) == (
        f"<｜hy_begin▁of▁sentence｜><｜hy_place▁holder▁no▁3｜>{image}a<｜hy_User｜>b<｜hy_Assistant｜>c<｜hy_User｜>"
    )


@pytest.mark.parametrize(
    ("name", "token"),
    [
        *(("qwen2_vl", token) for token in ("<|image_pad|>", "<|video_pad|>", "<|vision_start|>", "<|vision_end|>")),
        *(("hunyuan_vl", f"<｜hy_place▁holder▁no▁{number}｜>") for number in (100, 101, 102, 103)),
    ],
)
def test_the_templates_refuse_tokens_of_images_in_texts(name: str, token: str):
    for role in ("system", "user", "assistant"):
        pieces = turn(role, token[:3], token[3:-2], token[-2:])
        for message in (turn(role, "x" + token), {"role": role, "content": token}, pieces):
            with pytest.raises(jinja2.TemplateError, match="which is reserved"):
                render(name, [message])
