# SPDX-License-Identifier: Apache-2.0
"""The package under the page: what it calls inside PaddleX has the signatures, and gives the result, that were checked.

Where this fails, PaddleX has changed: read what changed, and what the page makes of it, before CHECKED is raised.
`python tests/parser/page/test_paddlex_private.py` prints what stands in GOLDEN.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import inspect
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from paddlex.inference.models.layout_analysis.predictor import LayoutAnalysisRunnerPredictor
from paddlex.inference.models.layout_analysis.processors import LayoutAnalysisProcess
from paddlex.inference.pipelines.components import CropByBoxes
from paddlex.inference.pipelines.paddleocr_vl.pipeline import _PaddleOCRVLPipeline

from docparser.page import paddlex_private as theirs

GOLDEN = Path(__file__).with_name("paddlex_golden.json")
# Function: its parameters.
SIGNATURES: dict[Callable[..., Any], str] = {
    _PaddleOCRVLPipeline._paddleocr_vl_collect_page_vlm_entries_core: (
        "self page_idx blocks_for_img imgs_in_doc_for_img layout_prep_cfg"
    ),
    _PaddleOCRVLPipeline._paddleocr_vl_assemble_parsing_results: (
        "self blocks batch_dict_by_pixel id2pixel_key_map drop_figures_set vis_image_labels"
    ),
    _PaddleOCRVLPipeline.restructure_pages: "self res_list merge_tables relevel_titles concatenate_pages",
    theirs.PaddleOCRVLResult._to_markdown: "self pretty show_formula_number",
    theirs.PaddleOCRVLResult._build_handle_funcs_dict: "self pretty",
    theirs.MarkdownConverter.convert: (
        "blocks handle_funcs_dict show_formula_number use_seg_flag get_seg_flag_func imgs_in_doc"
    ),
    theirs.create_predictor: (
        "model_name model_dir device engine engine_config batch_size pp_option use_hpip hpi_config genai_config kwargs"
    ),
    theirs.ToBatch.__call__: "self datas",
    theirs.ToBatch.apply: "self datas key dtype",
    LayoutAnalysisRunnerPredictor.__init__: "self args img_size kwargs",
    LayoutAnalysisRunnerPredictor._format_output: "self pred",
    LayoutAnalysisProcess.__call__: (
        "self batch_outputs datas threshold layout_nms layout_unclip_ratio layout_merge_bboxes_mode layout_shape_mode "
        "filter_overlap_boxes skip_order_labels"
    ),
    CropByBoxes.__call__: "self img boxes layout_shape_mode",
    theirs.filter_overlap_boxes: "layout_det_res layout_shape_mode",
    theirs.merge_blocks: "blocks non_merge_labels layout_shape_mode",
    theirs.gather_imgs: "original_img layout_det_objs",
    theirs.construct_img_path: "label box",
    theirs.convert_otsl_to_html: "otsl_content",
    theirs.untokenize_figure_of_table: "table_res_str figure_token_map image_path_to_obj_map",
}
# A page of 800 x 1000 pixels: label, corners.
BOXES: list[tuple[str, int, int, int, int]] = [
    ("doc_title", 60, 20, 740, 70),
    ("text", 50, 100, 380, 300),
    ("text", 420, 90, 750, 200),
    ("text", 421, 92, 749, 198),
    ("display_formula", 50, 320, 380, 380),
    ("formula_number", 390, 330, 420, 370),
    ("table", 50, 400, 750, 700),
    ("image", 100, 420, 300, 600),
    ("chart", 50, 720, 380, 900),
    ("seal", 600, 720, 750, 860),
    ("header", 50, 2, 750, 15),
]
TEXTS = {
    "doc_title": "A title",
    "text": "1. words \\(a_1\\)\nand more",
    "display_formula": "\\[ a + b \\]",
    "formula_number": "(1)",
    "table": "<fcel>a<fcel>[F3]<nl><fcel>b<lcel><nl>",
}
SETTINGS = {
    "use_doc_preprocessor": False,
    "use_layout_detection": True,
    "use_chart_recognition": False,
    "use_seal_recognition": False,
    "use_ocr_for_image_block": False,
    "format_block_content": False,
    "merge_layout_blocks": True,
    "markdown_ignore_labels": ["header"],
}


def digest(picture: np.ndarray) -> str:
    return hashlib.sha256(repr(picture.shape).encode() + np.ascontiguousarray(picture).tobytes()).hexdigest()[:16]


def golden() -> dict[str, Any]:
    """What PaddleX makes of one page, step by step."""
    page = np.random.default_rng(1).integers(0, 255, (1000, 800, 3), np.uint8)
    found = [
        {"cls_id": 0, "label": label, "score": 0.9, "coordinate": list(box), "order": number, "polygon_points": None}
        for number, (label, *box) in enumerate(BOXES)
    ]
    figures = theirs.gather_imgs(page, found)
    unread = [*theirs.IMAGE_LABELS, "chart", "seal"]
    kept = theirs.filter_overlap_boxes({"boxes": found}, "rect")["boxes"]
    blocks = theirs.merged_blocks(theirs.cut_blocks(page, kept, "rect"), unread)
    bounds = {f"{kind}_{end}_pixels": 1000 for kind in ("ocr", "table", "formula") for end in ("min", "max")}
    reading = {"image_labels": unread, "use_chart_recognition": False, "use_seal_recognition": False, **bounds}
    asked, spotting, inside = theirs.crops_and_prompts(blocks, figures, reading)
    texts = {number: TEXTS.get(blocks[number]["label"], "other") for _, number, *_ in asked}
    tokens = {number: tokens for _, number, *_, tokens in asked}
    plain = [{**block, "img": block["img"]} for block in blocks]
    assembled, spotted = theirs.assembled_blocks(plain, texts, tokens, unread)
    page_of = {
        **{"input_path": None, "page_index": 0, "page_count": None, "width": 800, "height": 1000},
        **{"doc_preprocessor_res": None, "layout_det_res": None, "table_res_list": [], "imgs_in_doc": figures},
        **{"spotting_res": spotted, "parsing_res_list": assembled, "model_settings": SETTINGS},
    }
    result = theirs.PaddleOCRVLResult(page_of)
    return {
        "figures": [[figure["path"], digest(np.asarray(figure["img"]))] for figure in figures],
        "kept": [[box["label"], box["coordinate"]] for box in kept],
        "blocks": [[block["label"], list(map(int, block["box"])), block.get("group_id")] for block in blocks],
        "asked": [
            [number, digest(crop), prompt, list(pixels), tokens] for _, number, crop, prompt, pixels, tokens in asked
        ],
        "spotting": spotting,
        "inside": sorted(inside),
        "contents": [[block.label, block.content] for block in assembled],
        "markdown": {
            str(pretty): theirs.markdown_of(result, pretty=pretty, formula_numbers=pretty)["markdown_texts"]
            for pretty in (True, False)
        },
        "of two blocks": theirs.markdown_of_blocks(result, assembled[:2], {}, pretty=False, formula_numbers=False),
        "restructured": [
            [block.label, block.global_block_id, block.global_group_id]
            for page in theirs.restructured_pages(
                [result], merge_tables=True, relevel_titles=True, concatenate_pages=False
            )
            for block in page["parsing_res_list"]
        ],
    }


def test_the_version_that_was_checked():
    assert importlib.metadata.version("paddlex") == theirs.CHECKED


@pytest.mark.parametrize("function", SIGNATURES, ids=lambda function: function.__qualname__)
def test_the_signatures_that_were_checked(function: Callable[..., Any]):
    assert list(inspect.signature(inspect.unwrap(function)).parameters) == SIGNATURES[function].split()


def test_the_result_that_was_checked():
    assert json.loads(json.dumps(golden())) == json.loads(GOLDEN.read_text())


@pytest.mark.parametrize(
    ("label", "said", "comes"),
    [
        ("text", r"A unit costs $5 and the rate \(r\) rises to $7", "A unit costs $5 and the rate  $ r $ rises to $7"),
        ("text", r"$HOME, \[a_1\] and $$", "$HOME,  $$ a_1 $$  and $$"),
        ("text", r"$x^2$ and \(\$y\)", r"$x^2$ and  $ \y $"),
        ("text", r"sed 's/\(foo\)/\1/' costs $5", r"sed 's/\(foo\)/\1/' costs $5"),
        ("text", r"find . \( -name a -o -name b \) for \(x\)", r"find . \( -name a -o -name b \) for  $ x $"),
        ("display_formula", r"\[\[ a + b \]\]", " $$  a + b  $$ "),
        ("formula_number", r"\((1)\)", "  (1) "),
        ("table", r"<fcel>$5<fcel>\(x\)<nl>", "<table><tr><td>$5</td><td>$ x $</td></tr></table>"),
    ],
)
def test_printed_dollars_and_expressions_stay_beside_a_formula(label: str, said: str, comes: str):
    block = {"label": label, "box": [0, 0, 9, 9], "img": np.zeros((9, 9, 3), np.uint8)}
    (assembled,), _ = theirs.assembled_blocks([block], {0: said}, {0: {}}, [])
    assert assembled.content == comes


def test_printed_dollars_stay_in_spotted_texts():
    block = {"label": "spotting", "box": [0, 0, 9, 9], "img": np.zeros((9, 9, 3), np.uint8)}
    spots = "".join(f"{text}<|LOC_1|><|LOC_1|><|LOC_9|><|LOC_1|><|LOC_9|><|LOC_9|><|LOC_1|><|LOC_9|>\n"
                    for text in ("$5", r"\(x\)"))  # fmt: skip
    _, spotted = theirs.assembled_blocks([block], {0: spots}, {0: {}}, [])
    assert [text.strip() for text in spotted["rec_texts"]] == ["$5", "$ x $"]


def test_a_pipeline_without_models_has_nothing_that_its_steps_use():
    """Its steps are called on PaddleX's own object; were one to need a model, the object would lack it."""
    assert not hasattr(theirs._PIPELINE, "layout_det_model") and not hasattr(theirs._PIPELINE, "vl_rec_model")


if __name__ == "__main__":
    print("{\n" + ",\n".join(f"{json.dumps(name)}: {json.dumps(found)}" for name, found in golden().items()) + "\n}")
