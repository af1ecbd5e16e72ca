# SPDX-License-Identifier: Apache-2.0
"""What of vLLM's API is open: ``vllm serve --middleware vlm_models.middleware.ChatOnly``.

Chat completions, with the fields that reading documents needs (``fields``), and with as many pixels at once as the
operator allows (``pixels``); nothing for web pages, which vLLM would answer from any origin. It alone asks for a key:
the launcher keeps keys from vLLM, which would log them. vLLM 0.11.1 lets requests of other kinds stop its engine
(tried): POST /v1/completions with ``"prompt": [-1]`` reaches the embedding lookup as it is.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import os
import re
import secrets
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

from .fields import Refusal, read_request, shown
from .images import pixels_of
from .media import decode_data_url, decode_frames_url, is_frames
from .parts import empty_media, in_openais_words, media_urls, parts, unread
from .pixels import ROOM, PixelBudget, Room
from .remote import fetch_media
from .settings import RequestSettings

# PaddleOCR-VL by the names that its own client sends (paddleocr 3.7).
VERSION = re.compile(r"PaddleOCR-VL(?:-([\d.]+))?-0\.9B")
# Families that answer a text alone, too.
TALKS = frozenset({"qwen2_vl"})
POST_PATHS = frozenset({"/v1/chat/completions"})
READS = frozenset({"GET", "HEAD", "OPTIONS"})
# Below them reading needs the key too, as in vLLM; health and metrics need none.
GUARDED = ("/v1", "/v2", "/inference")
MAX_BODY_BYTES = 128 * 1024 * 1024
# Bodies of all requests that are in work. vLLM keeps three or four times as much: the texts, the images' bytes.
MAX_BODIES_BYTES = 4 * MAX_BODY_BYTES
BODY_TIMEOUT_S = 120.0
# A page's image is decoded and cut into patches within a second, so who waits this long waits behind many.
PATIENCE_S = 30.0
RETRY_AFTER_S = 5

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class ChatOnly:
    """ASGI middleware; answers what it refuses in the form of vLLM's own errors."""

    def __init__(self, app: Callable[[Message, Receive, Send], Awaitable[None]]) -> None:
        """Raises WrongValue (the launcher has checked the settings)."""
        self.app = app
        settings = RequestSettings.from_environment(os.environ)
        self.pixels, self.video_pixels = PixelBudget(settings.pixels_in_flight), settings.video_pixels
        self.names, self.family = settings.served_names, settings.family
        self.key_digests = settings.key_digests
        self.hosts = settings.media_hosts
        self.bodies = 0  # bytes

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":  # 0.23.0 has some
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        try:
            check_origin(scope.get("headers", ()))
            if scope["method"] in READS and scope["path"].removeprefix(scope.get("root_path", "")).startswith(GUARDED):
                check_key(scope.get("headers", ()), self.key_digests)
        except Refusal as refusal:
            await answer(refusal, send)
            return
        await (self.app if scope["method"] in READS else self.chat)(scope, receive, send)

    async def chat(self, scope: Message, receive: Receive, send: Send) -> None:
        held = Body(self)
        try:
            check_path(scope["method"], scope["path"])
            check_key(scope.get("headers", ()), self.key_digests)
            body = await held.read(receive)
            document = read_request(body)
            check_model(document.get("model"), self.names)
            for where in empty_media(document):
                raise Refusal(400, f"{where}: null is not accepted; expected an object with url")
            for where, kind in unread(document):
                raise Refusal(400, f"{where}: a part of type {shown(kind)} has none; expected it in a part of its own")
            check_image(document, self.family)
            changed = in_openais_words(document)
            fetched = await fetch_media(document, self.hosts, held.count)
            scope, named = with_own_ids(scope, document)
            if changed or fetched or named:
                body = json.dumps(document).encode()
            room = await self.room_for(document)
        except Refusal as refusal:
            await answer(refusal, send)
        else:
            token = ROOM.set(room)
            try:
                await self.app(scope, replay(body, receive), send)
            finally:
                ROOM.reset(token)
                room.close()
        finally:
            held.free()

    async def room_for(self, document: dict[str, Any]) -> Room:
        """Room for the pixels of a request's images and videos: of files of videos what their bound says, or what the
        images leave of all. Raises Refusal where there is none, or never could be."""
        pixels, files = await asyncio.to_thread(pixels_of_request, document) if any(media_urls(document)) else (0, 0)
        if pixels > self.pixels.most:
            raise Refusal(
                400,
                f"messages: the images have {pixels} pixels together; expected at most {self.pixels.most} "
                "(VLM_MEGAPIXELS_IN_FLIGHT), so send fewer or smaller ones",
            )
        each = min(self.video_pixels, (self.pixels.most - pixels) // max(1, files))
        try:
            room = await self.pixels.take(pixels + files * each, PATIENCE_S)
        except TimeoutError:
            raise Refusal(
                503, f"images of other requests fill the memory for {self.pixels.most} pixels; try again", RETRY_AFTER_S
            ) from None
        room.of_a_video = each
        return room


class Body:
    """One request's body, which counts among ``gate.bodies`` until it is freed."""

    def __init__(self, gate: ChatOnly) -> None:
        self.gate, self.size = gate, 0

    async def read(self, receive: Receive) -> bytes:
        """The whole body. Raises Refusal for one that is too large, too slow, or one too many."""
        parts: list[bytes] = []
        try:
            async with asyncio.timeout(BODY_TIMEOUT_S):
                while True:
                    message = await receive()
                    if message["type"] != "http.request":
                        raise Refusal(400, "the connection was closed before the body was complete")
                    parts.append(message.get("body", b""))
                    self.count(len(parts[-1]))
                    if not message.get("more_body", False):
                        return b"".join(parts)
        except TimeoutError:
            raise Refusal(408, f"the body did not arrive within {BODY_TIMEOUT_S:g} s") from None

    def count(self, size: int) -> None:
        self.size += size
        self.gate.bodies += size
        if self.size > MAX_BODY_BYTES:
            raise Refusal(413, f"the body is larger than {MAX_BODY_BYTES} bytes; send fewer or smaller images")
        if self.gate.bodies > MAX_BODIES_BYTES:
            raise Refusal(503, f"bodies of all requests hold {MAX_BODIES_BYTES} bytes; try again", RETRY_AFTER_S)

    def free(self) -> None:
        self.gate.bodies -= self.size
        self.size = 0


def check_path(method: str, path: str) -> None:
    if path not in POST_PATHS:
        raise Refusal(404, f"{method} {path} is not open on this server; use POST /v1/chat/completions")


def check_origin(headers: Iterable[tuple[bytes, bytes]]) -> None:
    """Raises Refusal for what a browser sends for a web page. On loopback no key is needed, so any page that a user of
    this machine opens could use the server."""
    if any(name == b"origin" for name, _ in headers):
        raise Refusal(403, "Origin: web pages may not call this server; call the parser, or this server from a program")


def check_key(headers: Iterable[tuple[bytes, bytes]], digests: tuple[str, ...]) -> None:
    """Raises Refusal for who has none of the keys, in vLLM's words: no body is read and nothing is fetched for him."""
    said = next((value for name, value in headers if name == b"authorization"), b"").decode("latin-1")
    scheme, _, key = said.partition(" ")
    digest = hashlib.sha256(key.encode()).hexdigest()
    known = [hmac.compare_digest(digest, one) for one in digests]  # each, so that the time tells nothing
    if digests and not (scheme.lower() == "bearer" and any(known)):
        raise Refusal(401, "Unauthorized")


def check_model(asked: str | None, names: tuple[str, ...]) -> None:
    """Raises Refusal for a model that is not loaded, with what leads PaddleOCR's client to the one that is."""
    if asked is None or not names or asked in names:
        return
    version = VERSION.fullmatch(names[0])
    hint = f'; PaddleOCRVL asks for it with pipeline_version="v{version[1] or 1}"' if version else ""
    raise Refusal(404, f"model: {shown(asked)} is not served here; expected {' or '.join(names)}{hint}")


def check_image(document: dict[str, Any], family: str) -> None:
    """Raises Refusal for messages without an image, for which a model that reads documents would make up a text."""
    if document.get("messages") and family not in TALKS and not any(media_urls(document)):
        raise Refusal(400, "messages: no image; expected one, because this model reads images and answers nothing else")


def with_own_ids(scope: Message, document: dict[str, Any]) -> tuple[Message, bool]:
    """The scope in which no other request has this one's id, and whether the document had to change for it.

    vLLM 0.11.1 keeps what the tower made of an image under the request's id, so a second request with the same id would
    be answered from the first one's image, or end the engine. With a cache of inputs, a part's `uuid` is such a name.
    """
    end = f"-{secrets.token_hex(4)}"
    headers = [
        (name, value + end.encode() if name == b"x-request-id" else value) for name, value in scope.get("headers", ())
    ]
    changed = [part.pop("uuid", None) for _, part in parts(document)]
    if request_id := document.get("request_id"):
        document["request_id"] = request_id + end
    return {**scope, "headers": headers}, bool(request_id) or any(changed)


def pixels_of_request(document: dict[str, Any]) -> tuple[int, int]:
    """Pixels of all images of a checked request, by their headers, and of videos that are sent as frames; and how many
    videos are files, whose headers are not read. Raises Refusal."""
    found = files = 0
    for where, key, url in media_urls(document):
        try:
            if is_frames(url) and key == "video_url":
                found += sum(map(pixels_of, decode_frames_url(url)))
            elif key == "video_url":
                decode_data_url(url, key)
                files += 1
            else:
                found += pixels_of(decode_data_url(url))
        except ValueError as error:
            raise Refusal(400, f"{where}: {error}") from error
    return found, files


def replay(body: bytes, receive: Receive) -> Receive:
    """A ``receive`` that yields the body that was read, then what comes after it (a disconnect)."""
    pending = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return pending.pop() if pending else await receive()

    return again


async def answer(refusal: Refusal, send: Send) -> None:
    kinds = {
        403: "Forbidden",
        404: "NotFoundError",
        408: "RequestTimeout",
        413: "RequestEntityTooLarge",
        503: "ServiceUnavailable",
    }
    kind = kinds.get(refusal.status, "BadRequestError")
    error = {"message": str(refusal), "type": kind, "param": None, "code": refusal.status}
    content = json.dumps({"error": str(refusal) if refusal.status == 401 else error}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(content)).encode()),
        # The body may not have been read to its end.
        (b"connection", b"close"),
    ]
    if refusal.retry_after is not None:
        headers.append((b"retry-after", str(refusal.retry_after).encode()))
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": content})
