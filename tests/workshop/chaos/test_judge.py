# SPDX-License-Identifier: Apache-2.0
"""The chaos tool's own judgement: each kind of loss is found, and what the run itself caused is excused."""

from __future__ import annotations

import contextlib
import itertools
import json
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.client import HTTPException
from pathlib import Path
from typing import Any

import pytest

from chaos import hostile, vlm_proxy
from chaos.bundle_project import Bundle, role
from chaos.documents import LIE, Document, Readings
from chaos.ending import judge_jobs
from chaos.faults import ACTIONS, GROUPS
from chaos.faults.field import PARSER_AWAY, VLM_HANGS_UP, VLM_LIES, WORKER_KILLED
from chaos.jobs import Job
from chaos.journal import Journal, Span
from chaos.judge import Verdict, causes, judge_pages, judge_refusal, of_answer
from chaos.outcome import Limits, Outcome, shows_nothing
from chaos.plan import Step, steps
from chaos.probe import Look, judge
from chaos.report import report
from chaos.resources import Tolerance, Usage, grown
from chaos.run import chosen
from tests.support.paths import ROOT
from tests.support.simulated_http import JsonHandler, SimulatedServer
from tests.support.simulated_vlm import MODEL, SimulatedVlm

LETTER = Document("letter.png", ROOT / "tests/data/letter.png", 1)
HANDBOOK = Document("handbook.pdf", ROOT / "tests/data/handbook.pdf", 3)


def plan(seed: int, count: int) -> list[Step]:
    lengths = {group: {name: action.length for name, action in acts.items()} for group, acts in GROUPS.items()}
    return list(itertools.islice(steps(seed, lengths), count))


def test_a_seed_gives_its_plan():
    assert plan(3, 200) == plan(3, 200) != plan(4, 200)


