# SPDX-License-Identifier: Apache-2.0
"""The stages of a run one by one, without a cluster: rows in, rows out. tests/corpus/test_corpus.py has them on Ray."""

from __future__ import annotations

import asyncio
import dataclasses
import errno
import io
import json
import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import tool_errors
from corpus import __main__ as parent
from corpus import arguments, assembling, cluster, driver, opening, page_service, progress, reading, records, run
from corpus.documents import Document, Part, listed
from corpus.job import Job
from corpus.page_service import PageRead, PageService
from corpus.progress import Progress
from corpus.reading import PartReader
from corpus.records import Outcome
from corpus.storage import FolderStorage, open_storage
from docparser.documents.spool import Document as Spooled
from docparser.errors import NotReady, StorageAway, StorageUnavailable
from docparser.parsing.fair_queue import Flow
from docparser.parsing.result import PageOutcome
from tool_errors import ServiceError, UsageError

VERSION = "0123456789ab"
Row = dict[str, Any]


@pytest.fixture
def job(tmp_path: Path) -> Job:
    (tmp_path / "in").mkdir()
    return Job(str(tmp_path / "in"), str(tmp_path / "out"), ("http://a/v1",), {}, {}, ("md",), {}, False, 2, 5.0, 1)


def row(name: str = "a.pdf", **more: Any) -> Row:
    return {"name": name, "size": 7, "version": VERSION, "former": "", **more}


def kept(job: Job, folder: str) -> dict[str, Row]:
    """The records in a folder, by the names of their documents."""
    texts = [job.output().get(f"{folder}{key}{records.END}") for key in records.keys(job.output(), folder)]
    told = [json.loads(text) for text in texts if text]
    return {one["document"]: one for one in told}


@pytest.mark.parametrize(
    ("cores", "gibibytes", "readers"), [(640, 48, 32), (16, 48, 16), (640, None, 640), (4, 1, 1), (2, 2, 1)]
)
def test_no_more_readers_than_the_containers_memory_is_enough_for(
    cores: int, gibibytes: int | None, readers: int
) -> None:
    assert cluster.cores_for_readers(cores, gibibytes and gibibytes << 30) == readers


def test_the_command_line_and_its_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arguments, "VALUES", {"VLM_PORT": "8123", "VLM_FURTHER_URLS": "http://b/v1, http://c/v1,"})
    plain = arguments.parse(["in", "--out", "s3://bucket/out"])
    assert plain == arguments.Options(
        source="in",
        out="s3://bucket/out",
        ray="",
        vlms=("http://127.0.0.1:8123/v1", "http://b/v1", "http://c/v1"),
        engines=0,
        formats=("md", "json", "parquet"),
        request={},
        pages_per_part=16,
        patience_s=600,
        retry_failed=False,
        cpus=0,
        threads=1,
        dashboard=False,
    )
    assert arguments.Options.from_json(plain.as_json()) == plain
    words = (
        "in --out out --ray head:6379 --vlm-url http://x/v1/ --vlm-url http://x/v1 --engines 1 --formats md,,md,docx"
    )
    words += " --pages-per-part 1 --patience 0.5 --retry-failed --cpus 3 --threads 2 --dashboard"
    chosen = arguments.parse([*words.split(), "--options", '{"useLayoutDetection": false}'])
    assert chosen == arguments.Options(
        *("in", "out", "head:6379", ("http://x/v1",), 1, ("md", "docx"), {"useLayoutDetection": False}),
        *(1, 0.5, True, 3, 2, True),
    )
    assert arguments.parse(["in", "--out", "out", "--engines", "2"]).vlms == (), "the run's own"
    assert arguments.parse(["in", "--out", "out", "--formats", ","]).formats == ("json",)


@pytest.mark.parametrize(
    "words",
    ["--cpus -1", "--engines -1", "--threads 0", "--pages-per-part 0", "--vlm-url x:8000", "--formats epub"],
)
def test_a_command_line_that_cannot_be(words: str) -> None:
    with pytest.raises(SystemExit) as ended:
        arguments.parse(["in", "--out", "out", *words.split()])
    assert ended.value.code == 2


def counted(pages: int) -> Callable[[Job], Any]:
    return lambda _: SimpleNamespace(count_pages=lambda document: pages)


