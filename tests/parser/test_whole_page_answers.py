# SPDX-License-Identifier: Apache-2.0
"""What an answer makes of a whole page, the recipes, and the options: without a service."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
import yaml

from docparser.contract.schemas import ParseOptions
from docparser.contract.tasks import OF_LAYOUT, Tasks
from docparser.errors import NotReady
from docparser.models.served_model import ServedModel
from docparser.settings import Settings
from docparser.vlm.repetition import PAGE, cut_repetition, repeated_tail
from docparser.weights import Recipe, pipeline_file, reads_whole_pages, served_model
from docparser.whole_page import blocks_in, formula_of, texts_of
from reference.prompts import OF_FAMILY
from tests.support.paths import ROOT

CONFIG = yaml.safe_load((ROOT / "config/models.yaml").read_text(encoding="utf-8"))
WHOLE = [name for name, entry in CONFIG["models"].items() if entry["layout"] == "none"]
SIZE = 800, 1000
PAGE_BOX = (0, 0, *SIZE)


def labels(markdown: str) -> list[tuple[str, str]]:
    blocks = blocks_in(markdown, PAGE_BOX)
    assert all(block.box == PAGE_BOX for block in blocks)
    return [(block.label, block.content) for block in blocks]


def test_markdown_in_blocks():
    text = (
        "# A report\n\nFirst line\nsecond line\n \n\nAnother\n## 2.1 Costs ##\n"
        "Before<table><tr><td>a</td></tr></table>behind\n$$\nx^2\n$$\n\\[y\\]\n"
        "```python\n# no title\n\nprint()\n```\n| a | b |\n|---|:-:|\n| 1 | 2 |\n- one\n- two\n"
    )
    assert labels(text) == [
        ("doc_title", "A report"),
        ("text", "First line\nsecond line"),
        ("text", "Another"),
        ("paragraph_title", "2.1 Costs"),
        ("text", "Before"),
        ("table", "<table><tr><td>a</td></tr></table>"),
        ("text", "behind"),
        ("display_formula", "$$\nx^2\n$$"),
        ("display_formula", "\\[y\\]"),
        ("algorithm", "```python\n# no title\n\nprint()\n```"),
        ("table", "| a | b |\n|---|:-:|\n| 1 | 2 |"),
        ("text", "- one\n- two"),
    ]
    assert [block.title_level for block in blocks_in("# a\n## b\n###### c", PAGE_BOX)] == [None, 1, 5]
    assert labels("```markdown\n# a\n```") == [("doc_title", "a")], (
        "a fence around the whole answer is none of the page"
    )
    assert labels(" \n ") == []


@pytest.mark.parametrize(
    ("answer", "last"),
    [
        ("a\n\n<table><tr><td>cut", ("table", "<table><tr><td>cut")),
        ("a\n$$x", ("display_formula", "$$x")),
        ("a\n```\n# x\n", ("algorithm", "```\n# x")),
        ("|\n|\n|", ("text", "|\n|\n|")),
    ],
)
def test_markdown_that_is_cut(answer: str, last: tuple[str, str]):
    assert labels(answer)[-1] == last


def test_a_formula_has_its_signs():
    assert [block.content for block in formula_of("x^2", PAGE_BOX)] == ["$$x^2$$"]
    assert [block.content for block in formula_of("$$x$$", PAGE_BOX)] == ["$$x$$"]
    assert formula_of(" ", PAGE_BOX) == []


def test_places_become_pixels():
    blocks, troubles = texts_of("Total (net)(100,200),(500,300)due 重( 0 , 0.5 ), (1000,1000)", 1000, SIZE)
    assert [(block.label, block.content, block.box) for block in blocks] == [
        ("text", "Total (net)", (80, 200, 400, 300)),
        ("text", "due 重", (0, 0, 800, 1000)),
    ]
    assert troubles is None


@pytest.mark.parametrize(
    ("answer", "texts", "words"),
    [
        ("a(-5,10),(2000,99999)", [("a", (0, 10, 800, 1000))], "1 whose places reach beyond the page"),
        ("a(500,300),(100,200)", [("a", (80, 200, 400, 300))], None),
        ("a(5,5),(5,900)", [("a", PAGE_BOX)], "1 without a place on the page"),
        ("a(1001,0),(1200,50)", [("a", PAGE_BOX)], "1 without a place on the page"),
        ("no places at all", [("no places at all", PAGE_BOX)], "1 without a place on the page"),
        ("(1,2),(3,4)(100,200),(300,400)", [], "2 that are places without a text"),
        ("a(1,2),(3", [("a(1,2),(3", PAGE_BOX)], "1 without a place on the page"),
        ("a(1,2,3,4)(x,2),(3,4)", [("a(1,2,3,4)(x,2),(3,4)", PAGE_BOX)], "1 without a place"),
        ("a(٣,2),(30,40)", [("a(٣,2),(30,40)", PAGE_BOX)], "1 without a place"),
        ("", [], None),
    ],
)
def test_places_that_are_wrong(answer: str, texts: list[Any], words: str | None):
    blocks, troubles = texts_of(answer, 1000, SIZE)
    assert [(block.content, block.box) for block in blocks] == texts
    assert troubles is None if words is None else words in str(troubles)


def test_no_text_is_lost_and_no_box_leaves_the_page():
    """Generated answers: signs of both formats, in any order."""
    chance = random.Random(16)
    signs = [
        "(",
        ")",
        ",",
        "-",
        "1",
        "999",
        "1001",
        ".",
        " ",
        "\n",
        "|",
        "#",
        "$$",
        "```",
        "<table>",
        "</table>",
        "字",
        "a",
    ]
    for _ in range(2000):
        answer = "".join(chance.choices(signs, k=chance.randrange(60)))
        blocks, _ = texts_of(answer, 1000, SIZE)
        for left, top, right, bottom in (block.box for block in blocks):
            assert 0 <= left < right <= SIZE[0] and 0 <= top < bottom <= SIZE[1]
        assert sum(block.content.count("a") for block in blocks) == answer.count("a")
        said = "".join(block.content for block in blocks_in(answer, PAGE_BOX))
        assert said.count("a") == answer.count("a") and said.count("字") == answer.count("字")


@pytest.mark.parametrize(
    "piece", ["<table>", "$$\n", "```\n", "|\n", "(1,2),", "(1,2),(3,4", "# a\n", "\n \n", "(" * 9]
)
def test_long_answers_take_time_in_proportion(piece: str):
    """An answer has at most half a million characters; what took the square of it would not end here."""
    answer = piece * (500_000 // len(piece))
    texts_of(answer, 1000, SIZE)
    blocks_in(answer, PAGE_BOX)


class TestRunawayTails:
    ROW = "<tr><td>" + "</td><td>".join(["", "", "17", "", "", "x"]) + "</td></tr>"

    @pytest.mark.parametrize("piece", ["。", "ab", ROW, "A paragraph of some length. " * 40 + "Its end.\n\n"])
    def test_are_cut_to_one(self, piece: str):
        text = "A page.\n\n" + piece * (max(PAGE.least, PAGE.times * len(piece)) // len(piece) + 2)
        period = repeated_tail(text, PAGE)
        assert period and (period % len(piece) == 0 or len(piece) % period == 0)
        assert len(cut_repetition(text, period)) <= len("A page.\n\n") + 2 * len(piece)

    def test_are_found_where_their_last_characters_stand_in_a_piece_several_times(self):
        """As in rows of empty cells: the nearest earlier place of these characters is not a period away."""
        row = "<tr>" + "<td></td>" * 12 + "<td>x</td></tr>"
        text = "<table>" + row * 60 + "<tr>" + "<td></td>" * 8
        assert repeated_tail(text, PAGE) == len(row)

    def test_a_form_with_empty_cells_is_left_alone(self):
        assert repeated_tail("<td></td>" * 400, PAGE) == 0
        assert repeated_tail(("A long paragraph. " * 60 + "End.\n") * 9, PAGE) == 0, "nine times is less than ten"


def test_every_model_without_a_layout_model_has_a_recipe():
    assert WHOLE == ["Qwen2-VL-2B-Instruct", "Qwen2-VL-7B-Instruct", "HunyuanOCR", "HunyuanOCR-1.0"]
    for name in WHOLE:
        settings = Settings(vlm_model=name)
        assert reads_whole_pages(settings) and not reads_whole_pages(Settings())
        model, entry = served_model(settings), CONFIG["models"][name]
        recipe = Recipe.load(pipeline_file(settings), model.tasks)
        assert recipe.usual == "document" and tuple(recipe.prompts) == model.tasks
        assert recipe.prompts.items() <= OF_FAMILY[entry["family"]].items(), "the words of the reference tools"
        arguments = entry["arguments"]
        assert recipe.max_pixels == arguments["mm-processor-kwargs"]["max_pixels_bound"]
        block = 32 if entry["family"] == "hunyuan_vl" else 28
        # A row's end is a token too, and pages are no narrower than a twentieth of their height.
        tokens = recipe.max_pixels / block**2 + (recipe.max_pixels * 20) ** 0.5 / block + 100
        assert (
            tokens + recipe.max_tokens <= arguments["max-model-len"] and tokens <= arguments["max-num-batched-tokens"]
        )
        assert recipe.general == (entry["family"] == "qwen2_vl")


GOOD: dict[str, Any] = {"reads": "whole pages", "prompts": {"document": "x"}, "max_pixels": 100, "max_tokens": 10}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"reads": "blocks"}, "is no file of a model that reads whole pages"),
        ({"prompt": {}}, "the key 'prompt' is not known; expected any of general, max_pixels"),
        ({"prompts": {}}, "prompts is {}; expected a text for each task"),
        ({"prompts": {"document": 3}}, "expected a text for each task"),
        ({"prompts": {"ocr": "x"}}, "prompts lacks document, of the tasks in models.yaml"),
        ({"general": "yes"}, "general is 'yes'; expected true or false"),
        ({"max_pixels": True}, "max_pixels is True; expected a whole number from 1"),
        ({"max_tokens": 0}, "max_tokens is 0; expected a whole number from 1"),
        ({"max_tokens": None}, "max_tokens is None"),
    ],
)
def test_a_recipe_that_cannot_be_used(change: dict[str, Any], words: str):
    Recipe.from_data(GOOD, "r.yaml", ("document",))
    with pytest.raises(NotReady, match="^r.yaml: ") as caught:
        Recipe.from_data(GOOD | change, "r.yaml", ("document",))
    assert words in str(caught.value)


def test_a_recipe_that_cannot_be_read(tmp_path: Path):
    with pytest.raises(NotReady, match="PARSER_PIPELINE_CONFIG: .*cannot be read"):
        Recipe.load(tmp_path / "none.yaml")
    file = tmp_path / "r.yaml"
    file.write_text("prompts: [")
    with pytest.raises(NotReady, match="r.yaml is not YAML"):
        Recipe.load(file)
    file.write_text("reads: whole pages\nprompts: {document: x}\nmax_pixels: 1")
    with pytest.raises(NotReady, match="lacks the key 'max_tokens'"):
        Recipe.load(file)


class TestOptions:
    HUNYUAN = ServedModel.of(Settings(vlm_model="HunyuanOCR")).accepted()

    @pytest.mark.parametrize(
        ("asked", "task", "notes"),
        [
            ({}, "document", 0),
            ({"promptLabel": None, "layoutShapeMode": "auto", "useChartRecognition": False}, "document", 0),
            ({"promptLabel": "spotting"}, "spotting", 0),
            ({"promptLabel": "table", "useLayoutDetection": False}, "table", 0),
            # What WeKnora and others send with every document.
            ({"promptLabel": "ocr", "useLayoutDetection": True, "useSealRecognition": True}, "document", 2),
        ],
    )
    def test_the_task_of_a_page(self, asked: dict[str, Any], task: str, notes: int):
        options = ParseOptions.model_validate(asked)
        assert self.HUNYUAN.refusal(options) is None
        used, told = self.HUNYUAN.without_unknown(options)
        assert (used.promptLabel, used.useLayoutDetection, len(told)) == (task, False, notes)
        assert all(" has no effect: HunyuanOCR, which is served here, reads whole pages" in note for note in told)

    def test_what_is_refused(self):
        for field in ("useDocUnwarping", "useDocOrientationClassify"):
            words = self.HUNYUAN.refusal(ParseOptions.model_validate({field: True}))
            assert words == f"{field}: this service has no model for it; send false or leave it out"
        refusal = self.HUNYUAN.refusal(ParseOptions.model_validate({"promptLabel": "seal"}))
        assert refusal is not None and "knows document, spotting, ocr, table, formula, chart" in refusal

    def test_a_document_is_no_task_of_a_model_that_reads_blocks(self):
        options = ParseOptions.model_validate({"promptLabel": "document", "useLayoutDetection": False})
        for tasks in (ServedModel.of(Settings()).accepted(), Tasks("x", None)):
            assert "Ask a service that has a model that reads whole pages" in str(tasks.refusal(options))

    def test_the_fields_of_the_layout_are_fields(self):
        assert set(OF_LAYOUT) <= ParseOptions.model_fields.keys()
