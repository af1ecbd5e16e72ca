# SPDX-License-Identifier: Apache-2.0
"""A parser with a simulated VLM and the simulated layout model, for tests that run in another environment.

Run by the parser environment's Python: `python -m tests.api.parser_for_requests FOLDER [KEY [SETTING=VALUE ...]]`.
Prints the parser's address when it is ready, and ends when its standard input does. With KEY it asks for that key, and
its page work is simulated, so that it starts quickly: a page's text is what `simulated_page_work` asks the VLM.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

from tests.support.parser_process import LIMITS, REAL, SIMULATED_WORK, running_service, simulated_layout
from tests.support.simulated_vlm import SimulatedVlm, prompt_of
from tests.support.weights import make_layout_files


def main(folder: Path, key: str = "", *more: str) -> None:
    layout = folder / "PP-DocLayoutV2"
    (make_layout_files if key else simulated_layout)(layout)
    vlm = SimulatedVlm()
    settings = {
        "VLM_URL": vlm.url,
        "LAYOUT_MODEL_DIR": str(layout),
        **LIMITS,
        **dict(each.split("=", 1) for each in more),
    }
    words = REAL
    if key:
        vlm.answer = lambda request, number: prompt_of(request)
        settings["PARSER_API_KEYS"] = f"sha256:{hashlib.sha256(key.encode()).hexdigest()}"
        words = SIMULATED_WORK
    try:
        with running_service(folder, words, **settings) as service:
            print(service.url, flush=True)
            sys.stdin.read()
    finally:
        vlm.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
