# SPDX-License-Identifier: Apache-2.0
"""What a run says of itself, with what earlier runs have left."""

from __future__ import annotations

import io

import pytest

from corpus import driver
from corpus.progress import Progress, earlier
from corpus.records import ASIDE
from corpus.run import Todo


@pytest.mark.parametrize(
    ("earlier", "said"),
    [
        ({"done": 30, "incomplete": 4, "set aside": 2}, "30 done earlier, 4 incomplete earlier, 2 set aside earlier."),
        ({"done": 0, "incomplete": 0, "set aside": 0}, "0 done earlier."),
    ],
)
def test_the_summary_counts_what_earlier_runs_have_left(earlier: dict[str, int], said: str) -> None:
    assert f"0 of 0 documents done, 0 set aside, {said} Pages" in Progress(0, 0, earlier, io.StringIO()).summary()


def test_documents_that_can_be_tried_again_are_named() -> None:
    assert earlier([], "set aside", ASIDE) == ""
    told = earlier(["a.pdf", "b\x1b[2J.pdf"], "set aside", ASIDE)
    assert told.startswith(", 2 set aside earlier (") and told.endswith(
        "_corpus/aside/ below --out): 'a.pdf', 'b\\x1b[2J.pdf'"
    )
    assert earlier([f"{number}.pdf" for number in range(9)], "set aside", ASIDE).endswith("'4.pdf', ...")


def test_an_estimate_waits_until_it_means_something() -> None:
    progress = Progress(100, 1000, {}, io.StringIO())
    for number in range(1, 12):
        progress.ended(10, aside=False, missing=0, incomplete=0)
        assert ("left" in progress.line()) == (number >= 10), progress.line()


@pytest.mark.parametrize(
    ("incomplete", "aside", "missing", "complete"),
    [([], [], 0, True), (["a.pdf"], [], 0, False), ([], ["a.pdf"], 0, False), ([], [], 1, False)],
)
def test_what_earlier_runs_have_left_counts_too(
    incomplete: list[str], aside: list[str], missing: int, complete: bool
) -> None:
    progress = Progress(1, 10, {}, io.StringIO())
    progress.ended(10, aside=False, missing=missing, incomplete=0)
    assert driver._complete(progress, Todo([], 30, incomplete, aside)) == complete


def test_the_rate_is_of_the_last_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("corpus.progress.time.monotonic", lambda: now[0])
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
