# SPDX-License-Identifier: Apache-2.0
"""The arithmetic of workshop/benchmarks/bench_parser.py."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import bench_parser
from layout_wire import BadMessage, pack, unpack
from parser_bench.simulated_layout import Die


def figures(rate: float, pages: int, **errors: int) -> dict:
    per_page = {"pages_per_core_second": 4.0, "vlm_calls_per_page": 30.0}
    return {"pages_per_second": rate, "pages": pages, "errors": errors, **per_page}


def test_no_ratio_against_a_server_that_mostly_fails():
    servers = {
        "ours": figures(3.0, 8),
        "paddlex_default": figures(0.5, 7, timeout=1),
        "paddlex_concurrent": figures(0.4, 1, refused=7),
    }
    assert bench_parser.ratios({"16": servers}) == {"16": {"paddlex_default": 6.0, "paddlex_concurrent": None}}


def test_ratios_of_ours_with_a_layout_server():
    servers = {name: figures(rate, 8) for name, rate in (("ours", 3.0), ("ours_layout_server", 6.0), ("paddlex", 0.5))}
    assert bench_parser.ratios({"16": servers}, "ours_layout_server") == {"16": {"ours": 2.0, "paddlex": 12.0}}
    del servers["ours_layout_server"]
    assert bench_parser.ratios({"16": servers}, "ours_layout_server") == {"16": {}}


def test_a_simulated_die_asks_the_model_once_for_a_page():
    asked: list[np.ndarray] = []

    def engine(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        asked.append(arrays[1])
        return [np.ones((1, 8), np.float32), np.ones(1, np.int32)]

    die = Die(engine, 0.0)
    picture, sizes = np.full((1, 3, 4, 4), 255, np.uint8), np.ones((1, 2), np.float32)
    body = pack({"image": picture, "im_shape": sizes, "scale_factor": sizes})
    assert die.answer(body) == die.answer(body) and list(unpack(die.answer(body))) == ["0", "1"]
    assert len(asked) == 1 and asked[0].dtype == np.float32 and (asked[0] == 1).all()
    with pytest.raises(BadMessage):
        die.answer(b"no page")


def test_the_limit_is_the_scarcer_of_dies_and_cores(monkeypatch):
    monkeypatch.setattr(bench_parser.os, "cpu_count", lambda: 2)
    found = bench_parser.limits({"16": {"ours": figures(1.5, 8)}}, slots=64)["16"]
    assert found == {"vlm": 1.62, "cpu": 8.0, "reached": 0.93}  # 64 slots of 1.32 s and 30 calls a page
    assert bench_parser.limits({"16": {"ours": figures(6.0, 8)}}, slots=16 * 64)["16"]["reached"] == 0.75
