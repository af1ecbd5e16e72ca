# SPDX-License-Identifier: Apache-2.0
"""The simulated server of a VLM that reads whole pages. Strict: it refuses what is not one picture within the server's
bound, sent first, with one of the family's own prompts behind it."""

from __future__ import annotations

from collections.abc import Mapping

from tests.support.simulated_vlm import SimulatedVlm, image_of

Answer = str | tuple[int, str]


class WholePageVlm(SimulatedVlm):
    """`prompts`: the family's, by task. `says`: the answer for a task; a test may set it. `tasks`: those that were
    asked for, with the sizes of the pictures."""

    def __init__(self, model: str, prompts: Mapping[str, str], most_pixels: int, context: int) -> None:
        self._prompts = {text: task for task, text in prompts.items()}
        self._served, self._most_pixels, self._context = model, most_pixels, context
        self.tasks: list[tuple[str, tuple[int, int]]] = []
        super().__init__()

    def reset(self) -> None:
        super().reset()
        self.tasks.clear()
        self.says: dict[str, Answer] = {}
        self.model, self.root, self.answer = self._served, f"/models/{self._served}", self._read

    def _read(self, request: dict, number: int) -> Answer:
        if [message["role"] for message in request["messages"]] != ["user"]:
            return 400, "expected one message, the user's"
        if [part["type"] for part in request["messages"][0]["content"]] != ["image_url", "text"]:
            return 400, "expected one picture and one text behind it"
        task = self._prompts.get(request["messages"][0]["content"][1]["text"])
        if task is None:
            return 400, "these words are none of this model's tasks"
        size = image_of(request).size
        if max(size) > 200 * min(size):
            return 400, "absolute aspect ratio must be smaller than 200"
        bounds = request.get("mm_processor_kwargs", {})
        if size[0] * size[1] > self._most_pixels or bounds.get("min_pixels", 0) > self._most_pixels:
            return 400, f"more pixels than {self._most_pixels}"
        if request["max_tokens"] + self._most_pixels // 784 > self._context:
            return 400, "max_tokens is too large for the context"
        self.tasks.append((task, size))
        return self.says.get(task, f"{task} of {size[0]} x {size[1]}")
