# SPDX-License-Identifier: Apache-2.0
"""A document page by page: which tasks its pages become, and what their outcomes are told as. The scheduler answers at
once, with what a test says."""

from __future__ import annotations

import asyncio
import json
import pickle
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, cast

import pytest
from pydantic import ValidationError

from docparser.contract.request_parts import with_priority
from docparser.contract.schemas import ParseOptions, ParseRequest
from docparser.contract.tasks import Tasks
from docparser.documents.spool import Document
from docparser.errors import (
    BoundExceeded,
    DocumentTooSlow,
    InternalError,
    InvalidDocument,
    InvalidRequest,
    NotReady,
    ParserError,
    QuotaExceeded,
    StepTooSlow,
    UnreadableText,
    VlmUnavailable,
    WorkerLost,
)
from docparser.parsing.document_pages import GIVE_UP_AFTER, DocumentPages
from docparser.parsing.fair_queue import Flow
from docparser.parsing.metrics import Metrics
from docparser.parsing.result import EMPTY_ENTRY, PageOutcome
from docparser.parsing.scheduler import PageScheduler
from docparser.parsing.service import ParseService
from docparser.settings import Settings
from docparser.worker.messages import CountPages, JoinClientPages, JoinPages, ParsedPage, ParsePage, PartOfPage

PAGES = 3
NOTE: Any = {"block_id": 1, "kind": "refused", "message": "odd"}
MODELS: Any = {}
ASKED: dict[str, Any] = {"restructurePages": True, "mergeTables": False, "prettifyMarkdown": False, "visualize": True}


class Scheduler:
    """Also the metrics. ``page`` and ``join`` answer; an exception is raised."""

    def __init__(self) -> None:
        self.tasks: list[Any] = []
        self.flows: set[str] = set()
        self.given_up: list[tuple[Document, ParserError]] = []
        self.counted: list[tuple[str, dict[str, float]]] = []
        self.waits: list[tuple[float, bool]] = []
        self.count: int | Exception = PAGES
        self.page: Callable[[ParsePage], ParsedPage | Exception] = parsed
        self.join: Callable[[JoinPages], list[bytes] | Exception] = lambda task: [b'{"text":1}' for _ in task.frozen]
        self.sent: list[bytes] = []
        self.asked = 0  # whether the VLM has the demo's weights

    async def submit(self, task: Any, flow: Flow, on_part: Callable[[PartOfPage], None] | None = None) -> Any:
        await asyncio.sleep(0)
        self.tasks.append(task)
        self.flows.add(flow.client)
        if isinstance(task, ParsePage):
            if task.early and on_part is not None:
                on_part(PartOfPage(77, 5, f"part of {task.index}"))
            answer: Any = self.page(task)
        elif isinstance(task, CountPages):
            answer = self.count
        else:
            answer = self.join(task) if isinstance(task, JoinPages) else self.sent
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def give_up(self, document: Document, error: ParserError) -> None:
        self.given_up.append((document, error))

    def record(self, outcome: str, seconds: dict[str, float] | None = None) -> None:
        self.counted.append((outcome, seconds or {}))

    def waited(self, seconds: float, *, bulk: bool) -> None:
        self.waits.append((seconds, bulk))


def parsed(task: ParsePage, **fields: Any) -> ParsedPage:
    entry = json.dumps({"page": task.index}).encode()
    joined = {"page.json": str(task.index).encode()} if task.options.restructurePages else None
    usual: dict[str, Any] = {"block_notes": [], "seconds": {"queue": 0.25}, "frozen": joined, "tokens": (task.index, 1)}
    return ParsedPage(entry, 10 + task.index, 20, 1, **{**usual, **fields})


@pytest.fixture
def scheduler() -> Scheduler:
    return Scheduler()


@pytest.fixture
def document(tmp_path: Path) -> Document:
    (tmp_path / "a.pdf").write_bytes(b"a document")
    return Document(str(tmp_path / "a.pdf"), "PDF")


