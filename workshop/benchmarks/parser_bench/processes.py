# SPDX-License-Identifier: Apache-2.0
"""The servers under test: start them on free ports, measure CPU time and memory of all their processes, end them."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import psutil
import yaml

from free_ports import free_port

ROOT = Path(__file__).resolve().parents[3]
START_S = 600
TICK_S = 0.2
#: Words of a command line, and what such a process does. What it forks reads the VLM's answers. The first match
#: counts.
KINDS = {"render_main": "rendering", "docparser.worker": "pages"}
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def say(text: str) -> None:
    """Write a line of progress to stderr."""
    print(text, file=sys.stderr, flush=True)


@dataclass
class Usage:
    """CPU seconds and peak resident bytes of a process and all its descendants; ``parts`` are the CPU seconds by what
    the processes do (KINDS)."""

    cpu_s: float
    peak_bytes: int
    parts: dict[str, float] = field(default_factory=dict)


class Server:
    """A process in a session of its own, with its output in a file."""

    def __init__(self, name: str, command: list[str], folder: Path, env: dict[str, str], health: str) -> None:
        self.name = name
        found = re.match(r"http://[^/]+", health)
        assert found, f"{name}: the health address is {health!r}; expected http://HOST:PORT/PATH"
        self.url = found[0]
        self._health = health
        self.log = folder / f"{name}.log"
        kept = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith(("PARSER_", "VLM_", "LAYOUT_", "PADDLE_")) and key != "PYTHONDONTWRITEBYTECODE"
        }
        self._process = subprocess.Popen(
            command,
            env={**kept, **env},
            cwd=folder,
            stdout=self.log.open("ab"),
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._tree = psutil.Process(self._process.pid)
        self._peak = 0
        self._watching = threading.Event()

    def wait(self) -> Server:
        """Wait until it is healthy. Raises RuntimeError with the end of its log."""
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                break
            with contextlib.suppress(OSError, urllib.error.URLError), OPENER.open(self._health, timeout=30) as answer:
                if answer.status == 200:
                    return self
            time.sleep(0.5)
        raise RuntimeError(f"{self.name} did not start:\n{self.log.read_text(errors='replace')[-3000:]}")

    def _members(self) -> list[psutil.Process]:
        with contextlib.suppress(psutil.NoSuchProcess):
            return [self._tree, *self._tree.children(recursive=True)]
        return []

    def _cpu_s(self) -> Counter[str]:
        """CPU seconds by kind of process, those of ended children with their parents'."""
        found, kinds = Counter[str](), dict[int, str]()
        for member in self._members():  # parents come before their children
            with contextlib.suppress(psutil.NoSuchProcess):
                line = " ".join(member.cmdline())
                kind = next((kind for words, kind in KINDS.items() if words in line), "service")
                if kind == "pages" and kinds.get(member.ppid()) in ("pages", "answers"):
                    kind = "answers"
                kinds[member.pid] = kind
                times = member.cpu_times()
                found[kind] += times.user + times.system + times.children_user + times.children_system
        return found

    def _rss(self) -> int:
        total = 0
        for member in self._members():
            with contextlib.suppress(psutil.NoSuchProcess):
                total += member.memory_info().rss
        return total

    def state(self) -> dict[str, int]:
        """Return resident MiB, open descriptors, established connections and number of its processes, now."""
        state = {"mib": self._rss() >> 20, "descriptors": 0, "connections": 0, "processes": 0}
        for member in self._members():
            with contextlib.suppress(psutil.NoSuchProcess):
                state["descriptors"] += member.num_fds()
                state["connections"] += sum(c.status == psutil.CONN_ESTABLISHED for c in member.net_connections("tcp"))
                state["processes"] += 1
        return state

    @contextlib.contextmanager
    def measured(self) -> Iterator[Usage]:
        """Give a Usage that is filled in at the end."""
        usage, before, self._peak = Usage(0.0, 0), self._cpu_s(), 0
        self._watching.set()
        watcher = threading.Thread(target=self._watch, daemon=True)
        watcher.start()
        try:
            yield usage
        finally:
            self._watching.clear()
            watcher.join()
            after = self._cpu_s()
            usage.parts = {kind: seconds - before[kind] for kind, seconds in sorted(after.items())}
            usage.cpu_s, usage.peak_bytes = sum(usage.parts.values()), self._peak

    def _watch(self) -> None:
        while self._watching.is_set():
            self._peak = max(self._peak, self._rss())
            time.sleep(TICK_S)

    def close(self) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(15)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


@contextlib.contextmanager
def simulated_vlm(dies: int, *words: str) -> Iterator[tuple[str, int]]:
    """Run the simulated VLM with further ``words``; gives its API root and its process id."""
    with _simulated("simulated_vlm", "--dies", str(dies), *words) as (url, process):
        yield f"{url}/v1", process


