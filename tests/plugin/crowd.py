# SPDX-License-Identifier: Apache-2.0
"""Tokens of several requests, each alone and all at once, in float32, as JSON: {"alone": [[...]], "crowd": [[...]]}.

python tests/plugin/crowd.py --model DIR --cases cases.safetensors --out tokens.json
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from vllm import SamplingParams, TokensPrompt

from plugin_logits.engine import request, start
from reference.cases import load_cases


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("--model", "--cases", "--out"):
        parser.add_argument(name, type=Path, required=True)
    arguments = parser.parse_args()
    llm = start(arguments.model)
    greedy = SamplingParams(max_tokens=24, temperature=0)
    requests = [request(llm, case) for case in load_cases(arguments.cases)]

    def tokens(batch: list[TokensPrompt]) -> list[list[int]]:
        return [list(output.outputs[0].token_ids) for output in llm.generate(batch, greedy, use_tqdm=False)]

    result = {
        "alone": [tokens([one])[0] for one in requests],
        "crowd": tokens(requests),
        "again": tokens(requests[::-1])[::-1],
    }
    arguments.out.write_text(json.dumps(result))


if __name__ == "__main__":
    main()
