# SPDX-License-Identifier: Apache-2.0
"""python -m vlm_server.mode_check: which graph mode serves fastest on this machine; JSON as the last line of stdout.

[{"mode", "tokens_per_second": {"1", "3", "16"}, "start_s", "text", "readings", "problem"}], the keys being requests at
once: 3 is no size that is captured, so what a graph makes of a step that it has to fill up shows in what is read.
`readings` are the different ones: beside others a request may be rounded otherwise, and choose another letter. One
server after the other, on the first die of this container, which nothing else may use. `mode` is a value of
VLM_GRAPH_MODE, empty on a CPU.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import stacks
from free_ports import free_port
from health_probe import probe
from npu_smi import device_numbers
from selftest import chinese
from selftest.check import MAX_NEW_TOKENS, blocks, question_of, read_alike
from selftest.server import Server
from served_weights.catalog import Catalog
from served_weights.settings import WeightSettings
from served_weights.vlm import serving
from tool_errors import FAILED, ServiceError, ToolError, run

from .die_check.__main__ import environment
from .serving import check_graphs, running_stack
from .settings import Settings
from .words import last_value

MODES = ("piecewise", "full_decode_only", "full_and_piecewise", "none")
BLOCK, START_SECONDS, END_SECONDS = "paragraph.png", 900.0, 60.0
AT_ONCE, ROUNDS = (1, 3, 16), 4


def modes(env: Mapping[str, str], stack: str | None) -> list[str]:
    """The modes that this stack and these dies serve with; on CPU the one that has no name."""
    found = []
    for mode in MODES if Settings.from_environment(env).product else ("",):
        try:
            check_graphs(Settings.from_environment({**env, "VLM_GRAPH_MODE": mode, "VLM_ENFORCE_EAGER": ""}), stack)
        except ToolError:
            continue
        # Other stacks take it for piecewise.
        if mode != "full_and_piecewise" or stacks.of(stack).whole_steps:
            found.append(mode)
    return found


def wait_for(process: subprocess.Popen[bytes], url: str) -> None:
    """Raise ServiceError where the server ends, or does not answer in time."""
    deadline = time.monotonic() + START_SECONDS
    while not probe(f"{url}/health", timeout=2).healthy:
        if process.poll() is not None:
            raise ServiceError(f"the server ended with status {process.returncode}; its last lines are above")
        if time.monotonic() > deadline:
            raise ServiceError(f"the server did not answer within {START_SECONDS:.0f} s")
        time.sleep(0.5)


def measure(url: str, key: str | None, catalog: Catalog) -> tuple[dict[str, float], str, int]:
    """Tokens a second by requests at once, what the first one read, alone, with a block of Chinese, and how many
    readings there are. Raises ServiceError where one is another text."""
    image = next(path for path in blocks() if path.name == BLOCK).read_bytes()
    server = Server(url, key)
    question = question_of(serving(server.name, Path(server.root), catalog))
    found, alone = {}, server.read(image, question, MAX_NEW_TOKENS)[0]
    texts = {alone}
    for many in AT_ONCE:
        began = time.monotonic()
        with ThreadPoolExecutor(many) as threads:
            asked = [threads.submit(server.read, image, question, MAX_NEW_TOKENS) for _ in range(many * ROUNDS)]
            answers = [one.result() for one in asked]
        found[str(many)] = round(sum(tokens for _, tokens in answers) / (time.monotonic() - began), 1)
        texts |= {text for text, _ in answers}
    if not alone.strip():
        raise ServiceError("the crop was read as an empty text")
    if other := next((text for text in sorted(texts) if not read_alike(text, alone)), None):
        raise ServiceError(f"the same crop was read as {alone[:100]!r} and as {other[:100]!r}")
    return found, f"{alone} {chinese.read(server, question)}".strip(), len(texts)


def key_of(env: Mapping[str, str]) -> str | None:
    """What the servers ask for that are started here, None for nothing."""
    return last_value(Settings.from_environment(env).arguments, "--api-key") or env.get("VLLM_API_KEY")


def end(process: subprocess.Popen[bytes]) -> None:
    """End a server with its engine, which is a process of its own in the same group."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.wait(END_SECONDS)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue


def try_mode(mode: str, env: Mapping[str, str], catalog: Catalog, folder: Path) -> dict[str, Any]:
    """The finding of one mode; what goes wrong with it is a finding too. CANN writes to the working directory."""
    # A free one: on a fixed one another server may listen, and its figures would count as this mode's.
    port = free_port()
    own = {**env, "VLM_GRAPH_MODE": mode, "VLM_HOST": "127.0.0.1", "VLM_PORT": str(port)}
    speed: dict[str, float] = {}
    text, problem, began, started, readings = "", "", time.monotonic(), None, 0
    command = [sys.executable, "-m", "vlm_server"]
    process = subprocess.Popen(command, env=own, cwd=folder, stdout=sys.stderr, start_new_session=True)
    try:
        wait_for(process, f"http://127.0.0.1:{port}")
        started = round(time.monotonic() - began, 1)
        speed, text, readings = measure(f"http://127.0.0.1:{port}", key_of(env), catalog)
    except ToolError as error:
        problem = str(error)
    finally:
        end(process)
    said = {"mode": mode, "tokens_per_second": speed, "start_s": started}
    return {**said, "text": text, "readings": readings, "problem": problem}


def main() -> int:
    env = {**os.environ, "VLM_ENFORCE_EAGER": ""}
    catalog = WeightSettings.from_environment(env).catalog
    # On the volume, as a replica's: a container's /tmp is noexec.
    with tempfile.TemporaryDirectory(prefix="mode-check-", dir=env.get("STATE_DIR") or None) as folder:
        several = env.get("HARDWARE") == "ascend" and len(device_numbers()) > 1
        env = environment(env, 0 if several else None, Path(folder))
        found = [try_mode(mode, env, catalog, Path(folder)) for mode in modes(env, running_stack())]
    print(json.dumps(found, ensure_ascii=False))
    return FAILED if all(one["problem"] for one in found) else 0


if __name__ == "__main__":
    sys.exit(run(main))
