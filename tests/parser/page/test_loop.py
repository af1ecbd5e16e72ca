# SPDX-License-Identifier: Apache-2.0
"""The steps of a page that need no model: what options come to, what is noted of it, whose its texts are, and where
blocks stand that the layout model has not found."""

from __future__ import annotations

import contextlib
import threading
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from pydantic.alias_generators import to_camel

from docparser.contract.schemas import ParseOptions
from docparser.convert.blocks import all_blocks
from docparser.page import loop
from docparser.page.blocks import Blocks, _position
from docparser.page.frozen import Known, frozen_blocks, thaw
from docparser.page.loop import CHOSEN, PageLoop
from docparser.page.own_text_step import Taken
from docparser.page.provenance import PAGE, VLM, Certainty, Origin, Provenance, add_members, joined
from docparser.page.question import Question
from docparser.page.run import PageRun, PageTask, Settled
from docparser.vlm.client import Reply
from docparser.vlm.failures import BlockNote

PICTURE = np.zeros((40, 30, 3), np.uint8)


def page_loop(*, turns: bool = False, **config: Any) -> Any:
    made: Any = PageLoop.__new__(PageLoop)
    made._config, made._paddle, made._doubtful_below = config, ThreadPoolExecutor(1), 0.5
    made._preprocessor = (lambda pages, **asked: [{"output_img": ("turned", asked)}]) if turns else None
    return made


def options(**fields: Any) -> ParseOptions:
    return ParseOptions(**fields)


class TestSettings:
    @pytest.mark.parametrize("name", CHOSEN)
    def test_a_request_comes_before_the_pipelines_file_and_that_before_what_is_usual(self, name: str):
        usual = CHOSEN[name]
        filed, asked = (["a"], ["b"]) if isinstance(usual, list) else (not usual, usual)
        nothing = options()
        assert page_loop()._settings(nothing)[name] == usual
        configured: dict[str, Any] = {name: filed}
        assert page_loop(**configured)._settings(nothing)[name] == filed
        assert page_loop(**configured)._settings(options(**{to_camel(name): asked}))[name] == asked

    @pytest.mark.parametrize(
        ("turns", "orientation", "unwarping", "expected"),
        [
            (False, None, None, False),
            (True, None, None, True),
            (True, False, None, False),
            (True, None, False, False),
            (True, True, False, True),
            (True, False, True, True),
            (False, False, False, False),
        ],
    )
    def test_whether_pages_are_turned(self, turns: bool, orientation: Any, unwarping: Any, expected: bool):
        said = options(useDocOrientationClassify=orientation, useDocUnwarping=unwarping)
        made = page_loop(turns=turns)
        settings = made._settings(said)
        assert settings["use_doc_preprocessor"] is expected
        upright, told = made._upright(PICTURE, settings, said)
        if expected:
            asked = {"use_doc_orientation_classify": orientation, "use_doc_unwarping": unwarping}
            assert upright == ("turned", asked) and told == {"output_img": upright}
        else:
            assert upright is PICTURE and told is None

    @pytest.mark.parametrize(("label", "read"), [("chart", "chart"), ("seal", "seal"), ("table", None), (None, None)])
    def test_a_page_without_layout_is_read_as_it_says(self, label: Any, read: str | None):
        for layout in (False, True):
            said = options(useLayoutDetection=layout, promptLabel=label, layoutShapeMode="quad")
            settings = page_loop()._settings(said)
            for kind in ("chart", "seal"):
                assert settings[f"use_{kind}_recognition"] is (kind == read and not layout)
            assert settings["return_layout_polygon_points"] is True
        assert page_loop()._settings(options(layoutShapeMode="rect"))["return_layout_polygon_points"] is False
        said, run = options(promptLabel=label), PageRun(contextlib.nullcontext)
        (box,) = page_loop()._find_layout(PICTURE, {"use_layout_detection": False}, said, run)["boxes"]
        assert (box["label"], box["coordinate"], box["score"]) == (label or "ocr", [0, 0, 30, 40], 1)


def blocks(*labels: str, inside: frozenset[int] = frozenset(), further: frozenset[int] = frozenset()) -> Blocks:
    cut = [{"label": label, "box": [0, 10 * at, 9, 10 * at + 9]} for at, label in enumerate(labels)]
    return Blocks(cut, {}, {}, {}, inside, [], False, further)


