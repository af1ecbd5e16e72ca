# SPDX-License-Identifier: Apache-2.0
"""Where the processor time of a page goes when its blocks are found elsewhere: the parser's own work, by stage.

    .venvs/parser/bin/python workshop/benchmarks/profile_page.py [--pages 20] [--rounds 3] [--functions 25]

Everything that a worker and its children do for the benchmark's page happens in this process: rendering, the layout
server's wire, crops, calls of the VLM, putting the page together, JSON. Simulated are the layout server, which gives
the answer that the model gave once, and the VLM, in a process of its own, which answers at once. HTTP to the client is
left out. Prints one JSON object: CPU milliseconds of a page by stage (medians of the rounds) and their sum. `vlm_calls`
is the thread that talks to the VLM. `--functions N` also lists the N functions of the page's thread that took longest.
"""

from __future__ import annotations

import argparse
import contextlib
import cProfile
import io
import json
import pickle
import pstats
import statistics
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from parser_bench.documents import text_pdf
from parser_bench.layout_models import layout_model
from parser_bench.processes import say, simulated_vlm

AT_ONCE = ("--first-ms", "0", "--rate", "1000000")
OTHER = "other"


class Stages:
    """CPU seconds of this thread by stage; a stage inside another one counts for itself alone."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._thread, self._stack, self._since = threading.get_ident(), [OTHER], time.thread_time()

    def switch(self) -> None:
        """Count what has passed since the last switch for the stage that is now."""
        now = time.thread_time()
        self.seconds[self._stack[-1]] += now - self._since
        self._since = now

    def timed(self, stage: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def within(*args: Any, **kwargs: Any) -> Any:
            if threading.get_ident() != self._thread:
                return work(*args, **kwargs)
            self.switch()
            self._stack.append(stage)
            try:
                return work(*args, **kwargs)
            finally:
                self.switch()
                self._stack.pop()

        return within

    def time(self, owner: Any, name: str, stage: str) -> None:
        """From now on, calls of ``owner.name`` belong to ``stage``."""
        setattr(owner, name, self.timed(stage, getattr(owner, name)))


class Page:
    """The page's work as a worker does it (``worker.page_work``), without processes and without turns."""

    def __init__(self, folder: Path, layout: Path, vlm_url: str, stages: Stages) -> None:
        from docparser.contract.schemas import ParseOptions
        from docparser.documents.decoder import DocumentDecoder
        from docparser.documents.page import DocumentLimits
        from docparser.documents.spool import Document
        from docparser.settings import Settings
        from docparser.worker import offline

        settings = Settings(
            vlm_url=vlm_url, layout_model_dir=layout, layout_url="http://recorded", cache_dir=folder, cpu_threads=1
        )
        offline.prepare(settings.cache_dir)
        from docparser.layout import served
        from docparser.page import blocks, frozen, layout_model, loop
        from docparser.worker import text_jobs
        from layout_wire import full_image

        class Recorded(served.LayoutServer):
            """Asks the model once, and packs and unpacks each page as with a server."""

            answer = b""

            def find(self, inputs: Sequence[np.ndarray]) -> list[np.ndarray] | None:
                if not self.answer:
                    engine = layout_model.openvino_engine(settings, layout)
                    assert engine is not None, "settings leave it to OpenVINO"
                    found = engine([full_image(array) for array in inputs])
                    self.answer = served.pack({str(at): value for at, value in enumerate(found)})
                return super().find(inputs)

            def _post(self, body: bytes) -> tuple[int, bytes]:
                return 200, self.answer

        layout_model.layout_server = lambda settings, folder: Recorded("http://recorded", folder, 1.0)  # simulated
        path = folder / "page.pdf"
        path.write_bytes(text_pdf())
        self._document, self._decoder = Document(str(path), "PDF"), DocumentDecoder(DocumentLimits.of(settings))
        self._settings, self._options = settings, ParseOptions()
        self._loop, self._jobs, self._frozen = loop.PageLoop(settings), text_jobs, frozen
        self._loop.warm_up()
        stages.time(self._decoder, "read_page", "render")
        stages.time(self._loop.layout, "find", "layout_in_paddlex")
        stages.time(self._loop.layout.server, "find", "layout_wire")
        for name, stage in (("filter_overlap_boxes", "overlaps"), ("cut_blocks", "crops"), ("merged_blocks", "crops")):
            stages.time(blocks, name, stage)
        stages.time(self._loop.vlm, "start", "crops_to_calls")
        stages.time(text_jobs, "read_page", "read_answers")
        stages.time(loop, "freeze", "freeze")
        self.blocks = 0  # that the VLM read, of the last page

    def parse(self, number: int) -> bytes:
        """The page's entry; raises AssertionError where a block has no text."""
        from docparser.page.run import PageRun, PageTask

        with self._document.opened() as document:
            image = self._decoder.read_page(document, 0).pixels
        asked = PageTask(image, self._options, request_id=f"profile-{number}")
        read = self._loop.read(asked, PageRun(contextlib.nullcontext))
        assert not read.block_notes, read.block_notes
        self.blocks = read.answered
        sink = io.BytesIO()
        task = self._jobs.ReadPage(
            self._frozen.without_pictures(read.frozen), 1, self._options, self._settings.max_output_image_side
        )
        self._jobs.read_page({}, io.BytesIO(pickle.dumps(task, protocol=pickle.HIGHEST_PROTOCOL)), sink)
        return sink.getvalue()


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=20, help="of each round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--layout", type=layout_model, default="demo", metavar="demo|published|DIR", help="the layout model"
    )
    parser.add_argument("--functions", type=int, default=0, help="how many functions to list, to stderr")
    options = parser.parse_args(words)
    with tempfile.TemporaryDirectory(prefix="profile-page-") as name, simulated_vlm(16, *AT_ONCE) as (vlm_url, _):
        stages = Stages()
        page = Page(Path(name), options.layout, vlm_url, stages)
        first = [page.parse(number) for number in range(2)][-1]  # the first is slower
        rounds: list[dict[str, float]] = []
        profile = cProfile.Profile()
        for _ in range(options.rounds):
            stages.switch()
            stages.seconds.clear()
            began = time.process_time()
            if options.functions:
                profile.enable()
            for number in range(options.pages):
                assert page.parse(number) == first, "the same page gives the same entry"
            profile.disable()
            whole = time.process_time() - began
            stages.switch()
            seconds = dict(stages.seconds) | {"vlm_calls": whole - sum(stages.seconds.values()), "sum": whole}
            rounds.append({stage: 1000 * value / options.pages for stage, value in seconds.items()})
        if options.functions:
            text = io.StringIO()
            pstats.Stats(profile, stream=text).sort_stats("tottime").print_stats(options.functions)
            say(text.getvalue())
        median = {stage: round(statistics.median(one.get(stage, 0.0) for one in rounds), 2) for stage in rounds[0]}
        print(
            json.dumps(
                {"pages": options.pages, "rounds": options.rounds, "blocks": page.blocks, "cpu_ms_per_page": median},
                indent=1,
            )
        )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