def test_a_round_holds_every_action_once_and_its_begin_meets_every_group():
    done = [step.action for step in plan(1, 2 * len(ACTIONS))]
    assert sorted(done[: len(ACTIONS)]) == sorted(done[len(ACTIONS) :]) == sorted(ACTIONS)
    for seed in range(20):
        begun = {step.action for step in plan(seed, len(ACTIONS) * 2 // 3)}
        assert all(begun & set(group) for group in GROUPS.values()), seed


def test_actions_can_be_chosen_by_name():
    assert chosen("*", "").keys() == GROUPS.keys()
    assert set(chosen("*", "database *")["disk"]) == {"disk low", "disk full", "disk read-only"}
    assert set(chosen("disk *", "")) == {"disk"} and chosen("no such *", "") == {}


def entry(*texts: str) -> dict[str, Any]:
    blocks = [{"block_label": "text", "block_content": text, "block_id": number} for number, text in enumerate(texts)]
    return {"prunedResult": {"parsing_res_list": blocks}}


@pytest.fixture
def readings() -> Readings:
    found = Readings()
    found.add("letter.png", [entry("Dear reader,", "the river")])
    found.add("letter.png", [entry("Dear reader,", "the ri ver")])
    return found


def verdict(readings: Readings, *pages: dict[str, Any], marks: tuple[str, ...] = ()) -> Verdict:
    found = Verdict()
    judge_pages(LETTER, [{"report": None, **page} for page in pages], readings, set(marks), "it", found)
    return found


def kinds(found: Verdict) -> list[str]:
    return [kind for kind, _ in found.violations]


def test_every_undisturbed_variant_counts_as_whole(readings: Readings):
    for text in ("the river", "the ri ver"):
        found = verdict(readings, {"entry": entry("Dear reader,", text)})
        assert (kinds(found), found.whole, found.pages) == ([], 1, 1)


@pytest.mark.parametrize(
    "wrong", [("Dear reader,", "the rivet"), ("Dear reader,",), (), ("Dear reader,", "the river", "more")]
)
def test_another_text_is_found(readings: Readings, wrong: tuple[str, ...]):
    assert kinds(verdict(readings, {"entry": entry(*wrong)}, marks=(VLM_LIES, WORKER_KILLED))) == ["text differs"]


def test_a_lie_of_the_proxy_is_known_and_excuses_its_block_only(readings: Readings):
    assert kinds(verdict(readings, {"entry": entry(f"{LIE} 7", "the river")})) == []
    assert kinds(verdict(readings, {"entry": entry(f"{LIE} 7", "the rivet")})) == ["text differs"]


def test_missing_pages_are_found(readings: Readings):
    assert kinds(verdict(readings)) == kinds(verdict(readings, {}, {})) == ["page count"]


@pytest.mark.parametrize(
    ("kind", "message", "mark", "excused"),
    [
        ("failed", "the VLM server hung up on it 3 times", VLM_LIES, True),
        ("failed", "the VLM server hung up on it 3 times", WORKER_KILLED, False),
        ("failed", "the VLM server hung up on it 3 times", VLM_HANGS_UP, True),
        ("failed", "500: a fault", VLM_HANGS_UP, False),
        ("failed", "<html><body><h1>503 Service Unavailable</h1>", VLM_LIES, False),
        ("failed", "The VLM server at http://vlm:8000/v1 cannot be reached", VLM_LIES, False),
        ("worker_lost", "two workers ended", WORKER_KILLED, True),
        ("worker_lost", "two workers ended", VLM_LIES, False),
        ("internal", "a fault", VLM_LIES, False),
        ("damaged", "the page's file is gone", WORKER_KILLED, False),
    ],
)
def test_a_reason_counts_only_where_the_run_gave_it(
    readings: Readings, kind: str, message: str, mark: str, excused: bool
):
    page = {"entry": {}, "report": {"page": 1, "error": {"kind": kind, "message": message}}}
    found = verdict(readings, page, marks=(mark,))
    assert kinds(found) == ([] if excused else ["incomplete without cause"])
    assert (found.whole, found.incomplete) == (0, 1)


def test_a_block_with_a_note_is_not_compared_and_the_others_are(readings: Readings):
    notes = {"page": 1, "blocks": [{"block_id": 1, "kind": "failed", "message": "hung up"}]}
    assert kinds(verdict(readings, {"entry": entry("Dear reader,", ""), "report": notes}, marks=(VLM_LIES,))) == []
    found = verdict(readings, {"entry": entry("Dear", ""), "report": notes}, marks=(VLM_LIES,))
    assert kinds(found) == ["text differs"]


@pytest.mark.parametrize(
    ("status", "words", "mark", "excused"),
    [
        (422, "the page ended two worker processes", WORKER_KILLED, True),
        (422, "the page ended two worker processes", VLM_LIES, False),
        (422, "file: it is no image", WORKER_KILLED, False),
        (500, "a worker failed", WORKER_KILLED, False),
    ],
)
def test_an_honest_document_is_refused_only_where_workers_were_killed(
    status: int, words: str, mark: str, excused: bool
):
    found = Verdict()
    judge_refusal(status, words, {mark}, "it", found)
    assert kinds(found) == ([] if excused else ["status"])


def test_pages_of_an_answer_have_their_reports():
    result = {"layoutParsingResults": [1, 2, 3], "docparser": {"pages": [{"page": 2, "error": {}}]}}
    assert [page["report"] for page in of_answer(result)] == [None, {"page": 2, "error": {}}, None]


def span(begin: float, end: float, *marks: str) -> Span:
    return Span(0, "an action", "its target", begin, end, frozenset(marks))


def test_an_action_is_a_cause_only_of_what_it_met():
    spans = [span(10, 20, VLM_LIES), span(30, 40, WORKER_KILLED)]
    assert causes(spans, 0, 9) == set() and causes(spans, 15, 16) == {VLM_LIES}
    assert causes(spans, 0, 35) == {VLM_LIES, WORKER_KILLED}


def looks(*seen: tuple[float, float, str]) -> list[Look]:
    return [Look(*look) for look in seen]


def test_health_is_excused_while_the_parser_is_away_and_until_its_first_answer():
    seen = looks((5, 0.1, ""), (12, 0, "refused"), (20.5, 0, "refused"), (22, 0.1, ""), (23, 0.1, ""))
    assert judge(seen, [span(10, 20, PARSER_AWAY)], 1, 60, 100) == []


@pytest.mark.parametrize(
    ("seen", "marks", "kind"),
    [
        (((12, 0.0, "refused"),), (VLM_LIES,), "health not answered"),
        (((12, 3.0, ""),), (VLM_LIES,), "health late"),
        (((5, 3.0, ""), (30, 0.1, "")), (PARSER_AWAY,), "health late"),
        (((22, 0.1, ""), (25, 0.0, "refused")), (PARSER_AWAY,), "health not answered"),
        (((95, 0.1, ""),), (PARSER_AWAY,), "parser stays away"),
        ((), (PARSER_AWAY,), "parser stays away"),
    ],
)
def test_health_that_nothing_excuses_is_found(
    seen: tuple[tuple[float, float, str], ...], marks: tuple[str, ...], kind: str
):
    assert [found for found, _ in judge(looks(*seen), [span(10, 20, *marks)], 1, 60, 100)] == [kind]


HELD = {"parser": 200, "worker": 800}
BEFORE = Usage(HELD, 100, {"parser": 1, "worker": 2}, 0, 10, 5)


@pytest.mark.parametrize(
    ("after", "word"),
    [
        (Usage({**HELD, "worker": 1101}, 100, BEFORE.processes, 0, 10, 5), "worker 800 -> 1101"),
        (Usage(HELD, 165, BEFORE.processes, 0, 10, 5), "descriptors"),
        (Usage(HELD, 100, {"parser": 1, "worker": 3}, 0, 10, 5), "processes"),
        (Usage(HELD, 100, {"parser": 1, "worker": 1}, 0, 10, 5), "processes"),
        (Usage(HELD, 100, {**BEFORE.processes, "docparser.reader": 5}, 0, 10, 5), "docparser.reader"),
        (Usage(HELD, 100, BEFORE.processes, 1, 10, 5), "unreaped"),
        (Usage(HELD, 100, BEFORE.processes, 0, 50, 5), "/tmp"),
        (Usage(HELD, 100, BEFORE.processes, 0, 10, 30), "disk"),
    ],
)
def test_what_is_not_where_it_was_is_found(after: Usage, word: str):
    assert grown(BEFORE, BEFORE, Tolerance()) == []
    found = grown(BEFORE, after, Tolerance())
    assert len(found) == 1 and word in found[0]


def test_helpers_may_come_and_go():
    assert grown(BEFORE, Usage(HELD, 100, {**BEFORE.processes, "docparser.reader": 2}, 0, 10, 5), Tolerance()) == []


def test_every_process_of_the_bundle_has_a_role():
    commands = {
        "/opt/venv/supervisor/bin/python /opt/venv/supervisor/bin/supervisord -c config": "supervisord",
        "haproxy -db -q -f /run/paddleocr-vl/haproxy.cfg": "balancer",
        "/opt/venv/supervisor/bin/python -m container.watchdog": "watchdog",
        "VLLM::EngineCore_DP0": "engine",
        "/opt/venv/vlm/bin/python /opt/venv/vlm/bin/vllm serve /models": "api server",
        "/opt/venv/parser/bin/python -m docparser": "parser",
        "/opt/venv/parser/bin/python -m docparser.documents.renderer {}": "docparser.documents.renderer",
        "python -m docparser.worker.main 7 8 {}": "worker",
    }
    assert {command: role(command) for command in commands} == commands
    assert role("/usr/bin/something --port 80").startswith("other ")


def test_hostile_documents_are_the_same_for_a_seed_and_of_every_kind():
    made = [hostile.document(5, number) for number in range(len(hostile.KINDS))]
    assert {kind for kind, _ in made} == set(hostile.KINDS)
    assert made == [hostile.document(5, number) for number in range(len(hostile.KINDS))]


def test_the_report_names_actions_violations_and_what_came_back(tmp_path: Path):
    with Journal(tmp_path / "journal.jsonl") as journal:
        journal.span(Span(0, "vlm slow", "30% of the requests", 1, 9, ready_s=4))
        journal.span(Span(1, "kill parser worker", "", 10, 10, failed="parser runs no worker"))
        journal.violation("job lost", "a | b: 404")
        outcome = Outcome(before={"parser": BEFORE}, after={"parser": BEFORE}, looks=looks((2, 0.5, "")), accepted=7)
        outcome.latencies = [(6.0, 3, True)]
        text = report(Bundle(tmp_path, {}), outcome, journal, 5, 2.5, Limits())
    assert text.startswith("# Chaos: 2.5 minutes, seed 5: 1 violations")
    assert "| vlm slow | 1 |  | 8 | 4 | 4 |" in text and "| kill parser worker | 0 | 1 |" in text
    assert "| job lost | 1 |" in text and "- 0 s: a | b: 404" in text
    assert "| jobs | 7 | 0 | 0 | 0 |" in text and "| during actions | 1 | 2.00 |" in text
    lines = [json.loads(line) for line in (tmp_path / "journal.jsonl").read_text().splitlines()]
    assert [line["what"] for line in lines] == ["action", "action", "violation"]
    assert all({"s", "at"} <= line.keys() for line in lines)


def test_a_run_in_which_nothing_happened_shows_nothing():
    assert len(shows_nothing(Outcome(), [])) == 7
    full = Outcome(accepted=1, latencies=[(1, 1, False)], looks=looks((1, 0.1, "")))
    full.jobs.whole, full.hostile["noise", "422"], full.left["in_upload"] = 1, 1, 1
    assert shows_nothing(full, [span(1, 2)]) == []
    assert shows_nothing(full, [Span(0, "vlm slow", "", 1, 2)]) == ["the proxy treated no request"]


class JobServer(SimulatedServer):
    """Answers for the states and results of jobs as a test has put them: path -> (status, body)."""

    def __init__(self) -> None:
        self.pages: dict[str, tuple[int, Any]] = {}
        super().__init__(0)

    def handler(self) -> type[JsonHandler]:
        server = self

        class Handler(JsonHandler):
            def do_GET(self) -> None:
                self.reply(*server.pages.get(self.path, (404, {})))

        return Handler


@pytest.mark.server
def test_a_lost_a_failed_an_endless_and_a_whole_job(tmp_path: Path, readings: Readings):
    line = {"layoutParsingResults": [entry("Dear reader,", "the river")], "docparser": {"pages": [{"page": 1}]}}
    with contextlib.closing(JobServer()) as server, Journal(tmp_path / "journal.jsonl") as journal:
        url = f"http://127.0.0.1:{server.port}"
        done = {"state": "done", "resultUrl": {"jsonUrl": f"{url}/lines?a=b"}}
        server.pages = {
            "/api/v2/ocr/jobs/whole": (200, {"data": done}),
            "/api/v2/ocr/jobs/failed": (200, {"data": {"state": "failed", "errorMsg": "no page"}}),
            "/api/v2/ocr/jobs/endless": (200, {"data": {"state": "pending"}}),
            "/api/v2/ocr/jobs/silent": (503, {}),
            "/lines?a=b": (200, {"result": line}),
        }
        jobs = [Job(name, LETTER, name, 0.0) for name in ("whole", "failed", "lost", "endless", "silent")]
        found = judge_jobs(url, jobs, readings, journal)
        away = Job("whole", LETTER, "whole", 0.0, lost_s=7.0)
        again = judge_jobs(url, [away], readings, journal)
    assert kinds(found) == ["job failed", "job lost", "job without an end", "job without an end"] and found.whole == 1
    assert kinds(again) == ["job lost for a time"] and again.whole == 1
    assert journal.violations == []


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[tuple[SimulatedVlm, str, Path]]:
    """A simulated VLM, the address of a proxy before it, and the file that tells the proxy what to do."""
    copied = tmp_path / "vlm_proxy.py"
    copied.write_text(Path(vlm_proxy.__file__).read_text())
    with contextlib.closing(SimulatedVlm()) as vlm:
        vlm.answer = lambda request, number: "the text of the page " * 5
        env = {"CHAOS_UPSTREAM": f"127.0.0.1:{vlm.port}", "CHAOS_SEED": "1"}
        words = [sys.executable, str(copied), "0"]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=env) as process:
            assert process.stdout is not None, "it is a pipe"
            port = json.loads(process.stdout.readline())["ready"]
            yield vlm, f"http://127.0.0.1:{port}", tmp_path / "treatment"
            process.terminate()


def chat(url: str, streams: bool) -> tuple[int, str, bytes]:
    """Status, content type and body of a completion."""
    content = [{"type": "text", "text": "OCR:"}]
    body = {"model": MODEL, "messages": [{"role": "user", "content": content}], "stream": streams}
    head = {"Content-Type": "application/json"}
    request = urllib.request.Request(f"{url}/v1/chat/completions", json.dumps(body).encode(), head)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.headers["Content-Type"], answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.headers["Content-Type"], error.read()


@pytest.mark.server
@pytest.mark.parametrize("streams", [False, True])
def test_the_proxy_passes_delays_and_lies(proxy: tuple[SimulatedVlm, str, Path], streams: bool):
    _, url, treatment = proxy
    plain = chat(url, streams)
    assert plain[0] == 200 and b"the text of" in plain[2]
    treatment.write_text('{"mode": "drip", "share": 1}')
    # Running numbers differ; the shape and the text do not.
    dripped = chat(url, streams)
    assert dripped[:2] == plain[:2] and len(dripped[2]) == len(plain[2])
    for mode in vlm_proxy.LIES:
        treatment.write_text(json.dumps({"mode": mode, "share": 1}))
        status, kind, body = chat(url, streams)
        assert status == 200 and LIE.encode() in body and ("event-stream" in kind) is streams


@pytest.mark.server
def test_the_proxy_refuses_cuts_and_hangs_up(proxy: tuple[SimulatedVlm, str, Path]):
    vlm, url, treatment = proxy
    for mode, status in (("html_502", 502), ("html_503", 503)):
        treatment.write_text(json.dumps({"mode": mode, "share": 1}))
        found = chat(url, False)
        assert found[0] == status and found[1] == "text/html" and b"<html" in found[2]
    treatment.write_text('{"mode": "shape", "share": 1}')
    for _ in range(10):
        body = chat(url, False)[2]
        assert b"the text of" not in body
    for mode in ("truncate", "reset"):
        treatment.write_text(json.dumps({"mode": mode, "share": 1}))
        with pytest.raises((HTTPException, OSError)):
            chat(url, False)
    treatment.write_text('{"mode": "html_502", "share": 0}')
    assert chat(url, False)[0] == 200
    vlm.close()
    assert chat(url, False)[0] == 503, "a VLM that is away, as a balancer would say it"


def test_the_lie_is_the_same_word_on_both_sides():
    """The proxy is one file without imports of ours."""
    assert vlm_proxy.LIE == LIE
