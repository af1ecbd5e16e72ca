# SPDX-License-Identifier: Apache-2.0
"""The arithmetic of benchmarks/bench_parser.py."""

from __future__ import annotations

import bench_parser


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


def test_the_limit_is_the_scarcer_of_dies_and_cores(monkeypatch):
    monkeypatch.setattr(bench_parser.os, "cpu_count", lambda: 2)
    found = bench_parser.limits({"16": {"ours": figures(1.5, 8)}}, dies=1)["16"]
    assert found == {"vlm": 1.62, "cpu": 8.0, "reached": 0.93}  # 64 slots of 1.32 s and 30 calls a page
    assert bench_parser.limits({"16": {"ours": figures(6.0, 8)}}, dies=16)["16"]["reached"] == 0.75
