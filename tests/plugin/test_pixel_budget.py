# SPDX-License-Identifier: Apache-2.0
"""Pixels of all requests in flight have a bound: who waits, who goes first, and when room is free again."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from env_values import WrongValue
from tests.plugin.chat import body, image_part, text_part
from tests.plugin.gate import BOMB, SIDE, Exchange, Vllm
from tests.support.wait import WAIT_S
from vlm_models import middleware, parts
from vlm_models.media import DataUrlConnector
from vlm_models.middleware import ChatOnly
from vlm_models.pixels import PixelBudget
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
    """vLLM's processor with prefix caching and without a cache of inputs: it hashes the images last."""

    def apply(self, *words: Any) -> Any:
        asked = APPLIES.bind(self, *words).arguments
        images = (asked["inputs"].mm_data_items if "inputs" in asked else asked["mm_data"])["image"]
        processor: Any = self
        prompt = "prompt" in PROCESSES.parameters
        features = processor._call_hf_processor(
            *(["", {"images": images}, {}, {}] if prompt else [{"images": images}, {}])
        )
        assert all(image.tobytes() for image in images)
        return features


class Processor(MediaProcessor, Vllms):
    """Makes features of images, as the families do."""

    info = SimpleNamespace(
        get_tokenizer=lambda: lambda prompt, **_: {},
        ctx=SimpleNamespace(model_config=SimpleNamespace(dtype=torch.bfloat16)),
    )

    def media_features(self, media: Mapping[str, Any], options: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"values": torch.ones(2), "sizes": torch.tensor([image.size for image in media["images"]])}


def test_room_is_free_when_there_are_patches_long_before_the_answer():
    """vLLM 0.11.1 holds the images until an answer that is not streamed is complete."""

    async def run() -> None:
        decoded, end = asyncio.Event(), asyncio.Event()

        async def work(document: dict[str, Any]) -> None:
            ((_, _, url),) = parts.media_urls(document)
            image = await DataUrlConnector().fetch_image_async(url)
            assert budget.used == image.width * image.height
            media = {"image": [image]}
            words = ("", media, {}) if "mm_data" in APPLIES.parameters else (SimpleNamespace(mm_data_items=media), None)
            features = await asyncio.to_thread(Processor().apply, *words)
            assert features["sizes"].tolist() == [list(image.size)], "whole numbers stay"
            assert features["values"].dtype == torch.bfloat16, "the model's, as vLLM's own method makes them"
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
