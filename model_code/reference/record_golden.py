# SPDX-License-Identifier: Apache-2.0
"""Record what transformers reads in the golden blocks, in float32 on the CPU: what the self-test compares with. The
question is that of the weights' entry in config/models.yaml, and is recorded with the answers.

python -m reference.record_golden --model_path DIR > blocks.json
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

from selftest.check import MAX_NEW_TOKENS, blocks, question_of
from served_weights.settings import WeightSettings
from served_weights.vlm import recognised
from tool_errors import run

from .device import Device
from .families import check_checkpoint
from .prompts import Form


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model_path", type=Path, required=True, metavar="DIR")
    options = parser.parse_args()

    check_checkpoint(options.model_path)
    entry = recognised(options.model_path, WeightSettings.from_environment(os.environ).catalog)
    question = question_of(entry)

    import torch
    import transformers

    from .cases import Case
    from .media import read_image
    from .model import ReferenceModel

    model = ReferenceModel(options.model_path, Device("cpu"), "float32")
    recorded = []
    ((prompt, _),) = Form.of(options.model_path).split(question.prompt, 1)
    for path in blocks():
        case = Case(prompt, [read_image(path)], question.min_pixels, question.max_pixels)
        case.answer = model.generate(case, MAX_NEW_TOKENS)
        result = model.logits(case)
        count = len(case.answer)
        choosing = torch.log_softmax(result["logits"].double(), -1)[-count - 1 : -1]
        best = choosing.topk(2).values
        recorded.append(
            {
                "image": path.name,
                "text": model.tokenizer.decode(case.answer, skip_special_tokens=True),
                "tokens": case.answer,
                "logprobs": [round(value, 6) for value in best[:, 0].tolist()],
                "margins": [round(value, 6) for value in (best[:, 0] - best[:, 1]).tolist()],
            }
        )
    made = f"transformers {transformers.__version__}, torch {torch.__version__}, float32, CPU"
    document = {"recorded_by": made, "question": question.as_entry(), "blocks": recorded}
    json.dump(document, sys.stdout, ensure_ascii=False)
    return 0


if __name__ == "__main__":
    sys.exit(run(main))
