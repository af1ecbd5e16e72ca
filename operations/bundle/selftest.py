# SPDX-License-Identifier: Apache-2.0
"""scripts/selftest.sh: a golden page and golden blocks through the running bundle, against recorded values."""

from __future__ import annotations

import argparse
import difflib
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bundle import files, parser_client
from bundle.compose import mounted, project
from bundle.demo.inputs import open_documents
from bundle.environments.setup import python_of
from bundle.local_mode.settings import LocalSettings
from bundle.paths import ROOT, VALUES, shown
from selftest import check as selftest
from selftest.server import Server
from served_weights.settings import WeightSettings
from served_weights.vlm import find_vlm
from tool_errors import FAILED, ServiceError, ToolError, UsageError, run

PAGE = ROOT / "tests/data/report.png"
PAGE_SECONDS = 600
TEXT_TOLERANCE = 0.01


def parse_arguments(words: list[str], settings: LocalSettings) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/selftest.sh",
        description=(
            "Check a running bundle against recorded values: run it after every change of driver, image or weights."
        ),
    )
    parser.add_argument(
        "--record",
        action="store_true",
        help="record the values, on a machine that is known to be right: blocks by transformers in float32 "
        "on the CPU, the page by the running parser",
    )
    parser.add_argument(
        "--mode",
        choices=("local", "docker"),
        default="local",
        help="docker: ask the VLM from inside its container, since its port is not published (default local)",
    )
    parser.add_argument("--vlm", metavar="URL", default=settings.values["VLM_URL"], help="default %(default)s")
    parser.add_argument("--parser", metavar="URL", default=settings.address("parser"), help="default %(default)s")
    parser.add_argument(
        "--weights", metavar="DIR", type=Path, help="the folder that is served (default: what the VLM says)"
    )
    parser.add_argument("--values", metavar="FILE", type=Path, help=f"default: {selftest.NAME} beside the weights")
    parser.add_argument(
        "--tolerance",
        type=float,
        metavar="NATS",
        default=selftest.LOGPROB_TOLERANCE,
        help="mean difference of log-probabilities (default %(default)s)",
    )
    parser.add_argument(
        "--text_tolerance",
        type=float,
        metavar="FRACTION",
        default=TEXT_TOLERANCE,
        help="of the golden page's characters (default %(default)s)",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout instead of lines")
    return parser.parse_args(words)


def folder_of_weights(root: str, settings: Mapping[str, str]) -> Path:
    """The folder that is served: ``root``, as the VLM names it, where it is on this machine.

    A container names its own path; then it is what MODELS_DIR, VLM_MODEL and HARDWARE in ``settings`` lead to.
    Raises ServiceError.
    """
    if root and Path(root).is_dir():
        return Path(root)
    try:
        return find_vlm(WeightSettings.from_environment(settings)).path
    except UsageError as error:
        served = f"the VLM server serves {root}, which is not on this machine, and " if root else ""
        raise ServiceError(f"{served}{error}; or name the served folder with --weights") from error


def weights_of_server(options: argparse.Namespace, settings: LocalSettings) -> Path:
    """The folder that the VLM says it serves. Raises ServiceError."""
    try:
        root = server(options, settings).root
    except ServiceError as error:
        raise ServiceError(f"{error}; for containers give --mode docker, or name the folder with --weights") from error
    return folder_of_weights(root, settings.values)


def page_text(url: str) -> str:
    """The golden page's Markdown by the running parser."""
    (document,) = open_documents([str(PAGE)])
    result: Any = parser_client.request(url, document.path, document.file_type, PAGE_SECONDS)
    return result["layoutParsingResults"][0]["markdown"]["text"]


def check_page(recorded: str | None, text: str, tolerance: float) -> selftest.Finding:
    if recorded is None:
        return selftest.Finding(
            PAGE.name, False, "no text was recorded; run scripts/selftest.sh --record with a parser running"
        )
    differing = 1 - difflib.SequenceMatcher(None, recorded, text, autojunk=False).ratio()
    return selftest.Finding(
        PAGE.name,
        differing <= tolerance,
        f"{100 * differing:.2f} % of the text differs (at most {100 * tolerance:g} %)",
    )


def record(weights: Path, values: Path, parser: str) -> int:
    """Write the values. Raises EnvironmentSetupError or ServiceError."""
    python = python_of("reference", "--record: ")
    env = {"OMP_NUM_THREADS": "1", **os.environ}
    command = [str(python), "-m", "reference.record_golden", "--model_path", str(weights)]
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise ServiceError(f"the reference ended with status {done.returncode}; its last lines are above")
    document = {"weights": selftest.fingerprint(weights), **json.loads(done.stdout)}
    try:
        document["page"] = {"file": PAGE.name, "text": page_text(parser)}
    except ToolError as error:
        print(f"the page is not recorded, only the blocks: {error}", file=sys.stderr)
    files.write(values, files.as_json(document, indent=1))
    print(
        f"recorded {len(document['blocks'])} blocks{' and the page' if 'page' in document else ''} in {shown(values)}"
    )
    return 0


def server(options: argparse.Namespace, settings: LocalSettings) -> Server:
    """The VLM. Its key is VLM_API_KEY, else the one that the parser sends, which is for VLM_URL only."""
    parsers = settings.values.get("PARSER_VLM_API_KEY") if options.vlm == settings.values["VLM_URL"] else None
    return Server(options.vlm, os.environ.get("VLM_API_KEY") or parsers)


def check(options: argparse.Namespace, vlm: Server, weights: Path, values: Path) -> int:
    recorded = selftest.load(values, weights)
    findings = selftest.check_blocks(vlm, recorded, options.tolerance)
    findings.append(
        check_page((recorded.get("page") or {}).get("text"), page_text(options.parser), options.text_tolerance)
    )
    return selftest.show(findings, options.json)


def check_in_container(options: argparse.Namespace, weights: Path, values: Path) -> int:
    """As `check`, but each replica by itself is asked for the blocks.

    They are asked inside the container, where code and weights are the same.
    """
    recorded = selftest.load(values, weights)
    command = ["docker", "compose", "exec", "-T", "vlm", "python", "-m", "selftest"]
    command += ["--replicas", project.REPLICAS, "--json", "--tolerance", str(options.tolerance)]
    try:
        done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    except OSError as error:
        raise ServiceError(f"--mode docker: docker cannot be run ({error.strerror})") from error
    # A Python that breaks off ends with the same status as a test that says no, but prints no verdict.
    if done.returncode not in (0, FAILED) or not done.stdout.strip():
        raise ServiceError(
            "--mode docker: the blocks could not be asked for in the container vlm; the lines above say why"
        )
    findings = [selftest.Finding(**finding) for finding in json.loads(done.stdout)["findings"]]
    page = check_page((recorded.get("page") or {}).get("text"), page_text(options.parser), options.text_tolerance)
    return selftest.show([*findings, page], options.json)


def main(words: list[str]) -> int:
    settings = LocalSettings.of(VALUES)
    options = parse_arguments(words, settings)
    docker = options.mode == "docker"
    # VALUES has the settings as compose reads them; local mode overrides some of them, like HARDWARE.
    weights = options.weights or (
        folder_of_weights("", mounted.on_host(VALUES)) if docker else weights_of_server(options, settings)
    )
    values = (options.values or weights / selftest.NAME).resolve()
    if options.record:
        return record(weights, values, options.parser)
    if docker:
        return check_in_container(options, weights, values)
    return check(options, server(options, settings), weights, values)


if __name__ == "__main__":
    sys.exit(run(lambda: main(sys.argv[1:])))
