# SPDX-License-Identifier: Apache-2.0
"""Generated bad requests to a real VLM server: each a right answer or a 4xx, and the engine lives.

40 for each family here, more on demand: ``BAD_CALLS=300``.
"""

from __future__ import annotations

import collections
import json
import os
import time
from concurrent.futures import ThreadPoolExecutor

import httpx

from tests.fuzz.bad_chats import BadChat, chat

COUNT = int(os.environ.get("BAD_CALLS", "40"))
CLIENTS = 4
ANSWER_S = 300  # of the clock; only a request that never ends takes so long


def ask(base: str, wanted: BadChat) -> httpx.Response:
    """The answer. Who is told that the memory is full of others' images comes again, as the answer says."""
    while True:
        headers = {"content-type": "application/json"}
        url = f"{base}/v1/chat/completions"
        answer = httpx.post(url, content=wanted.body, headers=headers, timeout=ANSWER_S, trust_env=False)
        if answer.status_code != 503 or "retry-after" not in answer.headers:
            return answer
        time.sleep(float(answer.headers["retry-after"]))


def is_right(answer: httpx.Response) -> bool:
    """Whether an answer with status 200 holds what was asked for: texts, or a stream of them to its end."""
    if "event-stream" in answer.headers["content-type"]:
        events = [line.removeprefix("data: ") for line in answer.text.splitlines() if line.startswith("data: ")]
        return events[-1] == "[DONE]" and all("choices" in json.loads(event) for event in events[:-1])
    body = answer.json()
    return bool(body["choices"]) and body["usage"]["prompt_tokens"] > 0


def check_generated(base: str, model: str) -> None:
    """Send COUNT requests from several clients; prints how many of each kind got which status."""
    statuses: dict[str, collections.Counter[int]] = collections.defaultdict(collections.Counter)
    wrong: list[str] = []
    last = chat(9, model)
    assert last.good
    before = ask(base, last).json()["choices"][0]["message"]["content"]

    def send(number: int) -> None:
        wanted = chat(number, model)
        answer = ask(base, wanted)
        status = answer.status_code
        statuses[wanted.kind][status] += 1
        right = is_right(answer) if status == 200 else 400 <= status < 500 and not wanted.good
        if not right or "Traceback" in answer.text:
            wrong.append(f"request {number} ({wanted.kind}): {status} {answer.text[:300]}; {wanted.body[:300]!r}")

    began = time.monotonic()
    with ThreadPoolExecutor(CLIENTS) as threads:
        list(threads.map(send, range(COUNT)))
    print(f"{COUNT} requests in {time.monotonic() - began:.0f} s: { ({k: dict(c) for k, c in statuses.items()}) }")
    assert not wrong, "\n".join(wrong[:20])
    after = ask(base, last)
    assert after.status_code == 200 and after.json()["choices"][0]["message"]["content"] == before
    # The requests were what they should be: many refused, some read.
    found = sum(statuses.values(), collections.Counter())
    assert found[400] > COUNT / 4 and found[200] > COUNT / 5, found
