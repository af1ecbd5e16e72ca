# SPDX-License-Identifier: Apache-2.0
"""Draw the self-test's block of Chinese. Run in workshop, in the environment parser:

    PYTHONPATH=../common ../.venvs/parser/bin/python -m demo_training.test_data.chinese_block

The font is WenQuanYi Micro Hei (Debian's fonts-wqy-microhei).
"""

from __future__ import annotations

from PIL import Image, ImageDraw, ImageFont

from selftest.chinese import LINES, PICTURE

FONT, SIZE, MARGIN, PITCH = "/usr/share/fonts/truetype/wqy/wqy-microhei.ttc", 26, 8, 38


def main() -> None:
    font = ImageFont.truetype(FONT, SIZE)
    width = max(int(font.getlength(line)) for line in LINES) + 2 * MARGIN
    page = Image.new("L", (width, PITCH * len(LINES) + MARGIN), 255)
    draw = ImageDraw.Draw(page)
    for number, line in enumerate(LINES):
        draw.text((MARGIN, MARGIN // 2 + PITCH * number), line, 0, font)
    page.save(PICTURE, optimize=True)


if __name__ == "__main__":
    main()
