# SPDX-License-Identifier: Apache-2.0
"""Train the demo vision-language model on two CPU cores, resumable.

    python -m demo_training.vlm.train --out DIR [--minutes N] [--init MODEL] [--stages NAME...] [--shelf DIR] [--smoke]

The schedule is a curriculum (``stages``). A checkpoint is written every few minutes; running the same command again
goes on from it.

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
import statistics
import time
from collections import defaultdict
from pathlib import Path

import torch
import torch.distributed as dist
from tokenizers import Tokenizer
from torch import nn

from free_ports import free_port

from . import tokenizer as tokens
from .batches import normalise, produce
from .config import DemoConfig
from .crops import Stage
from .deepen import exported
from .model import DemoModel
from .muon import Muon
from .stages import REFINE, SMOKE, STAGES, stage_at
from .supervision import WATCHED, GlyphHead, looking_loss, reading_loss

WEIGHTS = {
    "token": 1.0,
    "glyph": 1.0,
    "context": 0.4,
    "line": 0.2,
    "look_current": 0.2,
    "look_next": 0.3,
    "look_next2": 0.3,
    "look_next3": 0.3,
}


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

    def __init__(
        self,
        out: Path,
        schedule: dict[str, Stage],
        rate: float,
        seed: int,
        init: Path | None = None,
        shelf: Path | None = None,
    ):
        self.out, self.seed, self.rate, self.shelf = out, seed, rate, shelf
        self.rank, self.world, self.parent = dist.get_rank(), dist.get_world_size(), os.getppid()
        self.schedule = list(schedule.values())
        self.steps = sum(stage.steps for stage in self.schedule)
        self.tokenizer = Tokenizer.from_file(str(out / "tokenizer.json"))
        torch.manual_seed(seed)
        self.config = DemoConfig()
        self.model, self.head = DemoModel(self.config), GlyphHead(self.config)
        if init:
            self.model.load_state_dict(exported(init, self.config))
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
        arguments = (queue, self.tokenizer.to_str(), seed, self.schedule, self.step, self.shelf)
        producer = context.Process(target=produce, args=arguments, daemon=True)
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
    trainer = Trainer(arguments.out, schedule, arguments.rate, arguments.seed, arguments.init, arguments.shelf)
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
    parser.add_argument(
        "--shelf", type=Path, help="folder of printed pages (typesetters.make), for stages that have some"
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
    torch.multiprocessing.spawn(_train, (arguments.processes, free_port(), arguments), nprocs=arguments.processes)


if __name__ == "__main__":
    main()
