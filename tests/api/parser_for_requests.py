# SPDX-License-Identifier: Apache-2.0
"""A parser with a simulated VLM and the placeholder layout model, for tests that run in another environment.

Run by the parser environment's Python: ``python parser_for_requests.py FOLDER``. Prints the parser's address when it is
ready, and ends when its standard input does.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "parser"))

from conftest import LIMITS, Service  # noqa: E402
from fake_vlm import FakeVlm  # noqa: E402
from placeholder_layout import build  # noqa: E402


def main(folder: Path) -> None:
    layout = build(folder / "PP-DocLayoutV2")
    vlm = FakeVlm()
    service = Service(folder, VLM_URL=vlm.url, LAYOUT_MODEL_DIR=str(layout), **LIMITS)
    try:
        service.wait()
        print(f"http://127.0.0.1:{service.port}", flush=True)
        sys.stdin.read()
    finally:
        service.close()
        vlm.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