class Counted:
    """The scheduler's recorder in the place of the metrics."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.page, self.waited = scheduler.record, scheduler.waited


async def not_the_demo() -> bool:
    return False


def service(scheduler: Scheduler, **settings: Any) -> ParseService:
    own, tasks = Settings(text_layer="off", **settings), Tasks("the VLM", None)
    return ParseService(own, cast(PageScheduler, scheduler), cast(Metrics, Counted(scheduler)), tasks, not_the_demo)


def pages_of(
    scheduler: Scheduler, text_layer: str = "off", *, small_print: str = "off", demo: bool = False
) -> DocumentPages:
    async def knows() -> bool:
        scheduler.asked += 1
        return demo

    metrics = cast(Metrics, Counted(scheduler))
    return DocumentPages(cast(PageScheduler, scheduler), metrics, small_print, text_layer, knows)


def run(call: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(call, 60))


def answer_of(result: Any) -> dict[str, Any]:
    length, pieces = result.body("log", MODELS)
    text = b"".join(pieces)
    result.close()
    assert length == len(text)
    return json.loads(text)["result"]


class TestDocument:
    def test_the_pages_that_are_chosen_become_one_answer(self, scheduler: Scheduler, document: Document):
        told: dict[str, list[Any]] = {"counted": [], "arrived": [], "early": []}
        result = run(
            service(scheduler).parse(
                document,
                ParseOptions.model_validate({"foo": 1}),
                request_id="request",
                client="one",
                counted=told["counted"].append,
                arrived=told["arrived"].append,
                early=lambda *part: told["early"].append(part),
                select=lambda count: [0, count - 1],
            )
        )
        assert result.tokens == (2, 2) and result.numbers == [1, 3] and result.pages == 2
        answer = answer_of(result)
        assert answer["layoutParsingResults"] == [{"page": 0}, {"page": 2}]
        assert [page["width"] for page in answer["dataInfo"]["pages"]] == [10, 12]
        assert answer["docparser"]["notes"] == ["foo: no such option here, it has no effect."]
        assert told["counted"] == [2] and sorted(outcome.index for outcome in told["arrived"]) == [0, 2]
        assert sorted(told["early"]) == [(0, 5, "part of 0"), (2, 5, "part of 2")]
        tasks = [task for task in scheduler.tasks if isinstance(task, ParsePage)]
        assert {(task.document, task.request_id, task.early) for task in tasks} == {(document, "request", True)}
        assert scheduler.flows == {"one"}

    def test_a_page_that_failed_leaves_its_place_empty(self, scheduler: Scheduler, document: Document):
        scheduler.page = lambda task: InvalidDocument("odd") if task.index == 1 else parsed(task, block_notes=[NOTE])
        answer = answer_of(run(service(scheduler).parse(document, ParseOptions())))
        assert answer["layoutParsingResults"] == [{"page": 0}, json.loads(EMPTY_ENTRY), {"page": 2}]
        error = {"kind": "invalid", "message": "odd"}
        assert answer["docparser"]["pages"] == [
            {"page": 1, "blocks": [NOTE]},
            {"page": 2, "error": error},
            {"page": 3, "blocks": [NOTE]},
        ]
        assert sorted(outcome for outcome, _ in scheduler.counted) == ["failed", "partial", "partial"]

    @pytest.mark.parametrize("visualize", [False, True])
    def test_the_settings_say_what_options_leave_open(self, scheduler: Scheduler, document: Document, visualize: bool):
        run(service(scheduler, visualize=visualize).parse(document, ParseOptions())).close()
        run(service(scheduler, visualize=visualize).page(document, 0, ParseOptions(), Flow()))
        assert {task.options.visualize for task in scheduler.tasks[1:]} == {visualize}

    def test_a_worker_is_told_the_options_alone(self, scheduler: Scheduler, document: Document):
        body = ParseRequest(file="all of it", logId="a", restructurePages=True, places="words")
        run(service(scheduler).parse(document, body)).close()
        told = [task.options for task in scheduler.tasks[1:]]
        assert len(told) == PAGES + 1 and {type(options) for options in told} == {ParseOptions}
        expected = body.model_dump(include=set(ParseOptions.model_fields)) | {"visualize": Settings().visualize}
        assert [options.model_dump() for options in told] == [expected | {"textLayer": "off"}] * PAGES + [expected]
        assert pickle.loads(pickle.dumps(told[0])) == told[0]

    @pytest.mark.parametrize("fails", ["count", "select", "counted", "page"])
    def test_nothing_is_left_of_a_document_that_fails(
        self, scheduler: Scheduler, document: Document, fails: str, monkeypatch: pytest.MonkeyPatch
    ):
        closed: list[object] = []
        monkeypatch.setattr("docparser.parsing.service.EntryStore.close", lambda store: closed.append(store))
        error = QuotaExceeded("spent")

        def refuse(*_: object) -> Any:
            raise error

        if fails == "count":
            scheduler.count = error
        if fails == "page":
            scheduler.page = lambda task: VlmUnavailable("away")
        options: dict[str, Any] = {fails: refuse} if fails in ("select", "counted") else {}
        with pytest.raises((QuotaExceeded, VlmUnavailable)):
            run(service(scheduler).parse(document, ParseOptions(), **options))
        assert len(closed) == 1

    def test_an_option_that_cannot_be_met_is_refused_before_the_document_is_opened(self, scheduler: Scheduler):
        options = ParseOptions(promptLabel="document", useLayoutDetection=False)
        for call in (
            service(scheduler).parse(Document("a", "PDF"), options),
            service(scheduler).page(Document("a", "PDF"), 0, options, Flow()),
        ):
            with pytest.raises(InvalidRequest, match="promptLabel"):
                run(call)
        assert scheduler.tasks == []


class TestJoining:
    def test_pages_are_joined_in_order_and_keep_what_they_have(self, scheduler: Scheduler, document: Document):
        answer = answer_of(run(service(scheduler).parse(document, ParseOptions(**ASKED))))
        (join,) = [task for task in scheduler.tasks if isinstance(task, JoinPages)]
        assert [(index, page["page.json"]) for index, page in join.frozen.items()] == [(0, b"0"), (1, b"1"), (2, b"2")]
        assert (join.options.mergeTables, join.options.prettifyMarkdown) == (False, False)
        assert answer["layoutParsingResults"] == [{"text": 1, "page": index} for index in range(PAGES)]

    @pytest.mark.parametrize("error", [BoundExceeded("too much"), UnreadableText("too much")])
    def test_what_cannot_be_joined_is_read_page_by_page(
        self, scheduler: Scheduler, document: Document, error: Exception
    ):
        scheduler.page = lambda task: InternalError("a fault") if task.index == 0 else parsed(task)

        def join(task: JoinPages) -> list[bytes] | Exception:
            whole = task.options.mergeTables or task.options.relevelTitles
            return error if whole or task.frozen == {2: {"page.json": b"2"}} else [b'{"text":2}']

        scheduler.join = join
        answer = answer_of(run(service(scheduler).parse(document, ParseOptions(restructurePages=True))))
        assert answer["layoutParsingResults"][1] == {"text": 2, "page": 1}
        assert answer["layoutParsingResults"][2] == {**json.loads(EMPTY_ENTRY), "page": 2}
        said = {page["page"]: page.get("blocks") for page in answer["docparser"]["pages"]}
        about = {"block_id": None, "kind": "too_large"}
        assert said == {
            1: None,
            2: [{**about, "message": "too much; the pages are not joined"}],
            3: [{**about, "message": "too much"}],
        }

    def test_of_pages_that_all_fail_the_error_is_told(self, scheduler: Scheduler, document: Document):
        scheduler.join = lambda task: BoundExceeded(f"{len(task.frozen)} too much")
        with pytest.raises(BoundExceeded, match="^1 too much"):
            run(service(scheduler).parse(document, ParseOptions(restructurePages=True)))
        assert len([task for task in scheduler.tasks if isinstance(task, JoinPages)]) == 1 + PAGES

    def test_pages_that_a_client_sent(self, scheduler: Scheduler):
        scheduler.sent = [json.dumps({"log_id": "mine", "notes": ["told"]}).encode(), b'{"page":1}', b'{"page":2}']
        named: list[str] = []
        body = b'[{"prunedResult":{}},{"prunedResult":{}}]'
        answer = answer_of(run(service(scheduler, max_pages=9).restructure(body, "one", named.append)))
        assert scheduler.tasks == [JoinClientPages(body, 2, 9)] and scheduler.flows == {"one"} and named == ["mine"]
        assert answer["layoutParsingResults"] == [{"page": 1}, {"page": 2}]
        assert answer["docparser"]["notes"] == ["told"]
        scheduler.sent = [json.dumps({"log_id": "", "error": "InvalidDocument", "message": "no page"}).encode()]
        with pytest.raises(InvalidDocument, match="no page"):
            run(service(scheduler, max_pages=1).restructure(body, "one", named.append))
        assert scheduler.tasks[-1].pages == 1 and named == ["mine"], "no more than pages are allowed"


OPTIONS = ParseOptions()


def page(pages: DocumentPages, document: Document, index: int = 1, client: str = "", **rest: Any) -> PageOutcome:
    return run(pages.read(document, index, OPTIONS, Flow(client), "request", **rest))


class TestPage:
    @pytest.mark.parametrize("bulk", [False, True])
    def test_what_it_took_is_counted(self, scheduler: Scheduler, document: Document, bulk: bool):
        outcome = page(pages_of(scheduler), document, client=with_priority("one", bulk=bulk), waited_s=3.0)
        assert outcome.index == 1 and outcome.parsed is not None and outcome.error is None
        assert scheduler.counted == [("ok", {"queue": 0.25})] and scheduler.waits == [(3.25, bulk)]

    @pytest.mark.parametrize("error", [InvalidDocument("odd"), WorkerLost("lost"), StepTooSlow("slow")])
    def test_an_error_of_the_page_is_its_outcome(self, scheduler: Scheduler, document: Document, error: ParserError):
        scheduler.page = lambda task: error
        assert page(pages_of(scheduler), document).error is error
        assert scheduler.counted == [("failed", {})] and scheduler.waits == []

    @pytest.mark.parametrize(
        ("error", "counted"), [(NotReady("no"), "failed"), (asyncio.CancelledError(), "abandoned")]
    )
    def test_any_other_is_raised(self, scheduler: Scheduler, document: Document, error: Exception, counted: str):
        scheduler.page = lambda task: error
        with pytest.raises(type(error)):
            page(pages_of(scheduler), document)
        assert scheduler.counted == [(counted, {})]

    @pytest.mark.parametrize(
        ("asked", "setting", "demo", "wanted"),
        [
            (None, "off", True, "off"),
            (None, "prefer", False, "prefer"),
            (None, "auto", False, "off"),
            (None, "auto", True, "prefer"),
            ("off", "prefer", True, "off"),
            ("prefer", "off", False, "prefer"),
        ],
    )
    def test_what_its_own_text_is_for(
        self, scheduler: Scheduler, document: Document, asked: Any, setting: str, demo: bool, wanted: str
    ):
        options = ParseOptions(textLayer=asked)
        run(pages_of(scheduler, setting, demo=demo).read(document, 0, options, Flow(), "request"))
        assert [task.options.textLayer for task in scheduler.tasks] == [wanted]

    @pytest.mark.parametrize("demo", [False, True])
    @pytest.mark.parametrize(("setting", "wanted"), [("on", True), ("off", False), ("auto", None)])
    def test_which_pages_are_read_in_small_pieces(
        self, scheduler: Scheduler, document: Document, setting: str, wanted: bool | None, demo: bool
    ):
        page(pages_of(scheduler, small_print=setting, demo=demo), document)
        assert [task.small_print for task in scheduler.tasks] == [demo if wanted is None else wanted]
        assert scheduler.asked == (setting == "auto"), "nobody asks for what decides nothing"

    def test_a_page_of_a_job_says_how_long_it_waited_already(self, scheduler: Scheduler, document: Document):
        outcome = run(service(scheduler).page(document, 2, ParseOptions(), Flow("one"), "request", waited_s=3.0))
        assert outcome.index == 2 and scheduler.waits == [(3.25, False)] and scheduler.flows == {"one"}
        (task,) = scheduler.tasks
        assert (task.document, task.index, task.request_id, task.early) == (document, 2, "request", False)

    def test_a_page_of_a_job_that_joins_them_has_its_own_text(self, scheduler: Scheduler, document: Document):
        outcome = run(service(scheduler).page(document, 2, ParseOptions(**ASKED), Flow("one")))
        assert json.loads(outcome.parsed.entry) == {"text": 1, "page": 2}
        assert outcome.parsed.frozen == {"page.json": b"2"} and scheduler.tasks[1].frozen == {2: {"page.json": b"2"}}


def test_small_print_has_no_other_word():
    assert Settings().small_print == "auto"
    with pytest.raises(ValidationError, match="small_print"):
        Settings(small_print="sometimes")


class TestSlow:
    def test_pages_that_took_too_long_end_the_document(self, scheduler: Scheduler, document: Document):
        pages = pages_of(scheduler)
        scheduler.page = lambda task: DocumentTooSlow(f"page {task.index}")
        for index in range(GIVE_UP_AFTER):
            assert scheduler.given_up == []
            assert isinstance(page(pages, document, index).error, DocumentTooSlow)
        ((ended, error),) = scheduler.given_up
        assert ended == document and str(GIVE_UP_AFTER) in str(error) and "page 0" in str(error)
        assert isinstance(page(pages, document, 50).error, DocumentTooSlow)
        assert len(scheduler.tasks) == GIVE_UP_AFTER, "a further page is not begun"

    def test_a_step_is_remembered_with_its_options(self, scheduler: Scheduler, document: Document):
        pages, other = pages_of(scheduler), ParseOptions(places="cells")
        scheduler.page = lambda task: StepTooSlow("step")
        page(pages, document)
        assert str(page(pages, document).error) == "step" and len(scheduler.tasks) == 1
        scheduler.page = parsed
        assert run(pages.read(document, 1, other, Flow(), "request")).error is None
        assert page(pages, document, 2).error is None

    def test_opening_is_remembered_and_what_ends_processes_is_damaged(self, scheduler: Scheduler, document: Document):
        pages, scheduler.count = pages_of(scheduler), DocumentTooSlow("opening")
        for _ in range(2):
            with pytest.raises(DocumentTooSlow, match="opening"):
                run(pages.count(document, Flow()))
        assert len(scheduler.tasks) == 1 and str(page(pages, document).error) == "opening"
        scheduler.count = WorkerLost("lost")
        with pytest.raises(InvalidDocument, match="two worker processes"):
            run(pages_of(scheduler).count(document, Flow()))

    def test_a_document_that_left_is_remembered_by_nothing(self, scheduler: Scheduler):
        scheduler.page = lambda task: DocumentTooSlow("slow")
        pages = pages_of(scheduler)
        for _ in range(GIVE_UP_AFTER + 1):
            page(pages, Document("/nowhere/at all", "PDF"))
        assert scheduler.given_up == [] and len(scheduler.tasks) == GIVE_UP_AFTER + 1
