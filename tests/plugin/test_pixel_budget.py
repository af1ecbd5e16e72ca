# SPDX-License-Identifier: Apache-2.0
"""Pixels of all requests in flight have a bound: who waits, who goes first, and when room is free again."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from env_values import WrongValue
from tests.plugin.chat import body, image_part, text_part
from tests.plugin.clips import clip
from tests.plugin.gate import BOMB, SIDE, Exchange, Vllm
from tests.support.wait import WAIT_S
from vlm_models import middleware, parts
from vlm_models.media import DataUrlConnector
from vlm_models.middleware import ChatOnly
from vlm_models.pixels import PixelBudget
from vlm_models.video.decode import Clip
from vlm_models.vllm_names import APPLIES, PROCESSES, MediaProcessor


def budget_of(gate: ChatOnly, pixels: int) -> PixelBudget:
    gate.pixels = PixelBudget(pixels)
    return gate.pixels


def test_twelve_bombs_are_decoded_within_the_budget():
    """As vLLM does it: decoded by our connector, all images of a request together, then freed."""
    connector, images_alive, most = DataUrlConnector(), 0, 0

    async def run() -> None:
        async def work(document: dict[str, Any]) -> None:
            nonlocal images_alive, most
            urls = [url for _, _, url in parts.media_urls(document)]
            images = await asyncio.gather(*map(connector.fetch_image_async, urls))
            images_alive += len(images)
            most = max(most, images_alive)
            await asyncio.sleep(0.001)
            images_alive -= len(images)

        gate = ChatOnly(Vllm(work))
        budget = budget_of(gate, 3 * SIDE * SIDE)
        sent = [json.dumps(body(*[image_part(BOMB)] * count)).encode() for count in (1, 2, 3, 1, 2, 3)]
        done = await asyncio.gather(*(Exchange(gate, one).run() for one in sent))
        assert [exchange.status for exchange in done] == [200] * 6
        assert most == 3 and budget.used == 0

    asyncio.run(asyncio.wait_for(run(), WAIT_S))


class Vllms:
    """vLLM's processor with prefix caching and without a cache of inputs: it hashes the pixels last."""

    def apply(self, *words: Any) -> Any:
        asked = APPLIES.bind(self, *words).arguments
        given = asked["inputs"].mm_data_items if "inputs" in asked else asked["mm_data"]
        images, clips = given.get("image", ()), [clip for clip, _ in given.get("video", ())]
        media = {"images": images, "videos": clips}
        processor: Any = self
        features = processor._call_hf_processor(
            *(["", media, {}, {}] if "prompt" in PROCESSES.parameters else [media, {}])
        )
        assert all(image.tobytes() for image in images) and all(clip.any() for clip in clips)
        return features


class Processor(MediaProcessor, Vllms):
    """Makes features of images and videos, as the families do."""

    info = SimpleNamespace(
        get_tokenizer=lambda: lambda prompt, **_: {},
        ctx=SimpleNamespace(model_config=SimpleNamespace(dtype=torch.bfloat16)),
    )

    def media_features(self, media: Mapping[str, Any], options: Mapping[str, Any]) -> Mapping[str, Any]:
        sizes = torch.tensor([item.size for items in media.values() for item in items])
        return {"values": torch.ones(2), "sizes": sizes}

    @classmethod
    async def features(cls, **media: list[Any]) -> list[Any]:
        words = ("", media, {}) if "mm_data" in APPLIES.parameters else (SimpleNamespace(mm_data_items=media), None)
        made = await asyncio.to_thread(cls().apply, *words)
        assert made["values"].dtype == torch.bfloat16, "the model's, as vLLM's own method makes them"
        return made["sizes"].tolist()  # whole numbers stay


def test_room_is_free_when_there_are_patches_long_before_the_answer():
    """vLLM 0.11.1 holds the images until an answer that is not streamed is complete."""

    async def run() -> None:
        decoded, end = asyncio.Event(), asyncio.Event()

        async def work(document: dict[str, Any]) -> None:
            ((_, _, url),) = parts.media_urls(document)
            image = await DataUrlConnector().fetch_image_async(url)
            assert budget.used == image.width * image.height
            assert await Processor.features(image=[image]) == [list(image.size)]
            decoded.set()
            await end.wait()

        gate = ChatOnly(Vllm(work))
        budget = budget_of(gate, SIDE * SIDE)
        task = asyncio.create_task(Exchange(gate, json.dumps(body(image_part(BOMB))).encode()).run())
        await decoded.wait()
        room = await budget.take(SIDE * SIDE, WAIT_S)  # while the first request is still being answered
        room.close()
        end.set()
        assert (await task).status == 200 and budget.used == 0

    asyncio.run(asyncio.wait_for(run(), WAIT_S))


@pytest.mark.skipif("mm_data" not in APPLIES.parameters, reason="later versions hand on lists of items")
def test_an_image_that_a_program_gives_to_vllm_itself_stays_its_own():
    """By `LLM.generate`: one image instead of a list, none, or an array; vLLM takes them all."""

    class Made:
        def apply(self, *_: Any) -> str:
            return "made"

    class Program(MediaProcessor, Made):
        pass

    image = Image.new("RGB", (8, 8), "white")
    for given in (image, [image], None, np.asarray(image), [np.asarray(image)]):
        assert Program().apply("", {"image": given, "video": None}, {}) == "made"
    assert image.getpixel((0, 0)) == (255, 255, 255)


