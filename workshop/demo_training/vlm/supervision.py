# SPDX-License-Identifier: Apache-2.0
"""Losses of the demo training, and the auxiliary heads that are dropped afterwards.

Next-token loss alone does not teach so small a model to read in hours. What does: telling the
vision tower which character lies under each patch, and telling one attention head of some
language layers which image token shows the character that comes next. Both are known, because
the text was drawn here.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .config import DemoConfig
from .crops import GLYPHS, IGNORE, MAX_LINES, PAPER, POINTS, SPACE

# Layers whose head 0 is shown where to look: first where the last token was, then where the next one is.
WATCHED = {1: "current", 2: "next", 3: "next2", 5: "next3"}
PAPER_WEIGHT, SPACE_WEIGHT = 0.1, 0.5


class GlyphHead(nn.Module):
    """Reads characters, neighbours and line number off the tower's output [B, P, hidden]."""

    def __init__(self, c: DemoConfig):
        super().__init__()
        self.sizes = [GLYPHS * len(POINTS), GLYPHS * 2, MAX_LINES]
        self.out = nn.Linear(c.vision_hidden, sum(self.sizes))
        weight = torch.ones(GLYPHS)
        weight[PAPER], weight[SPACE] = PAPER_WEIGHT, SPACE_WEIGHT
        self.weight: Tensor
        self.register_buffer("weight", weight, persistent=False)

    def forward(self, features: Tensor, glyph: Tensor, context: Tensor, line: Tensor) -> dict[str, Tensor]:
        keep = (glyph[..., 1] != IGNORE) & ((glyph[..., 1] != PAPER) | (torch.rand(line.shape) < 0.2))
        glyph, context, line = glyph[keep], context[keep], line[keep]
        characters, around, number = self.out(features[keep]).split(self.sizes, -1)
        characters, around = characters.unflatten(-1, (len(POINTS), GLYPHS)), around.unflatten(-1, (2, GLYPHS))
        inked = (glyph[:, 1] < SPACE) & (glyph[:, 1] >= 0)
        return {
            "glyph": F.cross_entropy(characters.flatten(0, 1), glyph.flatten(), self.weight, ignore_index=IGNORE),
            "context": F.cross_entropy(around.flatten(0, 1), context.flatten(), self.weight, ignore_index=IGNORE),
            "line": F.cross_entropy(number, line, ignore_index=IGNORE),
            "glyph_accuracy": (characters[inked, 1].argmax(-1) == glyph[inked, 1]).float().mean(),
        }


def reading_loss(logits: Tensor, targets: Tensor) -> dict[str, Tensor]:
    """Next-token loss and accuracy; logits [B, T, V], targets [B, T] with IGNORE where nothing is asked."""
    flat, wanted = logits.flatten(0, 1), targets.flatten()
    asked = wanted != IGNORE
    flat, wanted = flat[asked], wanted[asked]
    return {
        "token": F.cross_entropy(flat, wanted, label_smoothing=0.0),
        "token_accuracy": (flat.argmax(-1) == wanted).float().mean(),
    }


def looking_loss(watched: dict[str, Tensor], cells: Tensor, before: int) -> dict[str, Tensor]:
    """How far each watched head is from looking at the right image tokens.

    cells [B, T, 2]: first and last image token that show the token to come (IGNORE: unknown);
    ``before`` prompt tokens stand ahead of the image among the keys.
    """
    losses = {}
    for name, report in watched.items():
        wanted = cells.roll(1, 1) if name == "current" else cells
        known = wanted[..., 0] != IGNORE
        if name == "current":
            known = known & (cells[..., 0] != IGNORE)
            known[:, 0] = False
        index = (wanted + before).clamp(min=0)
        found = report.gather(-1, index)  # [B, T, 2] log-probabilities
        same = index[..., 0] == index[..., 1]
        total = torch.where(same, found[..., 0], torch.logsumexp(found, -1))
        losses[f"look_{name}"] = -total[known].mean()
    return losses