def test_blocks_that_were_joined_are_asked_for_as_one():
    laid = blocks("text", "text", "text", "text")
    laid.cut[0]["group_id"] = laid.cut[2]["group_id"] = 0
    assert [laid.joined(number) for number in range(4)] == [[0, 2], [1], [0, 2], [3]]
    again = laid.joining([1, 3])
    assert again.joined(3) == [1, 3] and again.shown == [0, 1, 2, 3] and laid.joined(3) == [3]
    assert laid.joining([1]) is laid


def test_groups_have_numbers_of_their_own_behind_a_picture_in_a_table():
    """PaddleX numbers the blocks that are shown, and a table stands where the group's number would be."""
    laid = blocks("table", "image", "text", "text", "table", inside=frozenset({1})).joining([2, 3])
    shown = [block | {"content": "a"} for block in frozen_blocks(laid, defaultdict(Known))]
    found: dict[str, Any] = {"page_count": None, "width": 9, "height": 50, "imgs_in_doc": []}
    settings = {"use_doc_preprocessor": False, "use_layout_detection": False}
    page = thaw({**found, "model_settings": settings, "blocks": shown}, 0).result.json["res"]
    assert [block["group_id"] for block in page["parsing_res_list"]] == [0, 1, 1, 3]
    assert [len(block.boxes) for block in all_blocks(page)] == [1, 2, 1, 1]


