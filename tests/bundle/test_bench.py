# SPDX-License-Identifier: Apache-2.0
"""The benchmarks' own arithmetic, and the serving benchmark against a small server that answers at once."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

import bench_confidence
import bench_model
import bench_serving
from model_bench import drawing
from model_bench.crops import PAGE
from parser_bench import layout_models
from tests.support.paths import ROOT
from tests.support.simulated_vlm import SimulatedVlm, image_url


def test_ratios_are_taken_within_a_round():
    """A machine that slows down by half in one round changes no ratio."""
    encode = {
        "ours": 1.0,
        "in_tree": 1.5,
        "transformers": 1.2,
        "products_linear": 0.7,
        "products_attention": 0.2,
        "products": 0.9,
    }
    decode = {"ours": 2.0, "in_tree": 2.0, "transformers": 3.0}
    rounds = [{"vision_encode": {name: slow * value for name, value in encode.items()}} for slow in (1, 10, 1)]
    rounds += [{"decode": {name: slow * value for name, value in decode.items()}} for slow in (1, 10, 1)]
    apart = {"vision_encode.features": {"in_tree": 0.01, "transformers": 0.02}, "language.tokens": {"in_tree": 0.5}}
    result = bench_model.report("bfloat16", rounds, apart)
    assert result["ratios"]["vision_encode"] == {"in_tree": 1.5, "transformers": 1.2, "matmul_share": 0.9}
    assert result["ratios"]["decode"] == {"in_tree": 1.0, "transformers": 1.5}
    assert result["seconds"]["vision_encode"]["ours"] == 1.0 and result["equality"]["holds"]


@pytest.mark.parametrize(
    ("dtype", "key", "distance"),
    [
        ("bfloat16", "vision_encode.features", 0.06),
        ("float32", "vision_encode.features", 2e-4),
        ("bfloat16", "language.logprobs", 0.2),
        ("float32", "language.tokens", 0.1),
        ("bfloat16", "preprocess.features", 1e-9),
        ("bfloat16", "vision_encode.features", float("inf")),
    ],
)
def test_no_ratios_where_results_differ(dtype, key, distance):
    rounds = [{"vision_encode": {"ours": 1.0, "in_tree": 1.5}}]
    result = bench_model.report(dtype, rounds, {key: {"in_tree": distance}})
    assert not result["equality"]["holds"] and result["ratios"] == {} and result["seconds"]


@pytest.mark.parametrize(
    "words",
    [
        ["--implementations", "in_tree"],
        ["--processor-time", "--threads", "1", "--device", "cuda"],
        ["--processor-time", "--threads", "2"],
        ["--rounds", "0"],
    ],
)
def test_what_cannot_be_measured_is_refused(words, capsys):
    with pytest.raises(SystemExit):
        bench_model.parse(words)
    assert "error: " in capsys.readouterr().err


def test_the_page_has_thirty_crops():
    assert len(PAGE) == 30 and all(20 <= height <= 2339 and 20 <= width <= 1654 for width, height in PAGE)


def test_percentiles():
    assert bench_serving.percentiles([float(n) for n in range(1, 101)]) == {"p50": 50.0, "p90": 90.0, "p99": 99.0}
    assert bench_serving.percentiles([3.0]) == {"p50": 3.0, "p90": 3.0, "p99": 3.0}


def test_drawn_images_are_whole_png_files():
    data = drawing.png(61, 40, 1)
    assert data.startswith(b"\x89PNG\r\n\x1a\n") and data.endswith(b"IEND" + zlib.crc32(b"IEND").to_bytes(4, "big"))
    packed = data[data.index(b"IDAT") + 4 : data.index(b"IEND") - 8]
    assert len(zlib.decompress(packed)) == 40 * 62 and drawing.png(61, 40, 2) != data


@pytest.fixture
def vlm() -> Iterator[SimulatedVlm]:
    """Answers two words to a picture."""
    server = SimulatedVlm()
    server.answer = lambda request, number: (
        "ab ab" if image_url(request).startswith("data:image/") else (400, "no image")
    )
    yield server
    server.close()


def run(server: SimulatedVlm, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "workshop/benchmarks/bench_serving.py"), "--json", "--max-tokens", "2"]
    return subprocess.run(
        [*command, "--url", f"http://127.0.0.1:{server.port}", *words],
        capture_output=True,
        text=True,
        check=False,
    )


def test_levels_of_concurrency(vlm):
    result = run(vlm, "--concurrency", "1", "3")
    assert result.returncode == 0, result.stderr
    one, three = json.loads(result.stdout)["levels"]
    assert (one["requests"], three["requests"], one["failed"]) == (8, 8, 0) and len(vlm.requests) == 2 + 16
    assert three["requests_per_second"] > 0 and set(three["latency_s"]) == {"p50", "p90", "p99"}
    assert three["first_token_s"]["p50"] <= three["latency_s"]["p50"]


def test_failures_are_counted_and_told(vlm):
    vlm.answer = lambda request, number: (503, "busy") if number % 4 == 0 else "ab ab"
    result = run(vlm, "--concurrency", "2", "--requests", "8")
    (level,) = json.loads(result.stdout)["levels"]
    assert result.returncode == 1 and level["failed"] == 2 and level["requests"] == 6
    assert "status 503" in level["first_failure"]


def test_no_server(capsys):
    assert bench_serving.main(["--url", "http://127.0.0.1:9"]) == 1
    assert "http://127.0.0.1:9 does not serve a model" in capsys.readouterr().err


def test_the_cost_of_confidence_is_measured_in_turns(vlm, capsys):
    words = ["--url", f"http://127.0.0.1:{vlm.port}", "--rounds", "2", "--concurrency", "2", "--requests", "2"]
    assert bench_confidence.main([*words, "--pid", str(os.getpid())]) == 0
    found = json.loads(capsys.readouterr().out)
    asked = [request.get("logprobs") is True for request in vlm.requests]
    assert asked == [False, True] + [False] * 2 + [True] * 4 + [False] * 2, "after one of each kind"
    assert len(found["rounds"]) == len(found["ratios"]["seconds"]) == 2 and found["median"]["seconds"] > 0

    vlm.answer = lambda request, number: (503, "busy")
    assert bench_confidence.main([*words, "--pid", str(os.getpid())]) == 1
    assert bench_confidence.main([*words, "--pid", str(1 << 30)]) == 1
    assert "there is no such process" in capsys.readouterr().err


def test_processor_time_of_a_process_and_its_children():
    with subprocess.Popen(["sleep", "60"]) as child:
        assert {os.getpid(), child.pid} <= bench_confidence.family(os.getpid()).keys()
        assert bench_confidence.family(child.pid).keys() == {child.pid}
        child.kill()


def test_a_layout_model_by_name_or_folder(tmp_path: Path):
    demo = layout_models.layout_model("demo")
    assert (demo / "inference.pdiparams").is_file() and layout_models.layout_model(str(demo)) == demo
    for word in ("publishd", str(tmp_path)):
        with pytest.raises(argparse.ArgumentTypeError, match="neither demo nor published nor"):
            layout_models.layout_model(word)


def test_the_published_shape_is_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    made = []

    def make(command: list[str], **_: object) -> None:
        folder = Path(command[3])
        folder.mkdir()
        made.append(folder)

    monkeypatch.setattr(layout_models, "ROOT", tmp_path)
    monkeypatch.setattr(layout_models.subprocess, "run", make)
    folder = layout_models.layout_model("published")
    assert folder.name == "PP-DocLayoutV2" and folder.is_dir() and made[0] != folder
    assert layout_models.layout_model("published") == folder and len(made) == 1
    monkeypatch.setattr(layout_models, "SCRIPT", Path(__file__))
    assert layout_models.layout_model("published") != folder, "another script makes another model"
