# SPDX-License-Identifier: Apache-2.0
"""The benchmark of the judge counts what it takes and what it refuses."""

from __future__ import annotations

import json

import numpy as np
import pytest

import bench_own_text
from tests.support.born_digital import pdf, text

LINES = ("A page that says what it shows,", "in some lines of plain print", "with 1934 and 2078 in them.")


def test_true_blocks_are_taken_and_lies_are_not(tmp_path, capsys):
    path = tmp_path / "true.pdf"
    path.write_bytes(pdf(b"".join(text(line, y=300 - 15 * place) for place, line in enumerate(LINES))))
    assert bench_own_text.main([str(path), "--pages", "1"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["pages"] == 1 and report["true"] == {"blocks": 1, "characters": sum(map(len, LINES))}
    assert [report[how] for how in bench_own_text.LIES] == [{"blocks": 1, "blocks taken": 0}] * 5
    assert report["milliseconds"].keys() == {"render", "read", "judge"}


@pytest.mark.parametrize("how", bench_own_text.LIES)
def test_a_lie_changes_what_it_says(how):
    codes = np.array(list(map(ord, "123abcd")), np.uint32)
    said = bench_own_text.changed(codes, how, np.random.default_rng(2))
    wrong = [chr(code) for code in codes[said != codes]]
    assert wrong and (sorted(said) == sorted(codes) or how == "one letter")
    assert len(wrong) == {"shuffled": len(wrong), "shifted": 7, "one letter": 1}.get(how, 2)
    assert all(letter.isdigit() for letter in wrong) or how != "two digits"
