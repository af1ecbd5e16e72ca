# SPDX-License-Identifier: Apache-2.0
"""A case asked of a running VLM server."""

from __future__ import annotations

from selftest.server import Answer, Server
from served_weights.question import Question

from .cases import Case
from .media import png
from .prompts import Form


def answer(server: Server, case: Case, form: Form, max_new_tokens: int) -> Answer:
    """The server's greedy answer. Raises UsageError unless ``case.prompt`` has the chat's form, which the server
    builds."""
    # As PNG, so that the server has our pixels.
    images = [png(image) for image in case.images]
    question = Question(form.question(case.prompt, len(images)), case.min_pixels, case.max_pixels)
    return server.ask(images, question, max_new_tokens)
