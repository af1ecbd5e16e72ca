# SPDX-License-Identifier: Apache-2.0
"""Train the demo vision-language model on two CPU cores, resumable.

    python -m demo_training.vlm.train --out DIR [--minutes N] [--init MODEL] [--stages NAME...] [--smoke]

The schedule is a curriculum (``STAGES``): first the vision tower alone learns to tell characters,
then the language model learns to follow one line, then paragraphs at the sizes PaddleOCR's client
sends. A checkpoint is written every few minutes; running the same command again goes on from it.

One single-threaded process a core, gradients averaged once a step: on a shared machine that loses far
less than one process with several threads, which wait for each other thousands of times a step.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import json
import math
import multiprocessing
import os
import shutil
import socket
import statistics
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch import nn

from . import tokenizer as tokens
from .config import DemoConfig
from .crops import IGNORE, CropBatch, CropMaker, Stage
from .model import DemoModel
from .muon import Muon
from .supervision import WATCHED, GlyphHead, looking_loss, reading_loss

MEAN = torch.tensor([0.48145466, 0.4578275, 0.40821073]).view(1, 3, 1, 1)
DEVIATION = torch.tensor([0.26862954, 0.26130258, 0.27577711]).view(1, 3, 1, 1)

# What the pipeline sends, as well as it can be drawn; `settle` averages more crops a step while the rate falls.
PAGE = Stage(
    600,
    lines=(1, 12),
    widths=(100, 1120),
    natural=0.9,
    tokens=(16, 620),
    stacked=0.15,
    wider=0.08,
    patches=6000,
    small=1.2,
    short=0.12,
    tower_every=2,
)
SETTLE = dataclasses.replace(PAGE, steps=540, batches=2)
STAGES = {
    "letters": Stage(625, reading=False, strange=(0.3, 1.0)),
    "line": Stage(175, lines=(1, 1), widths=(60, 420), tokens=(6, 80)),
    "few": Stage(250, lines=(1, 3), widths=(100, 600), tokens=(16, 160), natural=0.4),
    "mixed": dataclasses.replace(PAGE, steps=380, short=0.0, tower_every=3),
    "follow": Stage(330, lines=(1, 4), widths=(60, 520), natural=0.3, tokens=(6, 150), small=0.7, tower_every=2),
    "page": PAGE,
    "settle": SETTLE,
}
# For weights that read already (--init): the auxiliary heads, which are not exported, come first. What such weights
# get wrong is the smallest print at its own size, where attention is right but a cell of 28 px holds three letters.
WIDE = dataclasses.replace(
    PAGE,
    steps=300,
    lines=(1, 8),
    widths=(240, 1120),
    narrow=0.2,
    natural=0.75,
    tokens=(24, 640),
    small=0.6,
    short=0.05,
    wider=0.15,
    patches=3500,
    batches=2,
)
PROSE = dataclasses.replace(
    WIDE,
    steps=1400,
    lines=(1, 16),
    long=0.6,
    widths=(300, 1120),
    narrow=0.45,
    small=0.1,
    strange=(0.02, 0.4),
    echo=0.04,
    phrases=0.035,
    natural=0.85,
    short=0.08,
    stacked=0.2,
    wider=0.1,
    fine=0.35,
)
REFINE = {
    "heads": Stage(200, reading=False, frozen=True, strange=(0.3, 1.0), natural=0.5, tokens=(16, 400)),
    "wide": WIDE,
    "fine": dataclasses.replace(
        WIDE, steps=400, lines=(1, 4), widths=(120, 800), tokens=(10, 220), fine=0.85, tower_every=1
    ),
    "settle": dataclasses.replace(WIDE, steps=960, lines=(1, 12), short=0.1, stacked=0.35, wider=0.2, fine=0.4),
    # Long lines of small print over a whole page's width, where a phrase was lost or said twice.
    "long": dataclasses.replace(
        WIDE, steps=800, lines=(1, 8), narrow=0.1, small=0.3, echo=0.06, short=0.08, stacked=0.25, wider=0.15, fine=0.35
    ),
    # What was left after that: five such lines of the smallest print.
    "rows": dataclasses.replace(
        WIDE,
        steps=240,
        widths=(400, 1120),
        narrow=0.15,
        tokens=(60, 640),
        small=0.2,
        echo=0.06,
        stacked=0.25,
        fine=0.55,
    ),
    # And more of it, over the whole width.
    "print": dataclasses.replace(
        WIDE,
        steps=1500,
        widths=(560, 1120),
        narrow=0.1,
        tokens=(40, 640),
        small=0.1,
        echo=0.06,
        stacked=0.2,
        wider=0.1,
        fine=0.6,
    ),
    # Single lines and stacked columns again, which the stages above had made rare.
    "round": dataclasses.replace(
        WIDE,
        steps=740,
        lines=(1, 12),
        widths=(300, 1120),
        narrow=0.2,
        small=0.15,
        echo=0.05,
        short=0.1,
        stacked=0.35,
        fine=0.5,
    ),
    # Prose: long paragraphs, narrow ones too, in which whole phrases come again.
    "prose": PROSE,
    # And as large as the client sends them: 640 to 1280 image tokens come from long paragraphs of large print.
    "topics": dataclasses.replace(
        PROSE, steps=560, tokens=(24, 1280), small=0.4, strange=(0.02, 0.3), phrases=0.03, topics=0.6
    ),
}
SMOKE = {
    "letters": Stage(12, reading=False, patches=3000),
    "line": Stage(8, patches=3000),
    "page": Stage(4, lines=(1, 4), widths=(100, 400), natural=1.0, tokens=(100, 400), stacked=0.2, patches=3000),
}
WEIGHTS = {
    "token": 1.0,
    "glyph": 1.0,
    "context": 0.4,
    "line": 0.2,
    "look_current": 0.2,
    "look_next": 0.3,
    "look_next2": 0.3,
}


def normalise(pixels: torch.Tensor) -> torch.Tensor:
    """uint8 [B, H, W, 3] -> float32 [B, 3, H, W] as the image processor leaves it."""
    return (pixels.permute(0, 3, 1, 2).float() / 255 - MEAN) / DEVIATION


def tensors(batch: CropBatch, tail: list[int]) -> dict[str, torch.Tensor]:
    """Pad the token lists: ``after`` [B, T] is prompt tail and text, ``targets`` and ``cells`` belong to it."""
    longest = max(len(ids) for ids in batch.tokens)
    count, start = len(batch.tokens), len(tail)
    after = torch.zeros(count, start + longest, dtype=torch.long)
    targets = torch.full((count, start + longest), IGNORE)
    cells = torch.full((count, start + longest, 2), IGNORE)
    for row, (ids, places) in enumerate(zip(batch.tokens, batch.cells)):
        after[row, : start + len(ids)] = torch.tensor(tail + ids)
        targets[row, start - 1 : start + len(ids)] = torch.tensor(ids + [2])
        cells[row, start - 1 : start - 1 + len(ids)] = torch.tensor(places)
    return {
        "pixels": torch.from_numpy(batch.pixels),
        "glyph": torch.from_numpy(batch.glyph),
        "context": torch.from_numpy(batch.context),
        "line": torch.from_numpy(batch.line),
        "after": after,
        "targets": targets,
        "cells": cells,
    }


def _produce(queue: Any, tokenizer_json: str, seed: int, schedule: list[Stage], start: int) -> None:
    os.nice(1)
    torch.set_num_threads(1)
    tokenizer = Tokenizer.from_str(tokenizer_json)
    _, tail = tokens.prompt_ids(tokenizer)
    maker = CropMaker(tokenizer, seed)
    for step in range(start, sum(stage.steps for stage in schedule)):
        stage = stage_at(schedule, step)
        for _ in range(stage.batches):
            queue.put({name: value.numpy() for name, value in tensors(maker.batch(stage), tail).items()})


def stage_at(schedule: list[Stage], step: int) -> Stage:
    for stage in schedule:
        if step < stage.steps:
            return stage
        step -= stage.steps
    return schedule[-1]


def optimisers(model: nn.Module, rate: float) -> list[torch.optim.Optimizer]:
    """Muon for the matrices inside the layers, AdamW for embeddings, norms, biases and heads."""
    matrices: list[nn.Parameter] = []
    rest: list[nn.Parameter] = []
    for name, parameter in model.named_parameters():
        inside = ".layers." in name or "mlp_AR" in name
        (matrices if inside and parameter.ndim == 2 else rest).append(parameter)
    return [
        Muon(matrices, lr=rate, weight_decay=0.02),
        torch.optim.AdamW(rest, lr=rate, betas=(0.9, 0.98), weight_decay=0.0),
    ]


def factor(elapsed: float, warm: float, total: float) -> float:
    """Share of the peak rate: a linear warm-up, flat, then a linear way down over the last 35 %."""
    if elapsed < warm:
        return (elapsed + 1) / warm
    return max(0.02, min(1.0, (total - elapsed) / (0.35 * total)))


class Trainer:
    """One of ``dist.get_world_size()`` processes that train the same weights on batches of their own."""

    def __init__(self, out: Path, schedule: dict[str, Stage], rate: float, seed: int, init: Path | None = None):
        self.out, self.seed, self.rate = out, seed, rate
        self.rank, self.world, self.parent = dist.get_rank(), dist.get_world_size(), os.getppid()
        self.schedule = list(schedule.values())
        self.steps = sum(stage.steps for stage in self.schedule)
        self.tokenizer = Tokenizer.from_file(str(out / "tokenizer.json"))
        torch.manual_seed(seed)
        self.config = DemoConfig()
        self.model, self.head = DemoModel(self.config), GlyphHead(self.config)
        if init:
            weights = {name: value.float() for name, value in load_file(init / "model.safetensors").items()}
            self.model.load_state_dict({name: value for name, value in weights.items() if name != "lm_head.weight"})
        self.optimisers = optimisers(nn.ModuleList([self.model, self.head]), rate)
        self.step, self.seconds = 0, 0.0
        self.log_every = max(1, min(24, self.steps // 20))
        self.checkpoint = out / "checkpoint.pt"
        if self.checkpoint.exists():
            state = torch.load(self.checkpoint, weights_only=True)
            self.model.load_state_dict(state["model"])
            self.head.load_state_dict(state["head"])
            # A checkpoint without optimiser state starts them afresh.
            for optimiser, saved in zip(self.optimisers, state["optimisers"] or ()):
                optimiser.load_state_dict(saved)
            self.step, self.seconds = state["step"], state["seconds"]

    def save(self) -> None:
        state = {
            "model": self.model.state_dict(),
            "head": self.head.state_dict(),
            "optimisers": [optimiser.state_dict() for optimiser in self.optimisers],
            "step": self.step,
            "seconds": self.seconds,
            "config": dataclasses.asdict(self.config),
        }
        torch.save(state, self.checkpoint.with_suffix(".tmp"))
        os.replace(self.checkpoint.with_suffix(".tmp"), self.checkpoint)

    def losses(self, batch: dict[str, torch.Tensor], stage: Stage) -> dict[str, torch.Tensor]:
        before, _ = tokens.prompt_ids(self.tokenizer)
        pixels = normalise(batch["pixels"])
        tower = self.step % stage.tower_every == 0 and not stage.frozen
        with torch.set_grad_enabled(tower):
            features = self.model.see(pixels)
        shown = tower or stage.frozen
        found = self.head(features, batch["glyph"], batch["context"], batch["line"]) if shown else {}
        if stage.reading:
            rows, columns = (side // self.config.patch for side in pixels.shape[-2:])
            logits, watched = self.model(features, rows, columns, torch.tensor(before), batch["after"], WATCHED)
            found |= reading_loss(logits, batch["targets"]) | looking_loss(watched, batch["cells"], len(before))
        return found

    def run(self, minutes: float) -> None:
        context = multiprocessing.get_context("spawn")
        queue = context.Queue(maxsize=8)
        seed = self.seed * 1_000_003 + self.rank * 10_007 + self.step
        arguments = (queue, self.tokenizer.to_str(), seed, self.schedule, self.step)
        producer = context.Process(target=_produce, args=arguments, daemon=True)
        producer.start()
        began = saved = time.monotonic()
        already = self.seconds
        log = (self.out / "log.jsonl").open("a")
        seen: dict[str, list[float]] = defaultdict(list)
        try:
            for self.step in itertools.count(self.step):
                elapsed = time.monotonic() - began
                # Rank 0 decides, so that all leave at the same step. One whose parent was killed leaves too.
                orphan = os.getppid() != self.parent
                done = torch.tensor(float(self.step >= self.steps or elapsed > minutes * 60 or orphan))
                dist.broadcast(done, 0)
                if done:
                    break
                stage = stage_at(self.schedule, self.step)
                share = factor(self.step, 100, self.steps)
                for optimiser in self.optimisers:
                    for group in optimiser.param_groups:
                        group["lr"] = self.rate * share
                for _ in range(stage.batches):
                    batch = {name: torch.from_numpy(value) for name, value in queue.get(timeout=120).items()}
                    # bfloat16 products: a quarter less time where the processor has them.
                    with torch.autocast("cpu", dtype=torch.bfloat16):
                        found = self.losses(batch, stage)
                    parts = [WEIGHTS[name] * value for name, value in found.items() if name in WEIGHTS]
                    loss = sum(parts[1:], parts[0])
                    (loss / stage.batches).backward()
                    for name, value in found.items():
                        seen[name].append(float(value.detach()))
                    if not math.isfinite(seen["token" if stage.reading else "glyph"][-1]):
                        raise FloatingPointError(f"loss is {float(loss)} at step {self.step}")
                self.average_gradients()
                nn.utils.clip_grad_norm_(itertools.chain(self.model.parameters(), self.head.parameters()), 1.0)
                for optimiser in self.optimisers:
                    optimiser.step()
                    optimiser.zero_grad(set_to_none=True)
                self.seconds = already + time.monotonic() - began
                if self.step % self.log_every == 0 and self.rank == 0:
                    row = {"step": self.step, "seconds": round(self.seconds), "lr": self.rate * share}
                    # Means since the last row: crops of one batch share a size, so single batches tell little.
                    row |= {name: round(statistics.fmean(values), 4) for name, values in seen.items()}
                    print(json.dumps(row), file=log, flush=True)
                    seen.clear()
                if time.monotonic() - saved > 180 and self.rank == 0:
                    self.save()
                    saved = time.monotonic()
        finally:
            producer.terminate()
            producer.join()
        if self.rank == 0:
            self.save()

    def average_gradients(self) -> None:
        """Mean over the processes; a parameter that a stage leaves out has no gradient in any of them."""
        gradients = [
            p.grad for p in itertools.chain(self.model.parameters(), self.head.parameters()) if p.grad is not None
        ]
        flat = nn.utils.parameters_to_vector(gradients)
        dist.all_reduce(flat)
        nn.utils.vector_to_parameters(flat / self.world, gradients)


def curriculum(arguments: argparse.Namespace) -> dict[str, Stage]:
    """All stages that these arguments can train."""
    return SMOKE if arguments.smoke else REFINE if arguments.init else STAGES


def _train(rank: int, world: int, port: int, arguments: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    dist.init_process_group("gloo", rank=rank, world_size=world)
    schedule = curriculum(arguments)
    if arguments.stages:
        schedule = {name: schedule[name] for name in arguments.stages}
    trainer = Trainer(arguments.out, schedule, arguments.rate, arguments.seed, arguments.init)
    trainer.run(arguments.minutes)
    dist.destroy_process_group()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="folder for checkpoint, tokenizer and log")
    parser.add_argument("--minutes", type=float, default=1e9, help="stop after this long; run again to go on")
    parser.add_argument("--rate", type=float, default=2e-3, help="peak learning rate")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--init", type=Path, help="model folder to go on from, e.g. models/demo/PaddleOCR-VL")
    parser.add_argument(
        "--stages", nargs="+", metavar="NAME", help="only these of the schedule, e.g. with --init: heads print"
    )
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--smoke", action="store_true", help="a few steps of every stage, to see that it runs")
    arguments = parser.parse_args()
    if unknown := set(arguments.stages or ()) - set(curriculum(arguments)):
        parser.error(f"--stages {' '.join(unknown)}: expected of {', '.join(curriculum(arguments))}")
    arguments.out.mkdir(parents=True, exist_ok=True)
    vocabulary = arguments.out / "tokenizer.json"
    if arguments.init and not vocabulary.exists():
        shutil.copyfile(arguments.init / "tokenizer.json", vocabulary)
    elif not vocabulary.exists():
        tokens.train(arguments.seed).save(str(vocabulary))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    torch.multiprocessing.spawn(_train, (arguments.processes, port, arguments), nprocs=arguments.processes)


if __name__ == "__main__":
    main()