def video_part(file: bytes) -> dict[str, Any]:
    return {"type": "video_url", "video_url": {"url": f"data:video/mp4;base64,{base64.b64encode(file).decode()}"}}


def test_a_video_holds_room_for_what_it_has_and_for_its_features_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """While it is decoded, for what it may have. Its memory goes with its room, whoever holds the frames on."""
    monkeypatch.setenv("VLM_VIDEO_MEGAPIXELS", "1.5")
    pixels, held = 4 * 320 * 64, list[Clip]()

    async def run() -> None:
        async def work(document: dict[str, Any]) -> None:
            ((_, _, url),) = parts.media_urls(document)
            assert budget.used == 1_500_000
            frames, _ = await DataUrlConnector({"video": {}}).fetch_video_async(url)
            assert budget.used == pixels and frames.any()
            held.append(frames)
            assert await Processor.features(video=[(frames, {})]) == [3 * pixels]
            await asyncio.sleep(0)
            assert budget.used == 0 and not frames.any()

        gate = ChatOnly(Vllm(work))
        budget = budget_of(gate, 2_000_000)
        sent = json.dumps(body(video_part(clip(tmp_path)))).encode()
        assert (await Exchange(gate, sent).run()).status == 200 and budget.used == 0

    asyncio.run(asyncio.wait_for(run(), WAIT_S))
    assert held


def test_a_video_may_have_what_fits_into_the_operators_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """VLM_MEGAPIXELS_IN_FLIGHT below what a video may have gives large ones fewer frames."""
    pixels, counts = 4 * 320 * 64, list[int]()

    async def run() -> None:
        async def work(document: dict[str, Any]) -> None:
            assert budget.used == budget.most
            url = next(url for _, key, url in parts.media_urls(document) if key == "video_url")
            counts.append(len((await DataUrlConnector({"video": {}}).fetch_video_async(url))[0]))

        gate = ChatOnly(Vllm(work))
        sent = json.dumps(body(image_part(BOMB), video_part(clip(tmp_path)))).encode()
        budget = budget_of(gate, SIDE * SIDE + pixels)
        assert (await Exchange(gate, sent).run()).status == 200
        budget = budget_of(gate, SIDE * SIDE + pixels - 1)
        assert (await Exchange(gate, sent).run()).status == 200
        budget = budget_of(gate, SIDE * SIDE + 1)
        with pytest.raises(ValueError, match=r"2 frames of 320 x 64 are more than 1e-06 million pixels"):
            await Exchange(gate, sent).run()
        assert budget.used == 0 and counts == [4, 2]

    asyncio.run(asyncio.wait_for(run(), WAIT_S))


def test_without_room_there_is_a_503_and_texts_do_not_wait(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("VLM_FAMILY", "qwen2_vl")  # a family that answers texts
    monkeypatch.setattr(middleware, "PATIENCE_S", 0.01)

    async def run() -> None:
        vllm = Vllm()
        gate = ChatOnly(vllm)
        budget = budget_of(gate, SIDE * SIDE)
        room = await budget.take(1, 60)
        sent = json.dumps(body(image_part(BOMB))).encode()
        refused = await Exchange(gate, sent).run()
        assert refused.status == 503 and refused.headers[b"retry-after"] == b"5" and not vllm.arrived
        assert (await Exchange(gate, json.dumps(body(text_part())).encode()).run()).status == 200
        room.close()
        assert (await Exchange(gate, sent).run()).status == 200
        too_many = await Exchange(gate, json.dumps(body(*[image_part(BOMB)] * 2)).encode()).run()
        assert too_many.status == 400 and "VLM_MEGAPIXELS_IN_FLIGHT" in too_many.message
        assert budget.used == 0

    asyncio.run(asyncio.wait_for(run(), WAIT_S))


def test_who_waits_gets_room_in_turn_and_who_leaves_holds_nobody_up():
    async def run() -> None:
        budget, order = PixelBudget(10), []

        async def take(name: str, pixels: int) -> None:
            room = await budget.take(pixels, 60)
            order.append(name)
            await asyncio.sleep(0)
            room.close()
            room.close()

        first = await budget.take(8, 60)
        large = asyncio.create_task(take("large", 10))
        others = [asyncio.create_task(take(name, 2)) for name in ("small", "smaller")]
        await asyncio.sleep(0)
        assert order == [], "the small ones do not overtake"
        large.cancel()
        await asyncio.gather(*others)
        assert order == ["small", "smaller"] and budget.used == 8
        first.close()
        await take("last", 10)
        assert budget.used == 0

    asyncio.run(asyncio.wait_for(run(), WAIT_S))


def test_the_operators_bound(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("VLM_MEGAPIXELS_IN_FLIGHT", "7")
    assert ChatOnly(Vllm()).pixels.most == 7_000_000
    for wrong in ("0", "-1", "1.5", "x", "1234567"):
        monkeypatch.setenv("VLM_MEGAPIXELS_IN_FLIGHT", wrong)
        with pytest.raises(WrongValue, match=f"VLM_MEGAPIXELS_IN_FLIGHT is '{wrong}'; expected a whole number"):
            ChatOnly(Vllm())
