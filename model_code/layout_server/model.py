# SPDX-License-Identifier: Apache-2.0
"""The layout model on a device: one page or many by one call."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from layout_server.interpreter import Interpreter
from layout_server.plan import Plan
from paddle_program.parameters import BadParameters
from paddle_program.program import Program, Type, UnknownProgram, model_checksum, model_files, read_program
from tool_errors import UsageError

log = logging.getLogger(__name__)

Page = dict[str, np.ndarray]  # the program's inputs, each [1, ...]
#: The share by which a value of a page in a batch may differ from the same page alone: other kernels round differently.
TOLERANCE = 1e-3
#: The share of its masks' pixels that may differ: a pixel at the threshold may be rounded to either side.
PIXELS = 1e-3
SCORE_COLUMN, COUNTED_SCORE = 1, 0.3


class LayoutModel:
    """Not for several threads at once. ``shapes`` are those of a page's inputs, float32."""

    def __init__(self, folder: Path, device: torch.device, most_pages: int) -> None:
        """Raises UsageError for a model that cannot be run."""
        try:
            self.checksum = model_checksum(folder)
            program = read_program(*model_files(folder))
            self.shapes = shapes_of(program)
            self._device = device
            self._interpreter = Interpreter(program)
            self._moved: dict[int, tuple[Tensor, Tensor]] = {}
            self._plans = {1: self._plan(1)}
        except (UnknownProgram, BadParameters, OSError) as exc:
            raise UsageError(f"the layout model in {folder} cannot be run here: {exc}") from exc
        self._add_batches(most_pages)

    @property
    def most_pages(self) -> int:
        """The most pages of one call."""
        return max(self._plans)

    def run(self, pages: Sequence[Page]) -> list[list[np.ndarray]]:
        """The results of each page. If the device fails, torch's exceptions pass through."""
        found: list[list[np.ndarray]] = []
        while len(found) < len(pages):
            count = max(size for size in self._plans if size <= len(pages) - len(found))
            found += self._run(pages[len(found) : len(found) + count])
        return found

    def _run(self, pages: Sequence[Page]) -> list[list[np.ndarray]]:
        inputs = {
            name: torch.from_numpy(np.concatenate([page[name] for page in pages])).to(self._device)
            for name in self.shapes
        }
        with torch.inference_mode():
            results = [result.cpu().numpy() for result in self._plans[len(pages)](inputs)]
        ends = np.cumsum(results[1])  # the number of rows of each page
        return [
            [rows[end - count : end] if index != 1 else rows[at : at + 1] for index, rows in enumerate(results)]
            for at, (end, count) in enumerate(zip(ends, results[1], strict=True))
        ]

    def _plan(self, pages: int) -> Plan:
        blank = {name: torch.ones([pages, *shape[1:]]) for name, shape in self.shapes.items()}
        plan = Plan(self._interpreter, blank)
        plan.move_to(self._device, self._moved)
        return plan

    def _add_batches(self, most_pages: int) -> None:
        """Plans for 2, 4, 8 ... pages. If the program was saved for one page or mixes pages, this finds it, and pages
        go one by one. Where so many pages need more memory than there is, it is fewer at once."""
        count = 2
        try:
            while count <= most_pages:
                self._plans[count] = self._plan(count)
                self._compare(count)
                count *= 2
            return
        except (UnknownProgram, ValueError, RuntimeError) as exc:  # RuntimeError: torch's, also for want of memory
            self._plans.pop(count, None)
            why = str(exc).partition("\n")[0]  # CANN adds pages
            log.warning("the layout model takes %d pages at once, not %d: %s", self.most_pages, count, why)
        # Here the error is gone, and with it the tensors of its frames.
        device = torch.get_device_module(self._device)
        if hasattr(device, "empty_cache"):
            device.empty_cache()

    def _compare(self, count: int) -> None:
        """Raise ValueError if different pages together give other results than each alone."""
        pages = [drawn_page(self.shapes, seed) for seed in range(count)]
        for together, page in zip(self._run(pages), pages, strict=True):
            (alone,) = self._run([page])
            counted = _counted(alone[0]) if alone[0].ndim == 2 else slice(None)
            for one, other in zip(together, alone, strict=True):
                rows = counted if one.ndim > 1 else slice(None)
                if one.shape != other.shape or not alike(one[rows], other[rows]):
                    raise ValueError("a page's results depend on the pages beside it")


def shapes_of(program: Program) -> dict[str, tuple[int, ...]]:
    """The shapes of one page's inputs, by name. Raises UnknownProgram."""
    shapes: dict[str, tuple[int, ...]] = {}
    for operation in program.operations:
        if operation.name == "data":
            kept, name = operation.types[0], operation.attributes["name"]
            assert isinstance(kept, Type)
            if kept.element != "float32" or not kept.shape or min(kept.shape[1:], default=1) < 1:
                raise UnknownProgram(f"input {name} is {kept}; expected float32 with only the number of pages open")
            shapes[name] = (1, *kept.shape[1:])
    if set(shapes) != {"im_shape", "image", "scale_factor"}:
        raise UnknownProgram(f"the program's inputs are {sorted(shapes)}; expected im_shape, image, scale_factor")
    return shapes


def drawn_page(shapes: dict[str, tuple[int, ...]], seed: int) -> Page:
    """Grey lines in other places for each seed, as PaddleX's pre-processing gives a page."""
    random = np.random.default_rng(seed)
    _, channels, height, width = shapes["image"]
    image = np.full((1, channels, height, width), 0.98, np.float32)
    for top in range(height // 12, height - height // 12, height // 30):
        right = int(width * random.uniform(0.5, 0.9))
        marks = random.random((height // 66, right - width // 10)) < 0.45
        image[:, :, top : top + height // 66, width // 10 : right] -= 0.9 * marks
    size = np.array([[height, width]], np.float32)
    return {"image": image, "im_shape": size, "scale_factor": np.array([[0.5, 0.6]], np.float32)}


def _counted(rows: np.ndarray) -> np.ndarray:
    """Rows that some threshold would keep. The order of all others depends on rounding."""
    return rows[:, SCORE_COLUMN] > COUNTED_SCORE


def alike(one: np.ndarray, other: np.ndarray) -> bool:
    if one.dtype.kind == "i":
        return np.count_nonzero(one != other) <= PIXELS * one.size
    return np.allclose(one, other, TOLERANCE, TOLERANCE)
