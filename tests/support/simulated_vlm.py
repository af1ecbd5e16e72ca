# SPDX-License-Identifier: Apache-2.0
"""The simulated VLM server: the part of the OpenAI API that a parser uses, on a loopback port.

It reads nothing. Its answer names the prompt and a running number, so that tests can tell blocks apart, and every
request is kept for inspection. The real server is used in `tests/e2e`.

`python -m tests.support.simulated_vlm PORT FOLDER DELAY_S` runs it as a process, so that it can be killed. Files in
FOLDER then steer it: while there is a `hold` the answers for the pages that it names wait, or all, pages named in
`refuse` are refused (400), those in `fail` are failed on (500), what `say` holds is said instead of the prompt, and
`asked` gets a line for each page, which outlives the process.
"""

from __future__ import annotations

import base64
import contextlib
import io
import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.simulated_http import JsonHandler, SimulatedServer

if TYPE_CHECKING:
    from PIL import Image

MODEL = "PaddleOCR-VL-0.9B"


class SimulatedVlm(SimulatedServer):
    """Attributes that a test may set:

    - `answer(request, number)`: the text, or `(status, message)` for an error;
    - `delay_s` before each answer, `piece_delay_s` between pieces of a stream;
    - `model` and `root`: what `/v1/models` names; `healthy`: whether `/health` answers 200;
    - `key`: the one that requests of `/v1` need;
    - `metrics`: the text of `/metrics`, None for a server without that page;
    - `streams`: whether it can stream; `finish_reason` of each answer;
    - `sure(text)`: the log-probabilities of its tokens, which it says where it is asked; None for a server that says
      none. As in vLLM's answers there is an entry for each token with its text and bytes, the end's too.

    What it saw: `requests`, `request_ids`, `traceparents`, `in_flight`, `max_in_flight`, and `hang_ups`,
    the streams that their client left.
    """

    def __init__(self, port: int = 0) -> None:
        self.requests: list[dict] = []
        self.in_flight = 0
        self.reset()
        super().__init__(port)
        self.url = f"http://127.0.0.1:{self.port}/v1"

    def reset(self) -> None:
        """As new: forget what was seen and what a test has set."""
        self.requests.clear()
        self.max_in_flight = 0
        self.model = MODEL
        self.root = "/models/PaddleOCR-VL"
        self.healthy = True
        self.key = ""
        self.metrics: str | None = None
        self.delay_s = 0.0
        self.streams = True
        self.piece_delay_s = 0.0
        self.finish_reason = "stop"
        self.request_ids: list[str | None] = []
        self.traceparents: list[str | None] = []
        self.hang_ups = 0
        self.answer: Callable[[dict, int], str | tuple[int, str]] = default_answer
        self.sure: Callable[[str], list[float]] | None = surely

    @contextlib.contextmanager
    def holding(self) -> Iterator[Callable[[], None]]:
        """Requests are kept until the body calls what it is given, or ends."""
        released, answer = threading.Event(), self.answer

        def hold(request: dict, number: int):
            released.wait()
            return answer(request, number)

        self.answer = hold
        try:
            yield released.set
        finally:
            released.set()
            self.answer = answer

    def complete(self, request: dict) -> tuple[int, dict]:
        """Status and body of the answer to a chat completion."""
        with self.lock:
            self.requests.append(request)
            number = len(self.requests)
            self.in_flight += 1
            self.max_in_flight = max(self.max_in_flight, self.in_flight)
        try:
            time.sleep(self.delay_s)
            result = self.answer(request, number)
        finally:
            with self.lock:
                self.in_flight -= 1
        if isinstance(result, tuple):
            status, message = result
            return status, {"error": {"message": message, "type": "BadRequestError", "code": status}}
        return 200, self.completion(result, number, request.get("logprobs") is True)

    def completion(self, text: str, number: int, logprobs: bool = False) -> dict:
        choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": self.finish_reason}
        choice["logprobs"] = {"content": entries(text, self.sure(text))} if logprobs and self.sure else None
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        body = {"id": f"simulated-{number}", "object": "chat.completion", "created": 0, "model": self.model}
        return {**body, "choices": [choice], "usage": usage}

    def handler(self) -> type[JsonHandler]:
        vlm = self

        class Handler(JsonHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                if self.path == "/health":
                    self.reply(200 if vlm.healthy else 503, {})
                elif self.path == "/v1/models" and vlm.healthy:
                    served = {"id": vlm.model, "root": vlm.root, "object": "model"}
                    if not self.refuses(vlm.key):
                        self.reply(200, {"object": "list", "data": [served]})
                elif self.path == "/metrics" and vlm.metrics is not None:
                    self.text(200, vlm.metrics)
                else:
                    self.reply(503 if not vlm.healthy else 404, {"error": {"message": "no such page"}})

            def do_POST(self):
                body = self.body()
                if self.refuses(vlm.key):
                    return
                if self.path != "/v1/chat/completions":
                    self.reply(404, {"error": {"message": f"no such page: {self.path}"}})
                elif not body.get("messages"):
                    self.reply(400, {"error": {"message": "messages: at least one is needed"}})
                elif body.get("model") != vlm.model:
                    self.reply(404, {"error": {"message": f"The model `{body.get('model')}` does not exist."}})
                elif self.headers.get("X-Request-Id", "").startswith("ready-"):
                    self.reply(200, vlm.completion("", 0))  # the tiny request of readiness; no test counts it
                else:
                    vlm.request_ids.append(self.headers.get("X-Request-Id"))
                    vlm.traceparents.append(self.headers.get("traceparent"))
                    status, answer = vlm.complete(body)
                    if status == 200 and body.get("stream") and vlm.streams:
                        wanted = (body.get("stream_options") or {}).get("include_usage")
                        self.stream(answer["choices"][0], answer["usage"] if wanted else None)
                    else:
                        self.reply(status, answer)

            def stream(self, choice: dict, usage: dict | None):
                """The text in pieces, as server-sent events, until the client hangs up."""
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream; charset=utf-8")
                self.send_header("Connection", "close")
                self.end_headers()
                self.close_connection = True
                text, start = choice["message"]["content"] or "", 0
                # A hostile page of a million characters would else be mostly the making and reading of events.
                piece = 2000 if len(text) > 200_000 and not vlm.piece_delay_s else 20
                said = choice["logprobs"]["content"] if choice["logprobs"] else None
                try:
                    while start < len(text):
                        logprobs = (
                            None if said is None else {"content": said[start // TOKEN : (start + piece) // TOKEN]}
                        )
                        delta = {"content": text[start : start + piece]}
                        self.event({"delta": delta, "logprobs": logprobs, "finish_reason": None})
                        start += piece
                        if vlm.piece_delay_s:
                            time.sleep(vlm.piece_delay_s)
                    logprobs = None if said is None else {"content": said[start // TOKEN :]}
                    self.event({"delta": {}, "logprobs": logprobs, "finish_reason": choice["finish_reason"]})
                    if usage:
                        self.chunk({"choices": [], "usage": usage})
                    self.wfile.write(b"data: [DONE]\n\n")
                except OSError:
                    vlm.hang_ups += 1

            def event(self, choice: dict):
                self.chunk({"choices": [{"index": 0, **choice}]})

            def chunk(self, content: dict):
                body = {"object": "chat.completion.chunk", **content}
                self.wfile.write(b"data: " + json.dumps(body).encode() + b"\n\n")
                self.wfile.flush()

        return Handler


TOKEN = 4  # characters


def surely(text: str) -> list[float]:
    return [-0.01] * (len(text or "") // TOKEN + 1)


def entries(text: str, logs: list[float]) -> list[dict]:
    """vLLM's ``logprobs.content``; the last token is the end, which has no text."""
    tokens = [(text or "")[at : at + TOKEN] for at in range(0, TOKEN * len(logs), TOKEN)]
    return [
        {"token": token, "logprob": log, "bytes": list(token.encode("utf-8", "replace")), "top_logprobs": []}
        for token, log in zip(tokens, logs, strict=True)
    ]


def prompt_of(request: dict) -> str:
    return next(part["text"] for part in request["messages"][0]["content"] if part["type"] == "text")


def image_url(request: dict) -> str:
    return next(part["image_url"]["url"] for part in request["messages"][0]["content"] if part["type"] == "image_url")


def image_of(request: dict) -> Image.Image:
    from PIL import Image  # not every environment that runs this server has it

    return Image.open(io.BytesIO(base64.b64decode(image_url(request).split(",", 1)[1])))


def together(count: int, then: Callable[[dict, int], str] | None = None, seconds: float = 10.0):
    """An `answer`, of `then` or the default one, that holds every request back until `count` of them are here, so that
    no slow machine can part them; after `seconds` in vain it lets go of all, and `max_in_flight` tells how many they
    were."""
    all_here = threading.Barrier(count)

    def answer(request: dict, number: int) -> str:
        with contextlib.suppress(threading.BrokenBarrierError):
            all_here.wait(seconds)
        return (then or default_answer)(request, number)

    return answer


def default_answer(request: dict, number: int) -> str:
    if prompt_of(request) == "Table Recognition:":
        return "<fcel>Item<fcel>Price<nl><fcel>Pen<fcel>3<nl>"
    width, height = image_of(request).size
    return f"{prompt_of(request)} block of {width} x {height}"


def say_prompt(request: dict, number: int) -> str:
    """An `answer` to simulated page work, which sends no pictures."""
    return prompt_of(request)


def steered(folder: Path) -> Callable[[dict, int], str | tuple[int, str]]:
    """An `answer` that follows the files in `folder`; see the module's docstring."""

    def answer(request: dict, number: int) -> str | tuple[int, str]:
        prompt = prompt_of(request)
        if not prompt.startswith("job-"):
            return prompt
        with (folder / "asked").open("a") as file:
            file.write(prompt + "\n")
        page = prompt.rsplit(" ", 1)[1]
        while (held := named_in(folder / "hold")) is not None and (not held or page in held):
            time.sleep(0.02)
        say = folder / "say"
        for name, outcome in (("refuse", (400, "not this page")), ("fail", (500, "told to fail"))):
            if page in (named_in(folder / name) or []):
                return outcome
        return say.read_text() if say.exists() else prompt

    return answer


def named_in(path: Path) -> list[str] | None:
    """The pages; None where there is no such file."""
    with contextlib.suppress(FileNotFoundError):
        return path.read_text().split()
    return None


def main(port: int, folder: Path, delay_s: float) -> None:
    vlm = SimulatedVlm(port)
    vlm.delay_s, vlm.answer = delay_s, steered(folder)
    threading.Event().wait()


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3]))
