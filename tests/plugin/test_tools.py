# SPDX-License-Identifier: Apache-2.0
"""eval_accuracy.py and the self-test pass on the plugin and on a real server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.plugin.programs import run_python
from tests.support.paths import GOLDEN, MODEL_CODE

pytestmark = [pytest.mark.model, pytest.mark.long]


def evaluate(python: Path, weights: Path, folder: Path, *words: object) -> dict:
    """The JSON report of a run that passed."""
    images = [GOLDEN / f"{name}.png" for name in ("title", "lines", "terms")]
    report = folder / "report.md"
    run_python(
        python,
        "-m",
        "reference.accuracy",
        "--model_path",
        weights,
        "--test_images",
        *images,
        "--output",
        report,
        *words,
    )
    print(report.read_text())
    return json.loads(report.with_suffix(".json").read_text())


@pytest.mark.skipif(
    os.environ.get("TOOLS_AGAINST_VLLM") != "1", reason="only with TOOLS_AGAINST_VLLM=1: vLLM starts once more"
)
def test_the_plugin_passes(reference_python, demo_weights, tmp_path):
    document = evaluate(
        reference_python, demo_weights, tmp_path, "--candidate", "plugin", "--plugin_python", sys.executable
    )
    # The seed's figures for an NPU against a CPU, in float32: 0.6408 %, 99.52 %, 0.999919.
    assert document["mre_percent"] <= 0.01 and document["top1_percent"] >= 99.52 and document["cosine"] >= 0.999999


def test_the_server_passes(server, reference_python, demo_weights, tmp_path):
    document = evaluate(
        reference_python, demo_weights, tmp_path, "--candidate", f"vllm:{server}/v1", "--threshold_top1", 95
    )
    assert document["mre_percent"] is None and document["cosine"] is None and document["logprob_difference"] > 0


def test_the_self_test_passes_and_knows_other_weights(server, demo_weights, tmp_path):
    """With the recorded values that are shipped; tests/reference records some for every family."""

    def selftest(values: Path) -> subprocess.CompletedProcess[str]:
        words = ["--weights", demo_weights, "--values", values, "--vlm", f"{server}/v1"]
        done = subprocess.run(
            [sys.executable, "-m", "selftest", *map(str, words)],
            cwd=MODEL_CODE,
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
        print(done.stdout, done.stderr)
        return done

    shipped, values = demo_weights / "selftest.json", tmp_path / "values.json"
    assert selftest(shipped).returncode == 0
    document = json.loads(shipped.read_text())
    for block in document["blocks"]:
        block["logprobs"] = [value - 0.2 for value in block["logprobs"]]
    values.write_text(json.dumps(document))
    assert selftest(values).returncode == 1, "log-probabilities that are off by 0.2 are seen"
    values.write_text(json.dumps({**document, "weights": "0" * 64}))
    done = selftest(values)
    assert done.returncode == 2 and "other weights" in done.stderr