def test_tables_alone_have_heads(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(loop, "head_rows", lambda picture, text: {(0, "a"): 2, (1, "b"): 3}[picture, text])
    found = [
        loop._head_rows({"label": label, "img": number}, Settled(Reply(text)))
        for number, (label, text) in enumerate([("table", "a"), ("text", "b")])
    ]
    assert found == [2, 0] and loop._head_rows({"label": "table", "img": 0}, None) == 0


def test_notes_name_blocks_by_their_places_in_the_answer():
    replies = {
        number: Reply("", BlockNote("failed", f"of {number}")) for number in range(3)
    } | {3: Reply("fine")}  # fmt: skip
    found = loop._block_notes({0: 0, 2: 1, 3: 2}, replies)
    assert [(note["block_id"], note["message"]) for note in found] == [(0, "of 0"), (None, "of 1"), (1, "of 2")]
    both: Any = object()
    assert loop._differences({2: 1}, {1: Settled(Reply("a"), None, both), 2: Settled(Reply("b"))}) == [(None, both)]


@pytest.mark.parametrize(
    ("cut", "shape", "squeezed"), [(True, (40, 30), False), (True, (30, 40), True), (False, (40, 30), True)]
)
def test_notes_of_a_page_are_by_all_boxes_and_texts_but_formulas(
    monkeypatch: pytest.MonkeyPatch, cut: bool, shape: tuple[int, int], squeezed: bool
):
    seen: list[Any] = []

    def page_notes(page: np.ndarray, *said: Any, squeezed: bool) -> list[Any]:
        seen.extend([*said, squeezed])
        return []

    monkeypatch.setattr(loop, "page_notes", page_notes)
    found = [{"coordinate": [1, 2, 3, 4]}]
    replies = {0: Reply("a"), 1: Reply("x^2"), 2: Reply("b")}
    laid = blocks("text", "display_formula", "text", further=frozenset({2}))
    loop._page_notes(np.zeros((*shape, 3), np.uint8), found, laid, replies, cut=cut)
    assert seen == [[[1, 2, 3, 4], [0, 20, 9, 29]], ["a", "b"], squeezed]


@pytest.mark.parametrize(
    ("below", "certainties"),
    [(None, [None, None]), (0.5, [Certainty(0.4, True), Certainty()]), (0.3, [Certainty(0.4, False), Certainty()])],
)
def test_blocks_say_how_sure_the_vlm_was_and_whose_their_text_is(below: float | None, certainties: list[Any]):
    made, origin = page_loop(), Origin(VLM, 0.7)
    made._doubtful_below = below
    taken = Taken(blocks("text", "image"), {}, {}, Origin())
    found = made._known(PICTURE, taken, {0: Settled(Reply("a", confidence=0.4), origin)}, options())
    assert found == {0: Known(Provenance(certainties[0], origin)), 1: Known(Provenance(certainties[1], Origin()))}


NUMBERS = [(0, True), (1.0, True), (1.01, False), (-0.1, False), (True, False), ("0.5", False), (None, True)]


class TestProvenance:
    @pytest.mark.parametrize("field", ["confidence", "agreement"])
    @pytest.mark.parametrize(("value", "taken"), NUMBERS)
    def test_numbers_that_a_client_sends_back_are_from_0_to_1(self, field: str, value: Any, taken: bool):
        if not taken:
            with pytest.raises(ValueError, match=f"^{field}: "):
                Provenance.sent({field: value})
            return
        found = Provenance.sent({field: value})
        certain, agreed = Provenance(Certainty(value)), Provenance(None, Origin(None, value))
        assert found == (certain if field == "confidence" else agreed)

    def test_the_other_members_that_a_client_sends_back(self):
        assert Provenance.sent({}) == Provenance()
        assert Provenance.sent({"doubtful": True}) == Provenance(Certainty(None, True))
        assert Provenance.sent({"source": PAGE, "agreement": 0.5}) == Provenance(None, Origin(PAGE, 0.5))
        for bad in ({"doubtful": 1}, {"source": "me"}):
            with pytest.raises(ValueError, match="neither"):
                Provenance.sent(bad)

    @pytest.mark.parametrize(
        ("one", "other", "both"),
        [
            ((0.4, False, VLM, 0.9, False), (0.6, True, PAGE, 0.8, False), (0.4, True, VLM, 0.8, False)),
            ((None, False, PAGE, None, True), (0.6, False, PAGE, 0.8, False), (0.6, False, PAGE, 0.8, True)),
            ((None, False, None, None, False), (None, False, None, None, False), (None, False, None, None, False)),
        ],
    )
    def test_a_text_of_two_has_the_least_of_both(self, one: Any, other: Any, both: Any):
        first, second, expected = (Provenance(Certainty(*said[:2]), Origin(*said[2:])) for said in (one, other, both))
        assert first.with_other(second) == second.with_other(first) == expected
        assert first.with_other(Provenance()) == Provenance().with_other(first) == first
        assert Provenance.thawed(first.frozen()) == first and Provenance.thawed(Provenance().frozen()) == Provenance()
        at = [
            SimpleNamespace(global_block_id=number, global_group_id=group) for number, group in ((0, 0), (1, 0), (2, 2))
        ]
        assert joined(at, [first, second, second]) == [expected, Provenance(Certainty(), Origin()), second]

    @pytest.mark.parametrize(("doubtful", "differs"), [(True, False), (False, True), (False, False)])
    def test_what_an_answer_says(self, doubtful: bool, differs: bool):
        entry: Any = {}
        add_members([entry], [Provenance(Certainty(0.5, doubtful), Origin(VLM, 0.25, differs))])
        told = {"confidence": 0.5, "doubtful": doubtful or differs, "source": VLM, "agreement": 0.25}
        assert entry == told


@pytest.mark.parametrize(
    ("box", "place"),
    [
        ((0, 45, 40, 55), 2),  # behind the one above it in its column
        ((60, 45, 90, 55), 4),
        ((0, 0, 40, 5), 0),  # before the first of its column, where none is above
        ((60, 0, 90, 5), 3),
        ((45, 25, 55, 28), 1),  # in no column: before what is below it
        ((45, 95, 55, 99), 5),
    ],
)
def test_where_a_block_that_was_not_found_belongs(box: Any, place: int):
    found: list[Any] = [(0, 10, 40, 20), (0, 30, 40, 40), (0, 60, 40, 80), (60, 10, 90, 40), (60, 60, 90, 80)]
    assert _position(box, found) == place


def test_calls_of_a_page_end_with_it_and_what_is_given_is_not_asked():
    made, ended = page_loop(), threading.Event()
    asked: list[tuple[str, Any]] = []

    def start(name: str, read: Any) -> str:
        asked.append((name, read.args[0]))
        return name

    laid = blocks("text", "text", "text")
    laid.questions.update({number: Question(PICTURE, str(number), 1, 2) for number in range(3)})
    made.vlm = SimpleNamespace(start=start)
    run: Any = SimpleNamespace(
        check=lambda: None,
        calling=lambda call: call,
        replies=lambda calls, given, settle: (calls, given, settle(0, Reply("b"))),
        end_calls=ended.set,
    )
    given = {1: Settled(Reply("own"))}
    reading: Any = SimpleNamespace(block=print)
    task = PageTask(PICTURE, options(), reading, request_id="r-p1")
    found = made._ask(Taken(laid, {}, given), task, run)
    assert found == ({0: "r-p1-b0", 2: "r-p1-b2"}, given, Settled(Reply("b")))
    assert [(name, question.prompt) for name, question in asked] == [("r-p1-b0", "0"), ("r-p1-b2", "2")]
    assert ended.is_set()
