# SPDX-License-Identifier: Apache-2.0
"""The training runs through every stage, goes on from its checkpoint, and exports a complete model folder."""

import dataclasses
import json
import shutil
import subprocess
import sys
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import load_file

from demo_training.vlm.config import DemoConfig
from demo_training.vlm.export import export
from demo_training.vlm.model import DemoModel
from tests.support.processes import child_environment

DEMO = Path(__file__).resolve().parents[4] / "models" / "demo" / "PaddleOCR-VL"


def run(module: str, *arguments: object) -> None:
    command = [sys.executable, "-m", f"demo_training.vlm.{module}", *map(str, arguments)]
    subprocess.run(command, env=child_environment(), check=True, timeout=900)


def test_smoke(tmp_path):
    run("train", "--out", tmp_path, "--smoke", "--processes", 2, "--minutes", 0.05)  # the first step at least
    first = len((tmp_path / "log.jsonl").read_text().splitlines())
    run("train", "--out", tmp_path, "--smoke", "--processes", 2)
    rows = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert len(rows) > first >= 1
    assert [row["step"] for row in rows] == sorted({row["step"] for row in rows})
    # A few steps suffice to see that it learns to tell letters at all; it starts at ln 97 = 4.6 and above.
    assert rows[-1]["glyph"] < rows[0]["glyph"] - 0.2

    run("export", "--checkpoint", tmp_path / "checkpoint.pt", "--out", tmp_path / "model")
    assert {path.name for path in (tmp_path / "model").iterdir()} >= {
        path.name for path in DEMO.iterdir() if path.name not in ("README.md", "SHA256SUMS", "selftest.json")
    }
    with (
        safe_open(tmp_path / "model" / "model.safetensors", "pt") as made,
        safe_open(DEMO / "model.safetensors", "pt") as tracked,
    ):
        assert set(made.keys()) == set(tracked.keys())
    assert json.loads((tmp_path / "model" / "config.json").read_text()) == json.loads(
        (DEMO / "config.json").read_text()
    )


def test_stages_of_another_schedule_are_refused(tmp_path):
    command = [sys.executable, "-m", "demo_training.vlm.train", "--out", tmp_path / "out", "--stages", "print"]
    result = subprocess.run(command, env=child_environment(), capture_output=True, text=True, timeout=300)
    assert result.returncode == 2 and "--stages print: expected of letters, line" in result.stderr
    assert not (tmp_path / "out").exists()


def test_the_mean_of_two_checkpoints(tmp_path):
    for name, value in (("early", 1.0), ("late", 3.0)):
        model = DemoModel(DemoConfig())
        for parameter in model.parameters():
            torch.nn.init.constant_(parameter, value)
        state = {"model": model.state_dict(), "config": dataclasses.asdict(DemoConfig())}
        torch.save(state, tmp_path / f"{name}.pt")
    shutil.copyfile(DEMO / "tokenizer.json", tmp_path / "tokenizer.json")
    export(tmp_path / "late.pt", tmp_path / "model", tmp_path / "early.pt", share=0.25)
    made = load_file(tmp_path / "model" / "model.safetensors")
    assert made and {value.unique().item() for value in made.values()} == {2.5}

    # And with an exported model, as training began with.
    export(tmp_path / "late.pt", tmp_path / "again", tmp_path / "model", share=0.5)
    made = load_file(tmp_path / "again" / "model.safetensors")
    assert {value.unique().item() for value in made.values()} == {2.75}
