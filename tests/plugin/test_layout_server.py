# SPDX-License-Identifier: Apache-2.0
"""The layout server without a model: what it makes one call of, what it refuses, what a failing device does.

tests/layout compares its results with Paddle's, tests/parser/layout has it beside a parser.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import threading
from collections.abc import Sequence
from dataclasses import replace
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from prometheus_client.parser import text_string_to_metric_families
from starlette.requests import Request

from layout_server import __main__ as server
from layout_server import device
from layout_server.app import LayoutService, make_app
from layout_server.batching import Batcher, DeviceFailed, Full
from layout_server.device import open_device
from layout_server.model import LayoutModel, Page, alike
from layout_server.plan import Recorder
from layout_server.settings import Settings
from layout_wire import MODEL_HEADER, PATH, BadMessage, pack, unpack
from paddle_program.program import UnknownProgram
from tests.support.paths import ROOT
from tests.support.wait import WAIT_S
from tool_errors import DeviceError, ServiceError, UsageError

SIDE = 4


def page(number: float = 1.0) -> Page:
    size = np.full((1, 2), number, np.float32)
    return {"image": np.zeros((1, 3, SIDE, SIDE), np.float32), "im_shape": size, "scale_factor": size}


class SimulatedModel:
    """Gives each page its own number back. It works while ``free`` is set, and fails where ``error`` is."""

    checksum = "a" * 64
    shapes = {name: value.shape for name, value in page().items()}
    most_pages = 4

    def __init__(self) -> None:
        self.free = threading.Event()
        self.free.set()
        self.calls: list[int] = []
        self.error: Exception | None = None

    def run(self, pages: Sequence[Page]) -> list[list[np.ndarray]]:
        self.calls.append(len(pages))
        self.free.wait()
        if self.error:
            raise self.error
        return [[one["im_shape"].copy(), np.ones(1, np.int32)] for one in pages]


def batcher(model: SimulatedModel, most_waiting: int = 8, wait_s: float = 0.0) -> Batcher:
    return Batcher(model.run, model.most_pages, wait_s, most_waiting, lambda pages: None)


async def until(condition: Any) -> None:
    async with asyncio.timeout(WAIT_S):
        while not condition():
            await asyncio.sleep(0.001)


def test_what_came_while_the_device_worked_is_one_call():
    async def run() -> None:
        model = SimulatedModel()
        model.free.clear()
        pages = batcher(model)
        work = asyncio.create_task(pages.work())
        first = asyncio.create_task(pages.find(page(1)))
        await until(lambda: model.calls == [1])
        others = [asyncio.create_task(pages.find(page(number))) for number in range(2, 8)]
        await until(lambda: pages.waiting == 6)
        model.free.set()
        found = await asyncio.gather(first, *others)
        assert [results[0][0, 0] for results in found] == [1, 2, 3, 4, 5, 6, 7]
        assert model.calls == [1, 4, 2]
        work.cancel()

    asyncio.run(run())


def test_a_page_waits_for_others_but_not_for_ever():
    async def run() -> None:
        model = SimulatedModel()
        pages = batcher(model, wait_s=3600.0)
        work = asyncio.create_task(pages.work())
        await asyncio.gather(*(pages.find(page()) for _ in range(4)))
        assert model.calls == [4], "four fill a call, so nothing is waited for"
        work.cancel()
        pages = batcher(model, wait_s=0.01)
        work = asyncio.create_task(pages.work())
        await pages.find(page())
        assert model.calls == [4, 1]
        work.cancel()

    asyncio.run(run())


def test_a_page_whose_client_left_is_not_computed_and_a_full_queue_refuses():
    async def run() -> None:
        model = SimulatedModel()
        model.free.clear()
        pages = batcher(model, most_waiting=2)
        work = asyncio.create_task(pages.work())
        first = asyncio.create_task(pages.find(page(1)))
        await until(lambda: model.calls == [1])
        left, stays = (asyncio.create_task(pages.find(page(number))) for number in (2, 3))
        await until(lambda: pages.waiting == 2)
        with pytest.raises(Full):
            await pages.find(page(4))
        left.cancel()
        await until(lambda: pages.waiting == 1)
        model.free.set()
        await asyncio.gather(first, stays)
        assert model.calls == [1, 1]
        work.cancel()

    asyncio.run(run())


def test_a_request_ends_with_its_connection():
    incoming: list[dict[str, Any]] = [
        {"type": "http.request", "body": pack(page()), "more_body": False},
        {"type": "http.disconnect"},
    ]

    async def receive() -> dict[str, Any]:
        return incoming.pop(0)

    async def run() -> None:
        service = LayoutService(SimulatedModel(), Settings.from_environment({"HARDWARE": "cpu"}))  # type: ignore[arg-type]  # simulated
        headers = [(MODEL_HEADER.lower().encode(), SimulatedModel.checksum.encode())]
        async with asyncio.timeout(WAIT_S):  # nothing works on the page
            answer = await service.find(Request({"type": "http", "method": "POST", "headers": headers}, receive))
        assert answer.status_code == 400
        await until(lambda: service.batcher.waiting == 0)

    asyncio.run(run())


def test_a_device_that_fails_answers_everybody_and_ends_the_work():
    async def run() -> None:
        model = SimulatedModel()
        model.error = RuntimeError("simulated: the die is lost")
        model.free.clear()
        pages = batcher(model)
        work = asyncio.create_task(pages.work())
        asked = [asyncio.create_task(pages.find(page())) for _ in range(6)]
        await until(lambda: model.calls)
        model.free.set()
        async with asyncio.timeout(60):  # who is not answered would wait for ever
            found = await asyncio.gather(*asked, return_exceptions=True)
        assert [type(error) for error in found] == [DeviceFailed] * 6
        await work
        with pytest.raises(DeviceFailed):
            await pages.find(page())

    asyncio.run(run())


def test_a_device_that_hangs_has_failed():
    async def run() -> None:
        model = SimulatedModel()
        model.free.clear()
        pages = Batcher(model.run, 1, 0.0, 8, lambda count: None, longest_s=0.05)
        work = asyncio.create_task(pages.work())
        try:
            with pytest.raises(DeviceFailed):
                await pages.find(page())
            await work
        finally:
            model.free.set()

    asyncio.run(run())


async def exchange(service: LayoutService, body: bytes, path: str = PATH, **headers: str) -> tuple[int, bytes]:
    """One request to the ASGI application while its batcher works."""
    sent: list[dict[str, Any]] = []
    words = [(name.replace("_", "-").lower().encode(), value.encode()) for name, value in headers.items()]
    method = "POST" if path == PATH else "GET"
    scope = {"type": "http", "method": method, "path": path, "headers": words, "query_string": b"", "root_path": ""}
    parts = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> dict[str, Any]:
        if parts:
            return parts.pop()
        return await asyncio.Future()

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    work = asyncio.create_task(service.batcher.work())
    await make_app(service)(scope, receive, send)  # type: ignore[arg-type]  # plain dictionaries
    work.cancel()
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent[1:])


def ask(
    body: bytes, model: SimulatedModel | None = None, path: str = PATH, wanted: str = SimulatedModel.checksum
) -> tuple[int, bytes]:
    async def run() -> tuple[int, bytes]:
        service = LayoutService(model or SimulatedModel(), Settings.from_environment({"LAYOUT_QUEUE": "1"}))  # type: ignore[arg-type]  # simulated
        return await exchange(service, body, path, **{MODEL_HEADER: wanted})

    return asyncio.run(run())


def test_a_page_is_answered():
    status, body = ask(pack({**page(5), "image": np.zeros((1, 3, SIDE, SIDE), np.uint8)}))
    assert status == 200
    assert unpack(body)["0"].tolist() == [[5, 5]]


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({}, "arrays []; expected ['im_shape', 'image', 'scale_factor']"),
        ({"image": np.zeros((1, 3, 5, 5), np.float32)}, "image is float32 [1, 3, 5, 5]; expected float32 [1, 3, 4, 4]"),
        ({"im_shape": np.ones((1, 2), np.int32)}, "im_shape is int32 [1, 2]; expected float32 [1, 2]"),
        ({"image": np.full((1, 3, SIDE, SIDE), np.nan, np.float32)}, "image has a value that no page has"),
        ({"scale_factor": np.zeros((1, 2), np.float32)}, "scale_factor has a value that no page has"),
    ],
)
def test_what_is_no_page_is_refused(arrays, words):
    status, body = ask(pack({**page(), **arrays} if arrays else {}))
    assert status == 400 and words in json.loads(body)["error"]


@pytest.mark.parametrize("body", [b"", b"{}\n", b"[[1]]\n", b"x" * 5000, b'[["a", "float32", [3]]]\n1234', b"[]\n1"])
def test_bytes_that_are_no_message_are_refused(body):
    with pytest.raises(BadMessage):
        unpack(body)
    assert ask(body)[0] == 400


def test_another_model_is_409_and_a_large_body_413():
    status, body = ask(pack(page()), wanted="b" * 64)
    assert status == 409 and "a" * 64 in json.loads(body)["error"]
    assert ask(b"x" * (17 << 20))[0] == 413


def test_a_failed_device_is_500_and_no_longer_healthy():
    model = SimulatedModel()
    model.error = RuntimeError("simulated")
    assert ask(pack(page()), model)[0] == 500
    assert ask(b"", path="/health")[0] == 200
    assert b'layout_device{device="cpu"} 1.0' in ask(b"", path="/metrics")[1]


def test_health_says_that_the_device_failed():
    service = LayoutService(SimulatedModel(), Settings.from_environment({"HARDWARE": "cpu"}))  # type: ignore[arg-type]  # simulated
    healthy = asyncio.run(service.health(Request({"type": "http"})))
    assert json.loads(bytes(healthy.body)) == {"model": "a" * 64, "device": "cpu", "batch": 4}
    service.batcher.failed = RuntimeError("simulated")
    assert asyncio.run(service.health(Request({"type": "http"}))).status_code == 503


def test_the_dashboard_and_the_status_ask_for_metrics_that_exist():
    panels = json.loads((ROOT / "config/grafana/docparser.json").read_text())["panels"]
    queries = " ".join(target["expr"] for panel in panels for target in panel.get("targets", ()))
    asked = set(re.findall(r"\blayout_\w+", queries))
    page = ask(b"", path="/metrics")[1].decode()
    names = {sample.name for family in text_string_to_metric_families(page) for sample in family.samples}
    # A counter with labels has no samples before its first one.
    assert len(asked) >= 6 and asked <= names | {"layout_refused_total"} and "# TYPE layout_refused_total" in page
    waiting = (ROOT / "operations/container/layout.py").read_text()
    assert "^layout_waiting_pages " in waiting and "\nlayout_waiting_pages 0.0\n" in page


@pytest.mark.parametrize("element", ["int32", "int64"])
def test_masks_travel_as_bits_and_come_back_the_same(element: str):
    masks = np.random.default_rng(1).integers(0, 2, (3, 5, 7)).astype(element)
    message = pack({"0": np.ones((3, 7), np.float32), "2": masks, "3": masks[:0], "4": masks + 1})
    found = unpack(message, masks=True)
    assert found["2"].dtype == found["3"].dtype == masks.dtype and np.array_equal(found["2"], masks)
    assert found["3"].shape == (0, 5, 7) and np.array_equal(found["4"], masks + 1)
    assert len(message) < 3 * 7 * 4 + -(-masks.size // 8) + masks.nbytes + 200, "the last ones are no masks"
    with pytest.raises(BadMessage, match=f"2 is {element} bits"):
        unpack(message)


def test_a_few_pixels_of_masks_may_round_otherwise():
    mask = np.zeros((2, 200, 200), np.int32)
    other = mask.copy()
    other[0, 3, :80] = 1
    assert alike(mask, other)
    other[1, 3, :] = 1
    assert not alike(mask, other)


@pytest.mark.parametrize(
    ("name", "value"),
    [("DEVICE", "gpu"), ("PORT", "0"), ("BATCH", "1.5"), ("WAIT_MS", "-1"), ("QUEUE", "many"), ("MEMORY_SHARE", "2")],
)
def test_wrong_settings_are_named(name, value):
    with pytest.raises(UsageError, match=f"LAYOUT_{name} is '{value}'; expected "):
        Settings.from_environment({f"LAYOUT_{name}": value})


def test_settings_are_read_with_their_defaults_and_units():
    given = Settings.from_environment({"HARDWARE": "cpu"})
    found = (given.device, given.host, given.port, given.most_pages, given.wait_s, given.most_waiting)
    assert found == ("cpu", "127.0.0.1", 8001, 4, 0.004, 128)
    env = {"DEVICE": "npu:3", "HOST": "0.0.0.0", "PORT": "9001", "BATCH": "16", "WAIT_MS": "250", "QUEUE": "5"}
    env["MEMORY_SHARE"] = "0.25"
    assert Settings.from_environment({f"LAYOUT_{name}": value for name, value in env.items()}) == replace(
        given,
        weights=Settings.from_environment({}).weights,
        device="npu:3",
        host="0.0.0.0",
        port=9001,
        most_pages=16,
        wait_s=0.25,
        most_waiting=5,
        memory_share=0.25,
    )


def test_on_a_cpu_it_takes_one_thread(monkeypatch: pytest.MonkeyPatch):
    threads: list[int] = []
    monkeypatch.setattr(torch, "set_num_threads", threads.append)
    assert open_device("cpu", 0.1).type == "cpu" and threads == [1]


@pytest.mark.parametrize(("name", "index"), [("npu", 0), ("npu:0", 0), ("npu:3", 3), ("npu:4", None)])
def test_a_die_is_opened_with_its_share_and_in_float32(monkeypatch: pytest.MonkeyPatch, name: str, index: int | None):
    """torch_npu is simulated: a node of four dies."""
    done: dict[str, Any] = {}
    npu = SimpleNamespace(
        device_count=lambda: 4,
        set_device=lambda device: done.update(device=device),
        set_per_process_memory_fraction=lambda share, device: done.update(share=(share, device)),
        set_compile_mode=lambda jit_compile: done.update(jit_compile=jit_compile),
        conv=SimpleNamespace(allow_hf32=True),
        matmul=SimpleNamespace(allow_hf32=True),
    )
    monkeypatch.setitem(sys.modules, "torch_npu", ModuleType("torch_npu"))
    monkeypatch.setattr(torch, "npu", npu, raising=False)
    monkeypatch.setattr(device.torch, "device", lambda *words: words)
    monkeypatch.setattr(torch, "set_num_threads", lambda threads: None)
    if index is None:
        with pytest.raises(DeviceError, match="LAYOUT_DEVICE is npu:4, but torch sees 4 dies"):
            open_device(name, 0.1)
        return
    die: Any = ("npu", index)
    assert open_device(name, 0.1) == die
    assert done == {"device": die, "share": (0.1, die), "jit_compile": False}
    assert not npu.conv.allow_hf32 and not npu.matmul.allow_hf32


class SimulatedPlan:
    """Of each page its own number, as many times as that says; notes how many pages a call has. ``mixes``: each page
    gets the number of the first."""

    def __init__(self, mixes: bool = False) -> None:
        self.calls, self.mixes = list[int](), mixes

    def __call__(self, inputs: dict[str, torch.Tensor]) -> list[torch.Tensor]:
        numbers = inputs["im_shape"][:, 0]
        self.calls.append(len(numbers))
        numbers = numbers[:1].expand(len(numbers)) if self.mixes else numbers
        rows = torch.repeat_interleave(numbers, numbers.int())
        return [torch.stack([rows, rows], 1), numbers.int(), rows]


def model_of(plans: dict[int, Any]) -> LayoutModel:
    """Without a program: ``plans`` stand for what it becomes for so many pages."""
    model = object.__new__(LayoutModel)
    model._device, model.shapes = torch.device("cpu"), SimulatedModel.shapes

    def plan(pages: int) -> Any:
        if pages not in plans:
            raise UnknownProgram(f"not for {pages} pages")
        return plans[pages]

    model._plan = plan  # type: ignore[method-assign]  # simulated
    model._plans = {1: plan(1)}
    return model


def test_pages_of_one_call_are_what_each_is_alone():
    """The largest calls that there are, and rows that are cut apart by their counts."""
    plan: Any = SimulatedPlan()
    model = model_of(dict.fromkeys((1, 2, 4), plan))
    model._plans = dict.fromkeys((1, 2, 4), plan)
    numbers = (3, 0, 2, 1, 0, 5, 1)
    found = model.run([page(number) for number in numbers])
    assert plan.calls == [4, 2, 1]
    assert [results[1].tolist() for results in found] == [[number] for number in numbers]
    for number, (rows, _, more) in zip(numbers, found, strict=True):
        assert rows.tolist() == [[number, number]] * number and more.tolist() == [number] * number


@pytest.mark.parametrize(
    ("plans", "most", "taken"),
    [
        ({1: False, 2: False, 4: False, 8: False}, 8, 8),
        ({1: False, 2: False, 4: False, 8: False}, 7, 4),
        ({1: False, 2: False, 4: True, 8: False}, 8, 2),
        ({1: False, 2: True}, 8, 1),
        ({1: False}, 8, 1),
        ({1: False, 2: False}, 1, 1),
    ],
)
def test_a_program_that_mixes_pages_gets_fewer_at_once(
    monkeypatch: pytest.MonkeyPatch, plans: dict[int, bool], most: int, taken: int
):
    monkeypatch.setattr("layout_server.model.drawn_page", lambda shapes, seed: page(seed + 1.0))
    model = model_of({count: SimulatedPlan(mixes) for count, mixes in plans.items()})
    model._add_batches(most)
    assert model.most_pages == taken


@pytest.mark.parametrize("error", [torch.OutOfMemoryError, RuntimeError])
def test_pages_for_which_memory_lacks_are_taken_fewer_at_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: type[RuntimeError]
):
    """A server that ended for it would end at each start."""

    class TooLarge(SimulatedPlan):
        def __call__(self, inputs: dict[str, torch.Tensor]) -> list[torch.Tensor]:
            raise error("NPU out of memory. Tried to allocate 2.00 GiB\nand a trace")

    emptied: list[torch.device] = []
    monkeypatch.setattr("layout_server.model.drawn_page", lambda shapes, seed: page(seed + 1.0))
    model = model_of({1: SimulatedPlan(), 2: SimulatedPlan(), 4: TooLarge()})
    found = SimpleNamespace(empty_cache=lambda: emptied.append(model._device))
    monkeypatch.setattr(torch, "get_device_module", lambda device: found)
    model._add_batches(2)
    assert not emptied
    model._add_batches(8)
    assert model.most_pages == 2 and emptied == [model._device] and len(model.run([page()] * 5)) == 5
    said = "the layout model takes 2 pages at once, not 4: NPU out of memory. Tried to allocate 2.00 GiB"
    assert [record.getMessage() for record in caplog.records] == [said]


@pytest.mark.parametrize(("fails", "listens", "status"), [(False, True, 0), (True, True, 1), (False, False, 3)])
def test_the_process_ends_as_supervisord_needs_it(
    monkeypatch: pytest.MonkeyPatch, fails: bool, listens: bool, status: int
):
    """A device that failed ends it at once, whatever its thread does."""
    model, made, ended = SimulatedModel(), list[Any](), list[int]()

    class Server:
        started = True

        def __init__(self, config: Any) -> None:
            made.append(config)

        def run(self) -> None:
            if not listens:
                raise SystemExit(1)

    class Service(LayoutService):
        def __init__(self, *words: Any) -> None:
            super().__init__(*words)
            self.batcher.failed = RuntimeError("a device") if fails else None

    monkeypatch.setattr(server, "find_layout", lambda weights: SimpleNamespace(path=ROOT))
    monkeypatch.setattr(server, "verify_layout", lambda path: None)
    monkeypatch.setattr(server, "LayoutModel", lambda path, device, most: model)
    monkeypatch.setattr(server, "LayoutService", Service)
    monkeypatch.setattr(server.uvicorn, "Server", Server)
    monkeypatch.setattr(server.os, "_exit", ended.append)
    monkeypatch.setattr(server.logging, "shutdown", lambda: None)
    monkeypatch.setattr(server.uvicorn, "Config", lambda app, **options: SimpleNamespace(**options))
    for name, value in {"HOST": "0.0.0.0", "PORT": "9001"}.items():
        monkeypatch.setenv(f"LAYOUT_{name}", value)
    if not listens:
        with pytest.raises(ServiceError, match=r"cannot listen on LAYOUT_HOST=0\.0\.0\.0, LAYOUT_PORT=9001"):
            server.main()
        return
    assert server.main() == 0 and ended == [status] * fails
    assert (made[0].host, made[0].port) == ("0.0.0.0", 9001)


def test_without_torch_npu_the_cure_is_named():
    with pytest.raises(DeviceError, match="LAYOUT_DEVICE is npu, but torch_npu cannot be loaded"):
        open_device("npu", 0.1)


def test_an_operator_that_writes_in_place_is_no_step_of_a_plan():
    recorder = Recorder()
    value = torch.ones(3)
    recorder.mark(value)
    with pytest.raises(UnknownProgram, match=r"operator aten\.relu_\.default writes to its input"), recorder:
        torch.relu_(value)
