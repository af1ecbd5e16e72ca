# SPDX-License-Identifier: Apache-2.0
"""The prompt format, pinned here: the server uses it whatever template the checkpoint brings."""

from __future__ import annotations

from pathlib import Path


def chat_template_path() -> Path:
    """File for ``vllm serve --chat-template``; goes with ``--chat-template-content-format openai``."""
    return Path(__file__).with_name("chat_template.jinja")