def test_a_document_becomes_rows_of_its_parts(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    Path(job.source, "a.pdf").write_bytes(b"%PDF-1.7\n")
    monkeypatch.setattr(opening, "_reader", counted(5))
    document = Document("a.pdf", 7, VERSION)
    job.output().put(Part(document, 5, 2, 3).name, b"")
    rows = list(opening.Opener(job)(row()))
    expected = {**row(), "format": "PDF", "pages": 5, "parts": 3, "reason": ""}
    assert rows == [
        {**expected, "first": first, "last": last, "read": read}
        for first, last, read in ((1, 1, False), (2, 3, True), (4, 5, False))
    ]
    monkeypatch.setattr(opening, "_reader", counted(2))
    assert [(one["parts"], one["first"], one["last"]) for one in opening.Opener(job)(row())] == [(1, 1, 2)]


def secret(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Path) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    path.write_bytes(b"%PDF-1.7")
    monkeypatch.setattr("corpus.storage.shutil.copyfile", refuse)  # root may read everything


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda path, _: None, "it is gone; it was there when the run began"),
        (lambda path, _: path.write_bytes(b"plain words"), "it "),
        (lambda path, _: os.mkfifo(path), r"it may not be read \(`.*` is a named pipe\)"),
        (lambda path, _: path.symlink_to("a.pdf"), r"it may not be read \(.*Too many levels"),
        (secret, r"it may not be read \(.*Permission denied"),
    ],
    ids=["gone", "no document", "pipe", "loop", "secret"],
)
def test_what_cannot_be_opened_is_set_aside(
    job: Job, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path, pytest.MonkeyPatch], None], why: str
) -> None:
    path = Path(job.source, "a.pdf")
    make(path, monkeypatch)
    assert [one.name for one in listed(job.input(), {})] == ["a.pdf"] * os.path.lexists(path)
    (one,) = opening.Opener(dataclasses.replace(job, patience_s=-1))(row())
    assert one["read"] and re.match(why, one["reason"]) and (one["parts"], one["pages"]) == (1, 0)
    assert kept(job, records.ASIDE)["a.pdf"]["reason"] == one["reason"]


class SimulatedPages:
    def read(self, path: Path, format: str, numbers: range) -> list[PageRead]:
        assert path.read_bytes() == b"content" and format == "PDF"
        return [PageRead(number, {"page": number}, 0.5) for number in numbers]


class SimulatedAttempts:
    def __init__(self, allowed: bool = True) -> None:
        self.allowed, self.asked = allowed, list[tuple[str, str]]()

    def begin(self, part: str) -> bool:
        self.asked.append(("begin", part))
        return self.allowed

    def end(self, part: str) -> None:
        self.asked.append(("end", part))


def reader(job: Job, folder: Path, attempts: SimulatedAttempts) -> PartReader:
    """Without a process that lays out pages."""
    made = object.__new__(PartReader)
    made._job, made._attempts = job, attempts  # type: ignore[assignment]  # simulated
    made._downloads, made._pages = reading.Downloads(job, folder), SimulatedPages()  # type: ignore[assignment]  # simulated
    return made


def part_row(**more: Any) -> Row:
    return row(**{"format": "PDF", "pages": 5, "parts": 3, "first": 2, "last": 3, "read": False, "reason": "", **more})


def test_a_part_is_read_and_kept(job: Job, tmp_path: Path) -> None:
    Path(job.source, "a.pdf").write_bytes(b"content")
    attempts = SimulatedAttempts()
    told = reader(job, tmp_path, attempts)(part_row())
    part = Part(Document("a.pdf", 7, VERSION), 5, 2, 3)
    assert (told["read"], told["ended"], told["parts"], told["pages"]) == (2, False, 3, 5)
    lines = (job.output().get(part.name) or b"").splitlines()
    assert [json.loads(line) for line in lines] == [
        {"page": page, "result": {"page": page}, "seconds": 0.5} for page in (2, 3)
    ]
    assert attempts.asked == [("begin", part.name), ("end", part.name)]


