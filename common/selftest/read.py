# SPDX-License-Identifier: Apache-2.0
"""python -m selftest.read --replicas FILE: each replica's own reading of one golden block, and with published weights
of a block of Chinese, as a JSON list.

[{"replica", "text", "seconds", "error"}]. It needs no recorded values: the dies of a node compute the same, so their
texts are the same. Each is asked in the words of the model that it serves (config/models.yaml). The exit status is 1
where a replica does not answer, reads nothing, or reads something else. Each replica also samples one answer.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from selftest import chinese
from selftest.check import MAX_NEW_TOKENS, blocks, question_of, replica_key, replica_urls
from selftest.server import Server
from served_weights.catalog import Catalog
from served_weights.settings import WeightSettings
from served_weights.vlm import serving
from tool_errors import FAILED, ToolError, run

BLOCK = "sentence.png"


def read(urls: list[str], key: str | None, catalog: Catalog) -> list[dict[str, Any]]:
    """Ask every replica, all at the same time. `error` says why there is no answer, or that it differs from the usual
    one."""
    image = next(path for path in blocks() if path.name == BLOCK).read_bytes()

    def ask(index: int) -> dict[str, Any]:
        began, text, error = time.monotonic(), "", ""
        try:
            server = Server(urls[index], key)
            question = question_of(serving(server.name, Path(server.root), catalog))
            text = server.ask([image], question, MAX_NEW_TOKENS).text.strip()
            if text:
                text = f"{text} {chinese.read(server, question)}".strip()
            error = "" if text else "read nothing"
            server.sample(image, question)
        except ToolError as problem:
            error = str(problem)
        return {"replica": index, "text": text, "seconds": round(time.monotonic() - began, 2), "error": error}

    with ThreadPoolExecutor(len(urls)) as threads:
        found = list(threads.map(ask, range(len(urls))))
    texts = Counter(answer["text"] for answer in found if not answer["error"])
    usual = texts.most_common(1)[0][0] if texts else ""
    for answer in found:
        if not answer["error"] and answer["text"] != usual:
            answer["error"] = f"reads another text than {texts[usual]} of {len(found)} replicas"
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m selftest.read", description="One block by each replica.")
    parser.add_argument("--replicas", type=Path, metavar="FILE", required=True, help="the container's replicas.json")
    file = parser.parse_args().replicas
    found = read(replica_urls(file), replica_key(file), WeightSettings.from_environment(os.environ).catalog)
    print(json.dumps(found, ensure_ascii=False))
    return FAILED if any(answer["error"] for answer in found) else 0


if __name__ == "__main__":
    sys.exit(run(main))
