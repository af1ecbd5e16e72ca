# SPDX-License-Identifier: Apache-2.0
"""Train the layout detector: ``python -m demo_training.layout.train --out DIR [--steps N] [--shelf DIR]``.

Resumes from ``DIR/last.pt`` when it is there. Pages are drawn on first use and kept under ``DIR/pages``. With a shelf
of typeset pages (``typesetters.make``) half of the pages come from there.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ..pages.shelf import shelf_page, shelf_pages
from .losses import distance_loss, edge_loss, heat_loss
from .network import LayoutNetwork
from .targets import Sample, SampleCache, draw_sample, heat_targets, sample_of
from .variations import varied, vary

Batch = tuple[Tensor, Tensor, Tensor, Tensor, list[Tensor]]


def make_batch(samples: list[Sample], rng: np.random.Generator) -> Batch:
    """Images [N, 1, 800, 800], heat, distances and their mask as of ``heat_targets``, and the boxes of each image."""
    samples = [varied(sample, rng) for sample in samples]
    images = torch.from_numpy(np.stack([vary(sample.image, rng) for sample in samples]))[:, None]
    targets = [heat_targets(sample.boxes, sample.classes) for sample in samples]
    heat, distances, mask = (torch.stack(part) for part in zip(*targets))
    return images, heat, distances, mask, [torch.from_numpy(sample.boxes) for sample in samples]


def train(
    out: Path,
    steps: int,
    pages: int,
    batch: int,
    seed: int,
    rate: float,
    shelf: Path | None = None,
    log: Callable[[str], object] = print,
) -> float:
    """Returns the mean loss of the last twentieth of the steps run in this call."""
    torch.manual_seed(seed)
    network = LayoutNetwork()
    # torch's annotations do not know this form of Module.to.
    network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimizer = torch.optim.AdamW(network.parameters(), lr=rate, weight_decay=1e-4)
    average = {name: value.clone() for name, value in network.state_dict().items()}
    last, done, spent = out / "last.pt", 0, 0.0
    out.mkdir(parents=True, exist_ok=True)
    if last.exists():
        saved = torch.load(last, weights_only=True)
        network.load_state_dict(saved["network"])
        if saved["optimizer"]:  # a checkpoint of unfold has none
            optimizer.load_state_dict(saved["optimizer"])
        average, done, spent = saved["average"], saved["step"], saved["seconds"]
        log(f"resumed at step {done}")
    drawn = SampleCache(out / "pages" / "train", lambda number: draw_sample(number, "train"))
    names = shelf_pages(shelf) if shelf else []
    printed = SampleCache(out / "pages" / "shelf", lambda number: sample_of(shelf_page(names[number]), number))
    began, recent = time.time(), []
    for step in range(done, steps):
        # Each step has a stream of its own, so a resumed run sees what an unbroken one would.
        rng = np.random.default_rng((seed, step))
        generator = torch.Generator().manual_seed(seed * 1_000_003 + step)
        warm = min(1.0, (step + 1) / 50)
        for group in optimizer.param_groups:
            group["lr"] = rate * warm * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * step / steps)))
        samples = [drawn[int(index)] for index in rng.integers(0, pages, batch)]
        if names:
            half = [printed[int(index)] for index in rng.integers(0, len(names), batch // 2)]
            samples[: len(half)] = half
        images, heat, distances, mask, boxes = make_batch(samples, rng)
        network.train()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            outputs = network(images.to(memory_format=torch.channels_last))
        heat_logits, predicted, edges = (output.float() for output in outputs)
        parts = [
            heat_loss(heat_logits, heat),
            distance_loss(predicted, distances, mask),
            torch.stack([edge_loss(e, b, generator) for e, b in zip(edges, boxes) if len(b)]).mean(),
        ]
        optimizer.zero_grad()
        (parts[0] + parts[1] + parts[2]).backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 10.0)
        optimizer.step()
        keep = min(0.998, (step + 1) / (step + 10))
        for name, value in network.state_dict().items():
            if value.dtype.is_floating_point:
                average[name].lerp_(value, 1 - keep)
            else:
                average[name].copy_(value)
        recent.append([float(part.detach()) for part in parts])
        if (step + 1) % 25 == 0 or step + 1 == steps:
            shown = np.mean(recent[-25:], 0)
            log(
                f"step {step + 1} heat {shown[0]:.3f} distance {shown[1]:.3f} edge {shown[2]:.3f} "
                f"{spent + time.time() - began:.0f} s"
            )
        if (step + 1) % 100 == 0 or step + 1 == steps:
            partial = last.with_suffix(".part")
            state = {
                "network": network.state_dict(),
                "optimizer": optimizer.state_dict(),
                "average": average,
                "step": step + 1,
                "seconds": spent + time.time() - began,
            }
            torch.save(state, partial)
            partial.rename(last)
    return float(np.mean([sum(row) for row in recent[-max(1, len(recent) // 20) :]]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder for checkpoints and drawn pages")
    parser.add_argument("--steps", type=int, default=4000)
    parser.add_argument("--pages", type=int, default=6000, help="number of different pages")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--rate", type=float, default=2e-3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--shelf", type=Path, help="folder of typeset pages (typesetters.make)")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    train(
        arguments.out,
        arguments.steps,
        arguments.pages,
        arguments.batch,
        arguments.seed,
        arguments.rate,
        arguments.shelf,
        log=lambda text: print(text, flush=True),
    )


if __name__ == "__main__":
    main()
