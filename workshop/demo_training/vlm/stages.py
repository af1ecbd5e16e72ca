# SPDX-License-Identifier: Apache-2.0
"""The curriculum: what the model sees, and for how many steps.

First the vision tower alone learns to tell characters, then the language model learns to follow one line, then
paragraphs at the sizes PaddleOCR's client sends.
"""

from __future__ import annotations

import dataclasses

from .crops import Stage

# What the pipeline sends, as well as it can be drawn; `settle` averages more crops a step while the rate falls.
PAGE = Stage(
    600,
    lines=(1, 12),
    widths=(100, 1120),
    natural=0.9,
    tokens=(16, 620),
    stacked=0.15,
    wider=0.08,
    patches=6000,
    small=1.2,
    short=0.12,
    tower_every=2,
)
SETTLE = dataclasses.replace(PAGE, steps=540, batches=2)
STAGES = {
    "letters": Stage(625, reading=False, strange=(0.3, 1.0)),
    "line": Stage(175, lines=(1, 1), widths=(60, 420), tokens=(6, 80)),
    "few": Stage(250, lines=(1, 3), widths=(100, 600), tokens=(16, 160), natural=0.4),
    "mixed": dataclasses.replace(PAGE, steps=380, short=0.0, tower_every=3),
    "follow": Stage(330, lines=(1, 4), widths=(60, 520), natural=0.3, tokens=(6, 150), small=0.7, tower_every=2),
    "page": PAGE,
    "settle": SETTLE,
}
# For weights that read already (--init): the auxiliary heads, which are not exported, come first. What such weights
# get wrong is the smallest print at its own size, where attention is right but a cell of 28 px holds three letters.
WIDE = dataclasses.replace(
    PAGE,
    steps=300,
    lines=(1, 8),
    widths=(240, 1120),
    narrow=0.2,
    natural=0.75,
    tokens=(24, 640),
    small=0.6,
    short=0.05,
    wider=0.15,
    patches=3500,
    batches=2,
)
PROSE = dataclasses.replace(
    WIDE,
    steps=1400,
    lines=(1, 16),
    long=0.6,
    widths=(300, 1120),
    narrow=0.45,
    small=0.1,
    strange=(0.02, 0.4),
    echo=0.04,
    phrases=0.035,
    natural=0.85,
    short=0.08,
    stacked=0.2,
    wider=0.1,
    fine=0.35,
)
# Pages that people bring: set by TeX, Chromium and LibreOffice, in bands of a few lines, as the parser cuts them.
PRINTED = dataclasses.replace(
    PROSE,
    steps=1800,
    lines=(1, 6),
    long=0.0,
    tokens=(24, 1280),
    small=0.3,
    strange=(0.02, 0.3),
    topics=0.3,
    printed=0.65,
    short=0.12,
    natural=0.9,
    tower_every=1,
)
REFINE = {
    "heads": Stage(200, reading=False, frozen=True, strange=(0.3, 1.0), natural=0.5, tokens=(16, 400)),
    "wide": WIDE,
    "fine": dataclasses.replace(
        WIDE, steps=400, lines=(1, 4), widths=(120, 800), tokens=(10, 220), fine=0.85, tower_every=1
    ),
    "settle": dataclasses.replace(WIDE, steps=960, lines=(1, 12), short=0.1, stacked=0.35, wider=0.2, fine=0.4),
    # Long lines of small print over a whole page's width, where a phrase was lost or said twice.
    "long": dataclasses.replace(
        WIDE, steps=800, lines=(1, 8), narrow=0.1, small=0.3, echo=0.06, short=0.08, stacked=0.25, wider=0.15, fine=0.35
    ),
    # What was left after that: five such lines of the smallest print.
    "rows": dataclasses.replace(
        WIDE,
        steps=240,
        widths=(400, 1120),
        narrow=0.15,
        tokens=(60, 640),
        small=0.2,
        echo=0.06,
        stacked=0.25,
        fine=0.55,
    ),
    # And more of it, over the whole width.
    "print": dataclasses.replace(
        WIDE,
        steps=1500,
        widths=(560, 1120),
        narrow=0.1,
        tokens=(40, 640),
        small=0.1,
        echo=0.06,
        stacked=0.2,
        wider=0.1,
        fine=0.6,
    ),
    # Single lines and stacked columns again, which the stages above had made rare.
    "round": dataclasses.replace(
        WIDE,
        steps=740,
        lines=(1, 12),
        widths=(300, 1120),
        narrow=0.2,
        small=0.15,
        echo=0.05,
        short=0.1,
        stacked=0.35,
        fine=0.5,
    ),
    # Prose: long paragraphs, narrow ones too, in which whole phrases come again.
    "prose": PROSE,
    # And as large as the client sends them: 640 to 1280 image tokens come from long paragraphs of large print.
    "topics": dataclasses.replace(
        PROSE, steps=560, tokens=(24, 1280), small=0.4, strange=(0.02, 0.3), phrases=0.03, topics=0.6
    ),
    "printed": PRINTED,
    # More terms in a typewriter's face and words in capitals, and more of the core range, which the stage before had
    # made worse.
    "polish": dataclasses.replace(PRINTED, steps=700, printed=0.55, small=0.2),
    # Names, options, commands and capitals, of which the shelf has more since this stage.
    "terms": dataclasses.replace(PRINTED, steps=800, printed=0.65, small=0.25, topics=0.2),
    # Single letters of the core range that went wrong again.
    "core": dataclasses.replace(PRINTED, steps=380, printed=0.4, small=0.2, topics=0.2),
}
SMOKE = {
    "letters": Stage(12, reading=False, patches=3000),
    "line": Stage(8, patches=3000),
    "page": Stage(4, lines=(1, 4), widths=(100, 400), natural=1.0, tokens=(100, 400), stacked=0.2, patches=3000),
}


def stage_at(schedule: list[Stage], step: int) -> Stage:
    for stage in schedule:
        if step < stage.steps:
            return stage
        step -= stage.steps
    return schedule[-1]
