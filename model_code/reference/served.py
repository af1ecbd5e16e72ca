# SPDX-License-Identifier: Apache-2.0
"""A case asked of a running VLM server."""

from __future__ import annotations

from selftest.server import Answer, Server
from tool_errors import UsageError

from . import pictures, prompts
from .cases import Case


def answer(server: Server, case: Case, max_new_tokens: int) -> Answer:
    """The server's greedy answer. Raises UsageError unless ``case.prompt`` has the chat's form, which the server
    builds."""
    # As PNG, so that the server has our pixels.
    images = [pictures.png(image) for image in case.images]
    return server.ask(images, question(case), max_new_tokens, case.min_pixels, case.max_pixels)


def question(case: Case) -> str:
    """The text behind the images of a case whose prompt is one user's turn. Raises UsageError for any other."""
    head = f"{prompts.BEGIN}User: {prompts.IMAGE * len(case.images)}"
    tail = next(filter(case.prompt.endswith, prompts.ANSWERS.values()), None)
    if tail is None or not case.prompt.startswith(head):
        raise UsageError(
            "--prompt: a served candidate takes images first, then text, in one turn; leave the image places out"
        )
    return case.prompt[len(head) : -len(tail)]