@contextlib.contextmanager
def simulated_layout(layout: Path, folder: Path) -> Iterator[str]:
    """Run the simulated layout server with the answers of the model in ``layout``; gives its address."""
    with _simulated("simulated_layout", str(layout), str(folder / "cache")) as (url, _):
        yield url


@contextlib.contextmanager
def _simulated(module: str, *words: str) -> Iterator[tuple[str, int]]:
    process = subprocess.Popen(
        [sys.executable, "-m", f"parser_bench.{module}", *words],
        cwd=ROOT / "workshop/benchmarks",
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None, "it is a pipe"
    try:
        # A library may have written before it.
        ready = next((line for line in process.stdout if line.startswith("ready ")), None)
        if ready is None:
            raise RuntimeError(f"{module} did not start: status {process.wait()}")
        yield f"http://127.0.0.1:{ready.split()[1]}", process.pid
    finally:
        process.terminate()
        process.wait()


def our_parser(
    folder: Path,
    vlm_url: str,
    layout: Path,
    workers: int | None = None,
    threads: int | None = None,
    *,
    name: str = "ours",
    root: Path = ROOT,
    confidence: bool = False,
    layout_url: str = "",
    small_print: str = "auto",
    text_layer: str = "off",
    collector: str = "",
    settings: Mapping[str, str] | None = None,
) -> Server:
    """Start our service, of the checkout in ``root``. It chooses ``workers`` and the layout model's ``threads`` itself
    if they are None. ``confidence``: whether it asks the VLM for log-probabilities. ``layout_url``: its layout server.
    ``small_print``: whether blocks are read in small pieces. ``text_layer``: what pages' own text is for;
    empty for a checkout that does not know the setting. ``collector``: where its traces go. ``settings``: further ones.
    """
    port = free_port()
    env = {
        "PYTHONPATH": os.pathsep.join([str(root / "parser"), str(root / "common")]),
        "PARSER_PORT": str(port),
        "VLM_URL": vlm_url,
        "LAYOUT_MODEL_DIR": str(layout),
        "PARSER_CACHE_DIR": str(folder / "cache"),
        "PARSER_LOG_LEVEL": "warning",
        "PARSER_DATA_DIR": str(folder / f"data-{name}"),
        "PARSER_SMALL_PRINT": small_print,
    }
    env |= {"PARSER_TEXT_LAYER": text_layer} if text_layer else {}
    env |= {"PARSER_CONFIDENCE": "1"} if confidence else {}
    env |= {"OTEL_EXPORTER_OTLP_ENDPOINT": collector} if collector else {}
    env |= {"LAYOUT_URL": layout_url} if layout_url else {}
    env |= {"PARSER_WORKERS": str(workers)} if workers else {}
    env |= {"PARSER_CPU_THREADS": str(threads)} if threads else {}
    env |= settings or {}
    command = [sys.executable, "-m", "docparser"]
    return Server(name, command, folder, env, f"http://127.0.0.1:{port}/health/ready")


@contextlib.contextmanager
def collector() -> Iterator[str]:
    """The address of one that takes traces over HTTP, and keeps none."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


def paddlex(folder: Path, vlm_url: str, layout: Path, *, concurrent: bool) -> Server:
    """Start `paddlex --serve` with PaddleX's own pipeline configuration; only the models' paths are filled in.

    ``concurrent`` turns its serial mode off, as its flag PADDLE_PDX_SERVING_SERIAL_PIPELINE_CALLS allows.
    """
    import paddlex as package

    source = Path(package.__file__).parent / "configs" / "pipelines" / "PaddleOCR-VL.yaml"
    config = yaml.safe_load(source.read_text(encoding="utf-8"))
    modules = config["SubModules"]
    modules["LayoutDetection"]["model_dir"] = str(layout)
    modules["VLRecognition"]["genai_config"] = {"backend": "vllm-server", "server_url": vlm_url}
    config["use_doc_preprocessor"] = False  # as in ours: two further models
    config.pop("SubPipelines", None)
    name = "paddlex_concurrent" if concurrent else "paddlex_default"
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump(config), encoding="utf-8")
    port = free_port()
    env = {
        "PADDLE_PDX_DISABLE_MODEL_SOURCE_CHECK": "True",
        "PADDLE_PDX_CACHE_HOME": str(folder / "cache" / "paddlex"),
        "HF_HUB_OFFLINE": "1",
    }
    if concurrent:
        env["PADDLE_PDX_SERVING_SERIAL_PIPELINE_CALLS"] = "False"
    command = [str(Path(sys.executable).with_name("paddlex")), "--serve", "--pipeline", str(path), "--device", "cpu"]
    command += ["--host", "127.0.0.1", "--port", str(port)]
    return Server(name, command, folder, env, f"http://127.0.0.1:{port}/health")
