# SPDX-License-Identifier: Apache-2.0
"""The simulated VLM server that computes: transformers behind the part of vLLM's API that the tools ask.

Strict as the real one: one user's turn of pictures and a text, bounds of pixels, the most probable tokens only where a
request turns the penalty of models.yaml off.
"""

from __future__ import annotations

import base64
import io
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from reference.cases import Case
from reference.device import Device
from reference.model import ReferenceModel
from reference.prompts import Form
from tests.support.simulated_vlm import SimulatedVlm


class ReferenceServer(SimulatedVlm):
    """``asked`` are the questions. ``off_by`` (nats) is added to every log-probability."""

    def __init__(self, weights: Path, served_name: str) -> None:
        self._form, self._model = Form.of(weights), ReferenceModel(weights, Device("cpu"))
        self.asked: list[str] = []
        self.off_by = 0.0
        super().__init__()
        self.model, self.root = served_name, str(weights)

    def complete(self, request: dict) -> tuple[int, dict]:
        (message,) = request["messages"]
        *pictures, text = message["content"]
        if text["type"] != "text" or any(part["type"] != "image_url" for part in pictures):
            return 400, {"error": {"message": "expected pictures and one text behind them"}}
        if request["temperature"] or request.get("repetition_penalty") != 1.0:
            return 400, {"error": {"message": "these are not the most probable tokens"}}
        self.asked.append(text["text"])
        images = [
            np.asarray(Image.open(io.BytesIO(base64.b64decode(part["image_url"]["url"].partition(",")[2]))))
            for part in pictures
        ]
        prompt = self._form.complete(self._form.image * len(images) + text["text"])
        case = Case(prompt, images, **request["mm_processor_kwargs"])
        case.answer = self._model.generate(case, request["max_tokens"])
        result, count = self._model.logits(case), len(case.answer)
        top = torch.log_softmax(result["logits"], -1)[-count - 1 : -1].topk(request["top_logprobs"])
        content = [
            {
                "top_logprobs": [
                    {"token": f"token_id:{token}", "logprob": value + self.off_by}
                    for token, value in zip(tokens, values, strict=True)
                ]
            }
            for tokens, values in zip(top.indices.tolist(), top.values.tolist(), strict=True)
        ]
        choice = {"message": {"content": self._model.text(case.answer)}, "token_ids": case.answer}
        ids = result["input_ids"][:-count].tolist()
        return 200, {"prompt_token_ids": ids, "choices": [{**choice, "logprobs": {"content": content}}]}
