# SPDX-License-Identifier: Apache-2.0
"""A simulated VLM as a process of its own, so that it can be killed: ``python simulated_vlm.py PORT FOLDER DELAY_S``.

It answers with the prompt. ``FOLDER/asked`` gets a line for each page that it was asked for, which survives it; while
there is a ``FOLDER/hold`` the answers wait; pages named in ``FOLDER/refuse`` are refused; what ``FOLDER/say`` holds is
said instead of the prompt.
"""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "parser"))

from fake_vlm import FakeVlm, prompt_of  # noqa: E402


def main(port: int, folder: Path, delay_s: float) -> None:
    def answer(request: dict, number: int):
        prompt = prompt_of(request)
        if not prompt.startswith("job-"):
            return prompt
        with (folder / "asked").open("a") as file:
            file.write(prompt + "\n")
        while (folder / "hold").exists():
            time.sleep(0.02)
        refuse = folder / "refuse"
        page = prompt.rsplit(" ", 1)[1]
        if refuse.exists() and page in refuse.read_text().split():
            return 400, "not this page"
        say = folder / "say"
        return say.read_text() if say.exists() else prompt

    vlm = FakeVlm(port)
    vlm.delay_s, vlm.answer = delay_s, answer
    threading.Event().wait()


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3]))
