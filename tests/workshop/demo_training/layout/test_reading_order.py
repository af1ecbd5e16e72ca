# SPDX-License-Identifier: Apache-2.0
"""Reading order of made-up and of drawn layouts, from boxes alone."""

import numpy as np
import paddle
import pytest

from demo_training.layout.reading_order import reading_keys
from demo_training.pages.documents import draw_page
from demo_training.pages.labels import DRAWN, MARGINAL


def order(blocks: list[tuple[str, tuple[float, float, float, float]]]) -> list[int]:
    boxes = np.array([[box for _, box in blocks]], np.float32)
    kind = np.array([[DRAWN.index(label) for label, _ in blocks]])
    key, tie = reading_keys(paddle.to_tensor(boxes), paddle.to_tensor(kind), paddle.ones(kind.shape, dtype="bool"))
    return [int(index) for index in np.lexsort((-tie.numpy()[0], key.numpy()[0]))]


LEFT, RIGHT, WHOLE = (80, 380), (420, 720), (80, 720)


def text(columns, top, bottom, label="text"):
    return label, (columns[0], top, columns[1], bottom)


@pytest.mark.parametrize(
    "layout",
    [
        pytest.param([text(WHOLE, 100, 150), text(WHOLE, 170, 300), text(WHOLE, 320, 500)], id="one column"),
        pytest.param(
            [
                text(WHOLE, 60, 100, "doc_title"),
                text(LEFT, 120, 300),
                text(LEFT, 320, 600),
                text(RIGHT, 120, 200),
                text(RIGHT, 220, 640),
            ],
            id="two columns under a title",
        ),
        pytest.param(
            [
                text(LEFT, 100, 300),
                text(RIGHT, 100, 290),
                text(WHOLE, 320, 420, "table"),
                text(LEFT, 440, 700),
                text(RIGHT, 440, 600),
            ],
            id="a table across two columns",
        ),
        pytest.param(
            [
                text(LEFT, 100, 300),
                text(RIGHT, 100, 290),
                text((360, 440), 320, 345, "paragraph_title"),
                text((80, 150), 360, 380),
                text(LEFT, 400, 600),
                text(RIGHT, 360, 600),
            ],
            id="a short centred heading between columns",
        ),
        pytest.param(
            [text((80, 250), 80, 140), text((600, 720), 160, 180), text((80, 260), 200, 260), text(WHOLE, 300, 400)],
            id="a letter's date on the right",
        ),
        pytest.param(
            [
                text((330, 470), 60, 100, "doc_title"),
                text((80, 300), 120, 200),
                text((440, 700), 120, 220),
                text(WHOLE, 240, 500, "table"),
            ],
            id="two addresses under a title",
        ),
        pytest.param(
            [
                text((80, 300), 120, 200),
                text((440, 700), 120, 220),
                text(WHOLE, 240, 500, "table"),
                text((560, 720), 520, 560),
                text((80, 200), 580, 600, "paragraph_title"),
                text(WHOLE, 610, 650),
            ],
            id="totals on the right under an invoice's table",
        ),
        pytest.param(
            [
                text((500, 720), 30, 45, "header"),
                text(LEFT, 80, 400),
                text(RIGHT, 80, 420),
                text(WHOLE, 700, 715, "footnote"),
                text((80, 300), 760, 775, "footer"),
                text((690, 720), 760, 775, "number"),
            ],
            id="header first, footnote and footer last",
        ),
    ],
)
def test_made_up_layouts(layout):
    shuffled = [3, 1, 4, 0, 5, 2]
    shuffled = [index for index in shuffled if index < len(layout)]
    found = order([layout[index] for index in shuffled])
    assert [shuffled[index] for index in found] == list(range(len(layout)))


def test_invalid_boxes_do_not_matter():
    blocks = [
        text(LEFT, 100, 300),
        text(RIGHT, 100, 300),
        text(LEFT, 320, 500),
        text(RIGHT, 320, 500),
        text(WHOLE, 302, 318),
    ]
    boxes = paddle.to_tensor(np.array([[box for _, box in blocks]], np.float32))
    kind = paddle.zeros([1, 5], dtype="int64")
    valid = paddle.to_tensor([[True, True, True, True, False]])
    key = reading_keys(boxes, kind, valid)[0].numpy()[0]
    assert list(np.argsort(key[:4])) == [0, 2, 1, 3]
    key = reading_keys(boxes, kind, paddle.ones([1, 5], dtype="bool"))[0].numpy()[0]
    assert list(np.argsort(key)) == [0, 1, 4, 2, 3]


def test_drawn_pages():
    """From true boxes with the detector's jitter, at most one page in fifty is out of order."""
    wrong = []
    for seed in range(3_000_000, 3_000_050):
        page = draw_page(seed, "heldout")
        width, height = page.image.size
        scale = np.array([800 / width, 800 / height] * 2)
        jitter = np.random.default_rng(seed).normal(0, 0.7, (len(page.blocks), 4))
        blocks = [
            (block.label, tuple((np.array(block.bbox) + [-4, -4, 4, 4]) * scale + shift))
            for block, shift in zip(page.blocks, jitter)
        ]
        body = [index for index in order(blocks) if blocks[index][0] not in MARGINAL]
        if body != sorted(body):
            wrong.append(seed)
    assert len(wrong) <= 1, wrong
