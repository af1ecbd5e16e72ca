# SPDX-License-Identifier: Apache-2.0
"""The graph of a layout model: made once for all worker processes and starts, and run by OpenVINO.

Each model has a folder, named by a checksum of everything that shapes its graph: the model's files, this package,
OpenVINO's version. It holds the graph and its checksums, or ``refused.txt`` with the reason why there is none.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.metadata
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import paddle_program
from paddle_program.program import model_checksum
from served_weights.manifest import digest

if TYPE_CHECKING:
    import openvino as ov

log = logging.getLogger(__name__)

GRAPH, WEIGHTS, SUMS, REFUSAL = "graph.xml", "graph.bin", "SHA256SUMS", "refused.txt"
REFUSED = 3  # exit status of the conversion
#: A failed conversion is tried again after this time: memory or time may have been short.
REFUSAL_HOLDS_S = 24 * 3600.0
#: A new graph removes those that nobody has loaded for so long.
UNUSED_S = 30 * 24 * 3600.0


class NoGraph(Exception):
    """There is no graph of this model; the text says why."""


class GraphCache:
    def __init__(self, folder: Path, timeout_s: float = 300.0) -> None:
        """``timeout_s``: the longest time for making one."""
        self._folder = folder
        self._timeout_s = timeout_s

    def find(self, model_dir: Path) -> Path:
        """The file of the model's graph, made if need be, which takes half a minute. Raises NoGraph."""
        try:
            entry = self._folder / key_of(model_dir)
            self._folder.mkdir(parents=True, exist_ok=True)
            if not _is_whole(entry):
                with self._lock():  # one of several workers makes it
                    self._make(entry, model_dir)
            os.utime(entry)
            return entry / GRAPH
        except OSError as exc:
            raise NoGraph(f"{exc.strerror or exc} ({exc.filename or self._folder})") from exc

    @contextmanager
    def _lock(self) -> Iterator[None]:
        with (self._folder / "lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _make(self, entry: Path, model_dir: Path) -> None:
        if _is_whole(entry):
            return
        if entry.exists():
            _raise_refusal(entry / REFUSAL)
            log.warning("layout graph %s is damaged, or was refused a day ago; it is made again", entry)
            shutil.rmtree(entry)
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="making-", dir=self._folder, ignore_cleanup_errors=True) as text:
            made = Path(text) / "graph"
            made.mkdir()
            failure = self._convert(model_dir, made)
            if failure:
                shutil.rmtree(made)
                made.mkdir()
                (made / REFUSAL).write_text(failure, encoding="utf-8")
            else:
                sums = "".join(f"{digest(made / name)}  {name}\n" for name in (GRAPH, WEIGHTS))
                (made / SUMS).write_text(sums, encoding="utf-8")
            _write_through(made)
            made.rename(entry)
        _raise_refusal(entry / REFUSAL)
        log.info("layout graph of %s made in %.1f s: %s", model_dir, time.monotonic() - began, entry)
        self._remove_unused()

    def _convert(self, model_dir: Path, out: Path) -> str:
        """The reason why there is no graph, or nothing."""
        command = [sys.executable, "-m", "docparser.layout.conversion", str(model_dir), str(out)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=self._timeout_s, check=False)
        except subprocess.TimeoutExpired:
            return f"its conversion took more than {self._timeout_s:.0f} s"
        if done.returncode == 0:
            return ""
        if done.returncode == REFUSED:
            return done.stdout.strip().splitlines()[-1]
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        return f"its conversion ended with status {done.returncode} ({last})"

    def _remove_unused(self) -> None:
        for entry in self._folder.iterdir():
            if entry.is_dir() and time.time() - entry.stat().st_mtime > UNUSED_S:
                shutil.rmtree(entry, ignore_errors=True)


def key_of(model_dir: Path) -> str:
    """Raises OSError."""
    code = [*Path(__file__).parent.rglob("*.py"), *Path(paddle_program.__file__).parent.glob("*.py")]
    parts = [model_checksum(model_dir), *map(digest, sorted(code))]
    parts.append(importlib.metadata.version("openvino"))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _is_whole(entry: Path) -> bool:
    try:
        lines = (entry / SUMS).read_text(encoding="utf-8").splitlines()
        return [line.split("  ")[1] for line in lines] == [GRAPH, WEIGHTS] and all(
            digest(entry / name) == wanted for wanted, name in (line.split("  ") for line in lines)
        )
    except (OSError, ValueError, IndexError):
        return False


def _raise_refusal(path: Path) -> None:
    try:
        age = time.time() - path.stat().st_mtime
        reason = path.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return
    if age < REFUSAL_HOLDS_S:
        raise NoGraph(f"{reason}; remove {path.parent} to try again before a day is over")


def _write_through(folder: Path) -> None:
    """Flush it to the disk, so that a power cut leaves no half of a graph under its name."""
    for path in [*folder.iterdir(), folder]:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


class Engine:
    """OpenVINO running a model on the CPU, in float32; not for several threads at once. ``model`` is OpenVINO's, or the
    file of one."""

    def __init__(self, model: ov.Model | Path, threads: int = 1) -> None:
        # Not at the top: OpenVINO may not be there, or not run on this machine.
        import openvino as ov

        core = ov.Core()
        read = model if isinstance(model, ov.Model) else core.read_model(model)
        options = {
            # Otherwise bfloat16 or float16 where the processor has them, which moves boxes.
            "INFERENCE_PRECISION_HINT": "f32",
            "INFERENCE_NUM_THREADS": threads,
            "NUM_STREAMS": 1,
            # The service chooses the cores of its processes, and may change them.
            "ENABLE_CPU_PINNING": False,
        }
        self._compiled = core.compile_model(read, "CPU", options)
        self._request = self._compiled.create_infer_request()
        self.inputs = sorted(port.get_any_name() for port in self._compiled.inputs)

    def run(self, inputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """By name, each for one page; the results in the model's order, as copies."""
        self._request.infer({name: np.ascontiguousarray(value) for name, value in inputs.items()})
        return [np.array(self._request.get_output_tensor(index).data) for index in range(len(self._compiled.outputs))]

    def __call__(self, batch: Sequence[np.ndarray]) -> list[np.ndarray]:
        """As PaddleX asks Paddle: inputs in the order of their names, each ``[pages, ...]``; the pages' results one
        after the other."""
        pages = [
            self.run({name: values[index : index + 1] for name, values in zip(self.inputs, batch, strict=True)})
            for index in range(len(batch[0]))
        ]
        return [np.concatenate(parts) for parts in zip(*pages, strict=True)]