def test_a_document_of_one_part_is_assembled_where_it_was_read(
    job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path(job.source, "a.pdf").write_bytes(b"content")
    given: list[Any] = []
    outcome = Outcome("a.pdf", 2, missing=1, incomplete=3)

    def assemble(*words: Any) -> Outcome:
        given.append(words)
        return outcome

    monkeypatch.setattr(reading, "assemble", assemble)
    told = reader(job, tmp_path, SimulatedAttempts())(part_row(pages=2, parts=1, first=1, last=2))
    assert (told["read"], told["ended"], told["missing"], told["incomplete"]) == (2, True, 1, 3)
    ((_, document, pages, format, read),) = given
    assert (document.name, pages, format) == ("a.pdf", 2, "PDF") and [page.number for page in read] == [1, 2]


@pytest.mark.parametrize(
    ("more", "allowed", "reason", "in_records"),
    [
        ({"read": True}, True, "", False),
        ({"read": True, "reason": "damaged"}, True, "damaged", False),
        ({}, False, "pages 2 to 3 ended 2 processes that read them", True),
        ({}, True, "it is gone; it was there when the run began", True),
    ],
)
def test_a_part_that_is_not_read(
    job: Job, tmp_path: Path, more: Row, allowed: bool, reason: str, in_records: bool
) -> None:
    told = reader(job, tmp_path, SimulatedAttempts(allowed))(part_row(**more))
    assert told["reason"] == reason and told["ended"] == bool(reason) and told["read"] == 0
    assert ("a.pdf" in kept(job, records.ASIDE)) == in_records


class SimulatedRay:
    """Tasks that have ended only once somebody waits without a limit, or `ends` is set."""

    def __init__(self) -> None:
        self.ends, self.waits, self.begun = True, list[tuple[int, float | None]](), 0

    def remote(self, **_: Any) -> Callable[[Callable[..., Any]], Any]:
        def task(function: Callable[..., Any]) -> Any:
            def begin(*words: Any) -> Any:
                self.begun += 1
                return (self.begun, lambda: function(*words))

            return SimpleNamespace(remote=begin)

        return task

    def wait(self, running: list[Any], timeout: float | None) -> tuple[list[Any], list[Any]]:
        self.waits.append((len(running), timeout))
        return (running[:1], running[1:]) if self.ends or timeout is None else ([], running)

    def get(self, reference: Any) -> Any:
        return reference[1]()

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": 2.0}


@pytest.fixture
def assembly(job: Job, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[run.Assembly, SimulatedRay, Progress]]:
    ray = SimulatedRay()
    monkeypatch.setattr(run, "ray", ray)
    monkeypatch.setattr(run, "from_parts", lambda _, document, pages, format: Outcome(document.name, pages, 1, 2))
    counts = Progress(9, 99, {}, io.StringIO())
    yield run.Assembly(job, counts), ray, counts


def test_a_document_is_assembled_when_its_last_part_is_there(
    assembly: tuple[run.Assembly, SimulatedRay, Progress],
) -> None:
    made, ray, counts = assembly
    for name in ("a.pdf", "b.pdf", "a.pdf"):
        assert ray.begun == 0
        made.add(part_row(name=name, parts=2))
    assert (ray.begun, counts.done, counts.missing, counts.incomplete) == (1, 1, 1, 2)
    made.finish()
    assert counts.done == 1, "a part of the other is not read"


def test_few_documents_are_assembled_at_once(assembly: tuple[run.Assembly, SimulatedRay, Progress]) -> None:
    """Two for each core; the next one waits for one of them."""
    made, ray, counts = assembly
    ray.ends = False
    for number in range(4):
        made.add(part_row(name=f"{number}.pdf", parts=1))
    assert counts.done == 0 and {timeout for _, timeout in ray.waits} == {0}
    made.add(part_row(name="4.pdf", parts=1))
    assert counts.done == 1 and ray.waits[-2:] == [(5, None), (4, 0)]
    made.finish()
    assert counts.done == 5 and counts.aside == 0


def test_a_document_that_was_given_up_is_counted_once_and_not_assembled(
    job: Job, assembly: tuple[run.Assembly, SimulatedRay, Progress]
) -> None:
    made, ray, counts = assembly
    document = Document("a.pdf", 7, VERSION)
    job.output().put(Part(document, 5, 1, 1).name, b"{}")
    made.add(part_row(parts=2))
    for _ in range(2):
        made.end(part_row(parts=2, reason="damaged", missing=0, incomplete=0))
    made.add(part_row(parts=2))
    assert (ray.begun, counts.done, counts.aside) == (0, 0, 1) and not list(job.output().entries("_corpus/parts/"))


def test_which_files_are_documents(tmp_path: Path) -> None:
    for name in ("a.pdf", "SCAN.PDF", "deep/Page.JpG", "notes.txt", ".hidden/b.pdf", "out/c.pdf", "pdf"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    found = {document.name for document in listed(FolderStorage(tmp_path), {}, "out/")}
    assert found == {"a.pdf", "SCAN.PDF", "deep/Page.JpG"}


def test_what_is_left_to_do(job: Job) -> None:
    done, lost, part, aside, new = (
        Document(f"{name}.pdf", 7, VERSION) for name in ("done", "lost", "part", "aside", "new")
    )
    records.keep(job.output(), done, Outcome(done.name, 3))
    records.keep(job.output(), lost, Outcome(lost.name, 3, missing=1))
    records.keep(job.output(), part, Outcome(part.name, 3, incomplete=1))
    records.keep(job.output(), aside, Outcome(aside.name, reason="damaged"))
    assert records.ended(job.output(), lost) == Outcome(lost.name, 3, missing=1)
    changed = dataclasses.replace(done, version="ba9876543210")
    found = run.left_to_do(job, iter([done, lost, part, aside, new, changed]), again=False)
    assert found == ([new, dataclasses.replace(changed, former=VERSION)], 1, ["lost.pdf", "part.pdf"], ["aside.pdf"])
    assert run.left_to_do(job, iter([done, lost, part, aside]), again=True) == ([lost, part, aside], 1, [], [])
    assert kept(job, records.ASIDE) == kept(job, records.INCOMPLETE) == {} and set(kept(job, records.DONE)) == {
        "done.pdf"
    }


def test_former_outputs_are_gone_before_a_changed_document_is_opened(job: Job) -> None:
    """Also where it is set aside then. What Ray repeats does not touch what was written since."""
    former = Document("a.pdf", 7, "ba9876543210")
    names = {"a.pdf/a.md", "a.pdf/a.docx", "a.pdf/images/00001-x.jpg", "corpus.parquet/a.pdf.parquet"}
    others = {"a.pdf/own.txt", "a.pdf.pdf/a.md"}

    def written() -> set[str]:
        return {entry.key for entry in job.output().entries() if not entry.key.startswith("_corpus/")}

    def write() -> None:
        for name in names | others:
            job.output().put(name, b"")

    write()
    records.keep(job.output(), former, Outcome(former.name, 3, incomplete=1))
    opener = opening.Opener(job)
    list(opener(row(former=former.version)))
    assert written() == others and not kept(job, records.INCOMPLETE)
    write()
    list(opener(row(former=former.version)))
    assert written() == names | others


def answered(number: int) -> PageRead:
    """A page as the parser answers for it."""
    entry = {"markdown": {"text": f"text of page {number}", "images": {}}, "prunedResult": {"parsing_res_list": []}}
    return PageRead(number, {"layoutParsingResults": [entry]}, 0.5)


def keep_parts(job: Job, document: Document, *parts: tuple[int, int]) -> None:
    for first, last in parts:
        pages = [answered(number) for number in range(first, last + 1)]
        assembling.keep_part(job, Part(document, 5, first, last), pages)


def test_parts_become_one_document_and_are_removed(job: Job) -> None:
    document = Document("a.pdf", 7, VERSION)
    keep_parts(job, document, (1, 1), (2, 3), (4, 5))
    for _ in range(2):  # Ray repeats a task whose node went away
        assert assembling.from_parts(job, document, 5, "PDF") == Outcome("a.pdf", 5)
        written = (job.output().get("a.pdf/a.md") or b"").decode()
        assert written.split("\n\n") == [f"text of page {number}" for number in range(1, 5)] + ["text of page 5\n"]
        assert not list(job.output().entries("_corpus/parts/"))


def test_a_part_that_is_not_there_ends_no_document(job: Job) -> None:
    document = Document("a.pdf", 7, VERSION)
    keep_parts(job, document, (1, 1), (4, 5))
    with pytest.raises(StorageAway, match="000002-000003.jsonl was written to .*/out and is not there"):
        assembling.from_parts(dataclasses.replace(job, patience_s=-1), document, 5, "PDF")
    assert {entry.key.split("/")[1] for entry in job.output().entries()} == {"parts"}


def test_a_page_of_which_nothing_came_is_missing(job: Job) -> None:
    outcome = assembling.assemble(job, Document("a.pdf", 7, VERSION), 3, "PDF", [answered(1), answered(3)])
    assert outcome == Outcome("a.pdf", 3, missing=1)
    assert set(kept(job, records.INCOMPLETE)) == {"a.pdf"} and not kept(job, records.DONE)


def test_a_place_that_is_away_is_waited_for(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("corpus.job.time.monotonic", lambda: now[0])
    monkeypatch.setattr("corpus.job.time.sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
    tries: list[float] = []

    def away() -> None:
        tries.append(now[0] - 100)
        raise StorageUnavailable("away")

    with pytest.raises(StorageUnavailable):
        job.patiently(away)
    assert tries == [0, 2, 4, 6], "its patience is 5 s"
    answers = iter([StorageUnavailable("away"), None])
    assert job.patiently(lambda: _raised(next(answers))) == "there"


def _raised(error: Exception | None) -> str:
    if error:
        raise error
    return "there"


def outcome(failed: bool) -> Any:
    return SimpleNamespace(vlm_failed_on_some_block=failed, vlm_failed_on_every_block=False)


@pytest.mark.parametrize(
    ("answers", "calls"),
    [
        ([False], 1),
        ([True, False], 2),
        ([True, True, True, False], 3),
        ([NotReady("no worker"), False], 2),
    ],
)
def test_a_page_of_which_blocks_failed_is_read_again(
    monkeypatch: pytest.MonkeyPatch, answers: list[bool | Exception], calls: int
) -> None:
    asked: list[tuple[Any, ...]] = []

    class Service:
        async def page(self, *words: Any) -> PageOutcome:
            asked.append(words)
            answer = answers[len(asked) - 1]
            if isinstance(answer, Exception):
                raise answer
            found: PageOutcome = outcome(answer)
            return found

    async def sleep(_: float) -> None:
        pass

    monkeypatch.setattr(page_service.asyncio, "sleep", sleep)
    service = object.__new__(PageService)
    service._service, service._options = Service(), "options"  # type: ignore[assignment]  # simulated
    service._settings = SimpleNamespace(vlm_patience_s=5)  # type: ignore[assignment]  # simulated
    service._told = lambda document, number, outcome: PageRead(number, {}, 0)  # type: ignore[method-assign]  # simulated
    flow = Flow("a.pdf")
    document = Spooled("a.pdf", "PDF")
    assert asyncio.run(service._read(document, 7, flow)).number == 7
    # Pages count from 0 there.
    assert len(asked) == calls and set(asked) == {(document, 6, "options", flow, "corpus-7")}


def test_a_worker_that_never_becomes_ready_ends_the_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    class Service:
        async def page(self, *words: Any) -> PageOutcome:
            raise NotReady("no worker")

    service = object.__new__(PageService)
    service._service, service._options = Service(), None  # type: ignore[assignment]  # simulated
    service._settings = SimpleNamespace(vlm_patience_s=-1)  # type: ignore[assignment]  # simulated
    with pytest.raises(NotReady):
        asyncio.run(service._page(Spooled("a.pdf", "PDF"), 1, Flow("a.pdf")))


def test_the_rate_is_of_the_last_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    said = io.StringIO()
    counts = Progress(3, 100, {"done": 0}, said)
    for second, pages in ((50, 100), (55, 0), (100, 30), (109, 3)):
        now[0] = second
        counts.read(pages)
    lines = said.getvalue().splitlines()
    # After the first one, a line each ten seconds.
    assert [line.split(", ")[2] for line in lines] == ["2.00 pages/s", "0.60 pages/s"]
    counts.ended(60, aside=False, missing=2, incomplete=1)
    counts.ended(40, aside=True, missing=0, incomplete=0)
    assert counts.line().startswith("2 of 3 documents, 133 pages") and counts.line().endswith("; 1 set aside")
    now[0] = 133
    assert "1 of 3 documents done, 1 set aside, 0 done earlier" in counts.summary()
    assert counts.summary().endswith("(1.00 a second), 2 missing, 1 incomplete.")


@pytest.mark.parametrize(
    ("source", "out", "inside"),
    [("/a", "/a/out", "out/"), ("/a", "/a/b/out", "b/out/"), ("/a", "/ab/out", ""), ("/a/out", "/a", "")],
)
def test_outputs_below_the_input_are_no_documents(source: str, out: str, inside: str) -> None:
    assert driver._inside(FolderStorage(Path(source)), FolderStorage(Path(out))) == inside


@pytest.mark.parametrize(
    ("source", "out"), [("{0}/in", "{0}/in/."), ("s3://bucket/scans", "s3://bucket/scans/")], ids=["folder", "bucket"]
)
def test_outputs_do_not_lie_among_the_documents(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, out: str
) -> None:
    (tmp_path / "in").mkdir()
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    places = [open_storage(place.format(tmp_path), "INPUT") for place in (source, out)]
    with pytest.raises(UsageError, match="^--out .*: this is INPUT; expected another place"):
        driver._check(*places)


def test_an_error_inside_rays_own_is_told_in_one_line() -> None:
    wrapped = RuntimeError("a trace of Ray")
    wrapped.cause = NotReady("no worker is ready")  # type: ignore[attr-defined]  # as Ray's errors have it
    found = driver.ours(wrapped)
    assert isinstance(found, ServiceError) and str(found).startswith("no worker is ready ")
    try:
        raise RuntimeError("outer") from UsageError("own")
    except RuntimeError as error:
        assert isinstance(driver.ours(error), UsageError)
    assert driver.ours(RuntimeError("unknown")) is None
    assert driver.lost(ConnectionError()) and not driver.lost(RuntimeError())


@pytest.mark.parametrize(
    ("lasting", "runs"), [((1, 1, 1, 1), 4), ((100, 1, 1, 1, 1), 5)], ids=["never there", "there for a while"]
)
def test_a_cluster_that_is_away_is_tried_again_with_patience(
    monkeypatch: pytest.MonkeyPatch, lasting: tuple[int, ...], runs: int
) -> None:
    """Patience begins anew after a driver that ran for more than a minute."""
    now, begun = [0.0], [0]

    def drive(_: object) -> None:
        now[0] += lasting[begun[0]]
        begun[0] += 1

    monkeypatch.setattr(parent.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(parent.time, "sleep", lambda seconds: now.__setitem__(0, now[0] + seconds))
    monkeypatch.setattr(parent, "drive", drive)
    options = arguments.parse(["in", "--out", "out", "--patience", "12"])
    monkeypatch.setattr(parent.arguments, "parse", lambda: options)
    with pytest.raises(ServiceError, match="Ray on this machine is away for 12 s"):
        parent.parse_corpus()
    assert begun == [runs]
    monkeypatch.setattr(parent, "drive", lambda _: 1)
    assert parent.parse_corpus() == 1


# Ends without an outcome, as a driver whose cluster went away; the second one when it is interrupted, else with 1.
LOST_DRIVER = "raise SystemExit"
ASKED_DRIVER = """
import os, signal

def deaf(*_):
    os.write(int(os.environ["CORPUS_OUTCOME_FD"]), b"1\\n")
    os._exit(1)

signal.signal(signal.SIGALRM, deaf)
signal.alarm(20)
try:
    os.kill(os.getppid(), signal.SIGTERM)
    signal.pause()
except KeyboardInterrupt:
    pass
"""


@pytest.mark.parametrize(
    "drivers", [[ASKED_DRIVER], [LOST_DRIVER, ASKED_DRIVER]], ids=["first", "after a lost cluster"]
)
def test_a_signal_ends_the_tool(monkeypatch: pytest.MonkeyPatch, drivers: list[str]) -> None:
    handlers = {number: signal.getsignal(number) for number in parent.SIGNALS}
    programs = iter(drivers)
    real = subprocess.Popen

    def begin(words: list[str], **how: Any) -> Any:
        return real([words[0], "-c", next(programs)], **how)

    monkeypatch.setattr(parent.subprocess, "Popen", begin)
    monkeypatch.setattr(parent, "AGAIN_S", 0)
    options = arguments.parse(["in", "--out", "out"])
    monkeypatch.setattr(parent.arguments, "parse", lambda: options)
    try:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # as in the background of a script
        assert tool_errors.run(parent.parse_corpus) == tool_errors.INTERRUPTED
        with pytest.raises(KeyboardInterrupt):  # between two drivers
            signal.raise_signal(signal.SIGTERM)
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
