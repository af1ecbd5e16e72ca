# SPDX-License-Identifier: Apache-2.0
"""The transformers class on the weights that ``published_shape.py`` wrote: ``published_in_torch.py FOLDER``.

Runs in the environment `reference`. Prints one JSON object: the largest distances of its raw outputs from the Paddle
class's, and the anchors that only one of the two takes for inside the page.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import PPDocLayoutV2ForObjectDetection


def main(folder: Path) -> None:
    raw = np.load(folder / "raw.npz")
    # Annotated for one model; with its loading info there are two.
    opened: Any = PPDocLayoutV2ForObjectDetection.from_pretrained(folder, output_loading_info=True)
    model, loaded = opened
    model.double().eval()
    grids = ((100, 100), (50, 50), (25, 25))
    anchors, inside = model.model.generate_anchors(grids)
    # Anchors half a cell from the edge lie at 0.01, the bound itself, so rounding decides: both get the same ones.
    known = torch.from_numpy(raw["anchors"]).nan_to_num(posinf=torch.finfo(torch.float32).max)
    model.model.generate_anchors = lambda *_, **__: (known, torch.from_numpy(raw["inside"]))
    with torch.no_grad():
        found = model.model(torch.from_numpy(raw["image"]).double())
    logits, boxes = found.intermediate_logits[0, -1].numpy(), found.intermediate_reference_points[0, -1].numpy()
    both = (inside.numpy() & raw["inside"])[..., 0]
    differing = (inside.numpy() != raw["inside"])[..., 0]
    print(
        json.dumps(
            {
                "missing": sorted(key for key in loaded["missing_keys"] if not key.endswith("num_batches_tracked")),
                "unexpected": sorted(loaded["unexpected_keys"]),
                "logits": float(np.abs(logits - raw["logits"]).max()),
                "boxes": float(np.abs(boxes - raw["boxes"]).max()),
                "spread": float(raw["logits"].std()),
                "anchors": float(np.abs(anchors.numpy() - raw["anchors"])[both].max()),
                "differing_anchors": int(differing.sum()),
                "differing_distance": float(
                    np.abs(1 / (1 + np.exp(-known.numpy().clip(-50, 50)[differing])) - 0.01).min(-1).max(initial=0)
                ),
            }
        )
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
