# SPDX-License-Identifier: Apache-2.0
"""Figures on tensors whose answer is known, and the verdict that they lead to."""

from __future__ import annotations

import json
import math

import pytest
import torch

from reference import metrics, report, verdict
from reference.verdict import Thresholds, Verdict
from tool_errors import UsageError

LOGITS = torch.tensor([[1.0, -2.0, 4.0], [0.0, 3.0, 1.0]])


def judge(candidate: torch.Tensor, baseline: torch.Tensor = LOGITS, answer: int = 1) -> Verdict:
    return Verdict([verdict.figures("x.png", metrics.compare(baseline, candidate), answer)])


def test_equal_logits():
    judged = judge(LOGITS.clone())
    assert (
        judged.error == 0 and judged.top1 == 100 and judged.cosine == pytest.approx(1) and judged.passed(Thresholds())
    )


def test_relative_error_by_hand():
    positions = metrics.compare(torch.tensor([[1.0, -2.0]]), torch.tensor([[1.1, -2.2]]))
    expected = (0.1 / 1.001 + 0.2 / 2.001) / 2
    assert positions.error == [pytest.approx(expected, rel=1e-6)]


def test_a_logit_next_to_zero_does_not_decide_the_mean():
    """With 1e-12 in the denominator this difference in the last bit would be an error of ten million percent."""
    positions = metrics.compare(torch.tensor([[0.0, 10.0]]), torch.tensor([[1e-7, 10.0]]))
    assert positions.error[0] < 1e-4


def test_another_first_choice_and_whose_it_is():
    candidate = LOGITS.clone()
    candidate[1, 2] = 3.5
    judged = judge(candidate)
    assert judged.top1 == 50 and judged.images[0].answer_agreeing == 1
    assert not judged.passed(Thresholds()) and [c.name for c in judged.checks(Thresholds()) if c.passed is False][
        0
    ].startswith("MRE")


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_values_that_are_no_numbers_fail_everything(value):
    candidate = LOGITS.clone()
    candidate[0, 0] = value
    judged = judge(candidate)
    failed = [check.name for check in judged.checks(Thresholds()) if check.passed is False]
    assert failed == ["Finite logits", "MRE (eps 1e-3)", "Top-1 agreement", "Cosine similarity"]
    assert judged.images[0].not_finite == 1


def test_more_positions_than_are_compared_at_a_time():
    baseline = torch.randn(metrics.ROWS + 3, 5, generator=torch.Generator().manual_seed(0))
    positions = metrics.compare(baseline, baseline * 1.5)
    assert len(positions.error) == metrics.ROWS + 3 and positions.agreeing == metrics.ROWS + 3
    assert min(positions.cosine) == pytest.approx(1)


def test_served_log_probabilities():
    logits = torch.tensor([[0.0, math.log(3.0)]])  # a quarter, three quarters
    positions = metrics.compare_served(logits, [1], [{1: math.log(0.75), 0: math.log(0.25) + 0.2}])
    assert positions.error == [pytest.approx(0.1)] and positions.agreeing == 1
    judged = Verdict([verdict.figures("x.png", positions, 1)], served=True)
    assert judged.passed(Thresholds(logprob=0.11)) and not judged.passed(Thresholds(logprob=0.09))
    missing = [check for check in judged.checks(Thresholds()) if check.passed is None]
    assert [check.name for check in missing] == ["MRE", "Cosine similarity"]


def test_a_report_that_cannot_be_written_is_known_before(tmp_path, monkeypatch):
    (tmp_path / "folder.md").mkdir()
    (tmp_path / "taken.json").mkdir()
    (tmp_path / "old.md").touch()
    for name, why in (
        ("a.txt", "ends in .md"),
        ("absent/a.md", "does not exist"),
        ("folder.md", "folder.md is a folder"),
        ("taken.md", "taken.json is a folder"),
    ):
        with pytest.raises(UsageError, match=f"--output .*{why}"):
            report.check_output(tmp_path / name)
    report.check_output(tmp_path / "old.md")
    for refused, name in ((tmp_path, "new.md"), (tmp_path / "old.md", "old.md")):
        with monkeypatch.context() as patch:
            patch.setattr("os.access", lambda path, mode, refused=refused: path != refused)
            with pytest.raises(UsageError, match=f"{name} cannot be written"):
                report.check_output(tmp_path / name)


def test_nothing_compared_is_no_success():
    assert not Verdict().passed(Thresholds())


def test_reports(tmp_path):
    candidate = LOGITS.clone()
    candidate[0, 0] = math.inf
    judged = judge(candidate)
    settings = {"model": "m", "candidate": "npu, float16"}
    text = report.accuracy_markdown(judged, Thresholds(), settings)
    assert text.startswith("# Accuracy: FAILED") and "infinite" in text
    report.write(tmp_path / "r.md", text, report.accuracy_json(judged, Thresholds(), settings))
    document = json.loads((tmp_path / "r.json").read_text())
    assert document["passed"] is False and document["mre_percent"] is None and document["images"][0]["not_finite"] == 1
