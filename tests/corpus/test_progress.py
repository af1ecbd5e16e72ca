# SPDX-License-Identifier: Apache-2.0
"""What a run says of itself, with what earlier runs have left."""

from __future__ import annotations

import io

import pytest

from corpus.progress import Progress, set_aside_earlier


@pytest.mark.parametrize(("aside", "said"), [(2, "30 done earlier, 2 set aside earlier."), (0, "30 done earlier.")])
def test_the_summary_counts_what_earlier_runs_have_set_aside(aside: int, said: str) -> None:
    assert f"0 of 0 documents done, 0 set aside, {said} Pages" in Progress(0, 0, 30, aside, io.StringIO()).summary()


def test_documents_that_were_set_aside_are_named() -> None:
    assert set_aside_earlier(["a.pdf", "b\x1b[2J.pdf"]).endswith(
        "_corpus/aside/ below --out): 'a.pdf', 'b\\x1b[2J.pdf'"
    )
    assert set_aside_earlier([f"{number}.pdf" for number in range(9)]).endswith("'4.pdf', ...")


def test_an_estimate_waits_until_it_means_something() -> None:
    progress = Progress(100, 1000, 0, 0, io.StringIO())
    for number in range(1, 12):
        progress.ended(10, aside=False, missing=0, incomplete=0)
        assert ("left" in progress.line()) == (number >= 10), progress.line()
