# SPDX-License-Identifier: Apache-2.0
"""Compare our parser with `paddlex --serve`, as installed and with its serial mode off: same VLM, same documents.

    .venvs/parser/bin/python workshop/benchmarks/bench_parser.py simulated --dies 16
    .venvs/parser/bin/python workshop/benchmarks/bench_parser.py demo --vlm-url http://127.0.0.1:8000/v1

`simulated`: a simulated VLM (parser_bench/simulated_vlm.py), which takes the time of VLMs on NPUs and next to no CPU.
`demo`: a running VLM server with the demo weights on the same cores. The servers take turns. Progress goes to stderr.

`--layout published`: random weights of the published layout model's shape run in full, and then the demo model's boxes
are used.
`--servers ours_layout_server`: ours with the layout model on a die, which parser_bench/simulated_layout.py simulates
unless `--layout-url` names a running layout server. Its processor time is not the parser's, and not counted.
`cpu_s_per_page_by_process`: `service` has HTTP and the queue, `pages` the workers with layout, crops and calls of the
VLM, `rendering` and `answers` (text and JSON) what they leave to others; PaddleX's server is one `service`.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import os
import platform
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from parser_bench import load
from parser_bench.documents import text_pdf
from parser_bench.layout_models import layout_model
from parser_bench.processes import OPENER, Server, collector, our_parser, paddlex, say, simulated_layout, simulated_vlm
from parser_bench.simulated_vlm import MODEL

DOCUMENTS = 8
TEXT_LAYER = ("check", "repair", "prefer")
SECONDS_PER_CALL = 0.12 + 60 / 50  # of the simulated VLM
SLOTS = 64  # requests at a time on a whole die


def calls_served(vlm_url: str) -> int | None:
    """Return how many calls the simulated VLM has answered so far; None for a real VLM server."""
    with (
        contextlib.suppress(OSError, ValueError),
        OPENER.open(vlm_url.removesuffix("/v1") + "/stats", timeout=30) as answer,
    ):
        return json.load(answer)["served"]
    return None


def measure(server: Server, vlm_url: str, documents: list[bytes], clients: int, count: int, timeout_s: float) -> dict:
    """Return the figures of one run; times in seconds, memory in MiB."""
    before = calls_served(vlm_url)
    with server.measured() as usage:
        seen = load.run(server.url, documents, clients, count, timeout_s)
    pages = max(seen.pages, 1)
    calls = {}
    if before is not None:
        after = calls_served(vlm_url)
        assert after is not None, "the simulated VLM answered before the run, and no longer does"
        calls["vlm_calls_per_page"] = round((after - before) / pages, 1)
    return {
        "pages_per_second": round(seen.pages_per_second, 3),
        "latency_s": {
            "mean": round(seen.mean, 2),
            "p50": round(seen.percentile(50), 2),
            "p95": round(seen.percentile(95), 2),
        },
        "pages": seen.pages,
        "errors": seen.errors,
        "cpu_s_per_page": round(usage.cpu_s / pages, 3),
        "cpu_s_per_page_by_process": {kind: round(seconds / pages, 3) for kind, seconds in usage.parts.items()},
        "pages_per_core_second": round(seen.pages / usage.cpu_s, 2) if usage.cpu_s else None,
        "peak_mib": usage.peak_bytes >> 20,
        "wall_s": round(seen.wall_s, 1),
        **calls,
    }


def median(runs: list[dict]) -> dict:
    """Return the run with the median throughput, with the errors of all runs."""
    middle = dict(sorted(runs, key=lambda run: run["pages_per_second"])[len(runs) // 2])
    middle["errors"] = {kind: sum(run["errors"].get(kind, 0) for run in runs) for run in runs for kind in run["errors"]}
    return middle


def compare(options: argparse.Namespace, vlm_url: str, folder: Path) -> dict[str, dict[str, dict]]:
    """{clients: {server: figures}}; servers take turns within each number of clients."""
    documents = [text_pdf(options.pages, seed) for seed in range(DOCUMENTS)]
    stack = contextlib.ExitStack()
    ours = functools.partial(
        our_parser,
        folder,
        vlm_url,
        options.layout,
        options.workers,
        options.threads,
        small_print=options.small_print,
    )
    starters: dict[str, Callable[[], Server]] = {
        "ours": ours,
        "with_confidence": lambda: ours(name="with_confidence", confidence=True),
        "traced": lambda: ours(name="traced", collector=stack.enter_context(collector())),
        **{mode: functools.partial(ours, name=mode, text_layer=mode) for mode in TEXT_LAYER},
        "ours_layout_server": lambda: ours(
            name="ours_layout_server",
            layout_url=options.layout_url or stack.enter_context(simulated_layout(options.layout, folder)),
        ),
        "against": lambda: ours(name="against", root=options.against, text_layer=""),
        "paddlex_default": lambda: paddlex(folder, vlm_url, options.layout, concurrent=False),
        "paddlex_concurrent": lambda: paddlex(folder, vlm_url, options.layout, concurrent=True),
    }
    with stack:
        servers = []
        for name in [*options.servers, *(["against"] if options.against else [])]:
            say(f"starting {name}")
            servers.append(stack.enter_context(contextlib.closing(starters[name]())))
        for server in servers:
            server.wait()
            # The first requests are slower, and a simulated die answers no page at once that it does not know.
            count = DOCUMENTS if server.name == "ours_layout_server" else 2
            measure(server, vlm_url, documents, 1, count, options.timeout)
        results: dict[str, dict[str, dict]] = {}
        for clients in options.clients:
            runs: dict[str, list[dict]] = {server.name: [] for server in servers}
            count = max(options.least, options.each * clients)
            for round in range(options.rounds):
                for server in servers if round % 2 == 0 else servers[::-1]:
                    figures = measure(server, vlm_url, documents, clients, count, options.timeout)
                    runs[server.name].append(figures)
                    say(
                        f"{clients:3d} clients  {server.name:20s} {figures['pages_per_second']:7.3f} pages/s  "
                        f"p95 {figures['latency_s']['p95']:6.2f} s  {figures['cpu_s_per_page']:.3f} CPU s/page  "
                        f"{figures['peak_mib']} MiB  {figures['errors'] or ''}"
                    )
            results[str(clients)] = {name: median(figures) for name, figures in runs.items()}
        return results


def ratios(results: dict[str, dict[str, dict]], name_of_ours: str = "ours") -> dict[str, dict[str, float | None]]:
    """Return our pages per second over the other servers', by number of clients.

    None where they failed on more pages than they answered: a rate over so few pages says nothing.
    """
    found: dict[str, dict[str, float | None]] = {}
    for clients, servers in results.items():
        ours = servers.get(name_of_ours, {}).get("pages_per_second")
        found[clients] = {
            name: round(ours / figures["pages_per_second"], 2)
            if figures["pages"] > sum(figures["errors"].values())
            else None
            for name, figures in servers.items()
            if name != name_of_ours and ours is not None
        }
    return found


def limits(results: dict[str, dict[str, dict]], slots: int) -> dict[str, dict[str, float]]:
    """Return the limits of our parser by number of clients, in pages per second.

    ``vlm`` is what ``slots`` requests at a time come to. ``cpu`` is what all cores would give at the processor time
    that a page took in that run. ``reached`` is the throughput's share of the lower one. The clients and the simulated
    VLM run on the same cores; their share counts as not reached.
    """
    found = {}
    for clients, servers in results.items():
        ours = servers.get("ours")
        if ours and ours["pages"] and ours.get("vlm_calls_per_page"):
            vlm = slots / SECONDS_PER_CALL / ours["vlm_calls_per_page"]
            cpu = os.cpu_count() * ours["pages_per_core_second"]
            reached = ours["pages_per_second"] / min(vlm, cpu)
            found[clients] = {"vlm": round(vlm, 2), "cpu": round(cpu, 2), "reached": round(reached, 2)}
    return found


def machine() -> dict:
    model = next(
        (
            line.split(":")[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith(("model name", "Model name"))
        ),
        platform.machine(),
    )
    return {"cpu": model, "cores": os.cpu_count(), "load_before": os.getloadavg()[0]}


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("setting", choices=("simulated", "demo"))
    parser.add_argument("--dies", type=int, default=16, help="simulated: NPU dies")
    parser.add_argument(
        "--slots",
        type=int,
        default=SLOTS,
        help=f"simulated: requests at a time on each die (default {SLOTS}); fewer are the share of a die that goes "
        "with this machine's cores",
    )
    parser.add_argument("--vlm-url", help="demo: a running VLM server's API root")
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 4, 16, 64])
    parser.add_argument(
        "--rounds", type=int, default=1, help="runs per server and number of clients; the median counts"
    )
    parser.add_argument("--least", type=int, default=8, help="documents per run, at least")
    parser.add_argument("--each", type=int, default=2, help="documents per client")
    parser.add_argument("--timeout", type=float, default=400, help="seconds after which a request is an error")
    parser.add_argument("--pages", type=int, default=1, help="pages per document")
    parser.add_argument("--workers", type=int, help="worker processes of our parser (default: as it chooses)")
    parser.add_argument("--threads", type=int, help="threads of its layout model, per worker (default: as it chooses)")
    parser.add_argument("--layout-url", help="ours_layout_server: a running layout server instead of a simulated one")
    parser.add_argument(
        "--layout", type=layout_model, default="demo", metavar="demo|published|DIR", help="the layout model"
    )
    parser.add_argument(
        "--servers",
        nargs="+",
        default=["ours", "paddlex_default", "paddlex_concurrent"],
        choices=(
            "ours",
            "ours_layout_server",
            "with_confidence",
            "traced",
            *TEXT_LAYER,
            "paddlex_default",
            "paddlex_concurrent",
        ),
        help="with_confidence is ours with PARSER_CONFIDENCE=1; traced sends traces to a collector; check, repair, "
        "prefer with that PARSER_TEXT_LAYER, which is off in the others",
    )
    parser.add_argument(
        "--against", metavar="DIR", type=Path, help="another checkout of this repository, whose parser takes part"
    )
    parser.add_argument(
        "--small-print",
        choices=("auto", "on", "off"),
        default="auto",
        help="PARSER_SMALL_PRINT of ours; off: a block is one request, as PaddleX asks",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object with everything")
    options = parser.parse_args(words)
    if options.setting == "demo" and not options.vlm_url:
        parser.error("demo: --vlm-url is needed, the API root of a running VLM server that serves " + MODEL)
    about = machine()
    with tempfile.TemporaryDirectory(prefix="bench-parser-") as name:
        if options.setting == "simulated":
            with simulated_vlm(options.dies, "--slots", str(options.slots)) as (vlm_url, _):
                results = compare(options, vlm_url, Path(name))
        else:
            results = compare(options, options.vlm_url, Path(name))
    key = options.setting if options.dies == 16 or options.setting == "demo" else f"simulated_{options.dies}"
    found = {
        "setting": key,
        "machine": about,
        "workers": options.workers,
        "threads": options.threads,
        "small_print": options.small_print,
        "results": {key: results},
        "ratios": {
            "pages_per_second": {key: ratios(results)},
            "with_layout_server": {key: ratios(results, "ours_layout_server")},
        },
    }
    if options.setting == "simulated":
        found["limits"] = {key: limits(results, options.dies * options.slots)}
    print(json.dumps(found, indent=None if options.json else 1))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
