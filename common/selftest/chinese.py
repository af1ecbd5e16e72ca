# SPDX-License-Identifier: Apache-2.0
"""A block of Chinese with a known text, for published weights.

A fault can hit one script alone: with vLLM 0.23.0 and CANN 9.1 a Qwen3-VL read English well and Chinese not at all
(vllm-ascend #14663). The golden blocks are English, which the demo weights read.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from served_weights.manifest import is_demo
from served_weights.question import Question
from tool_errors import ServiceError

from .server import Server

PICTURE = Path(__file__).with_name("chinese.png")
LINES = (
    "下游河谷的水质监测已经进入第三年。",
    "全年在二十四口井取样一千余次，",
    "费用二十一万元，其中实验室工作约占一半。",
)
MAX_NEW_TOKENS = 128
# Least share of its characters. It is low, because the quality of published weights is not measured here; a die that
# computes nonsense finds few.
LEAST_FOUND = 0.5


def share_found(text: str) -> float:
    """The share of the characters that a text has, each as often as it should be. Signs and their forms do not
    count."""
    wanted, found = (Counter(filter(str.isalnum, some)) for some in ("".join(LINES), text))
    return sum((wanted & found).values()) / sum(wanted.values())


def read(server: Server, question: Question) -> str:
    """A server's reading, in one line; "" with the demo weights, which know no Chinese.

    Raises ServiceError where it is another text.
    """
    if is_demo(server.root):
        return ""
    text = " ".join(server.read(PICTURE.read_bytes(), question, MAX_NEW_TOKENS)[0].split())
    if share_found(text) < LEAST_FOUND:
        raise ServiceError(f"a block of Chinese was read as {text[:80]!r}; it shows {''.join(LINES)!r}")
    return text
