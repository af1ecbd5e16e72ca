# SPDX-License-Identifier: Apache-2.0
"""A parser with a simulated VLM and the simulated layout model, for tests that run in another environment.

Run by the parser environment's Python: `python -m tests.api.parser_for_requests FOLDER`. Prints the parser's address
when it is ready, and ends when its standard input does.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.support.parser_process import LIMITS, ParserProcess
from tests.support.simulated_layout import build
from tests.support.simulated_vlm import SimulatedVlm


def main(folder: Path) -> None:
    layout = build(folder / "PP-DocLayoutV2")
    vlm = SimulatedVlm()
    service = ParserProcess(folder, VLM_URL=vlm.url, LAYOUT_MODEL_DIR=str(layout), **LIMITS)
    try:
        service.wait()
        print(f"http://127.0.0.1:{service.port}", flush=True)
        sys.stdin.read()
    finally:
        service.end()
        vlm.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
