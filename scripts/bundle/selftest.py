# SPDX-License-Identifier: Apache-2.0
"""scripts/selftest.sh: a golden page and golden blocks through the running bundle, against recorded values."""

from __future__ import annotations

import argparse
import difflib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from . import client
from .environments import ENVIRONMENTS
from .errors import BundleError, EnvironmentSetupError, ServiceError, exit_status
from .inputs import open_documents
from .paths import ROOT, shown
from .settings import LocalSettings

sys.path.append(str(ROOT / "model_code"))

from reference import selftest  # noqa: E402
from reference.errors import FAILED, run  # noqa: E402
from reference.served import Server  # noqa: E402

PAGE = ROOT / "tests/data/report.png"
PAGE_SECONDS = 600
TEXT_TOLERANCE = 0.01


def parse_arguments(words: list[str], settings: LocalSettings) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/selftest.sh",
        description="Check a running bundle against recorded values: run it after every change of driver, image or weights.",
    )
    parser.add_argument("--record", action="store_true",
                        help="record the values, on a machine that is known to be right: blocks by transformers in float32 "
                             "on the CPU, the page by the running parser")
    parser.add_argument("--mode", choices=("local", "docker"), default="local",
                        help="docker: ask the VLM from inside its container, since its port is not published (default local)")
    parser.add_argument("--vlm", metavar="URL", default=settings.values["VLM_URL"], help="default %(default)s")
    parser.add_argument("--parser", metavar="URL", default=settings.parser_url, help="default %(default)s")
    parser.add_argument("--weights", metavar="DIR", type=Path, help="the folder that is served (default: what the VLM says)")
    parser.add_argument("--values", metavar="FILE", type=Path, help=f"default: {selftest.NAME} beside the weights")
    parser.add_argument("--tolerance", type=float, metavar="NATS", default=selftest.LOGPROB_TOLERANCE,
                        help="mean difference of log-probabilities (default %(default)s)")
    parser.add_argument("--text_tolerance", type=float, metavar="FRACTION", default=TEXT_TOLERANCE,
                        help="of the golden page's characters (default %(default)s)")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout instead of lines")
    return parser.parse_args(words)


def served_weights(root: str, settings: LocalSettings) -> Path:
    """The folder that the VLM names, as it is seen from here: in a container MODELS_DIR is another path."""
    if root and Path(root).is_dir():
        return Path(root)
    models = Path(settings.values["MODELS_DIR"])
    named = [models / settings.values.get("VLM_MODEL", "")] if settings.values.get("VLM_MODEL") else []
    for folder in (*named, models / "PaddleOCR-VL", models / "demo/PaddleOCR-VL"):
        if any(folder.glob("*.safetensors")):
            return folder
    raise ServiceError(f"the VLM server serves {root}, which is not there on this machine; name its weights with --weights")


def page_text(url: str) -> str:
    """The golden page's Markdown by the running parser."""
    (document,) = open_documents([str(PAGE)])
    result: Any = client.request(url, document, PAGE_SECONDS)
    return result["layoutParsingResults"][0]["markdown"]["text"]


def check_page(recorded: str | None, text: str, tolerance: float) -> selftest.Finding:
    if recorded is None:
        return selftest.Finding(PAGE.name, False, "no text was recorded; run scripts/selftest.sh --record with a parser running")
    differing = 1 - difflib.SequenceMatcher(None, recorded, text, autojunk=False).ratio()
    return selftest.Finding(
        PAGE.name, differing <= tolerance, f"{100 * differing:.2f} % of the text differs (at most {100 * tolerance:g} %)"
    )


def record(weights: Path, values: Path, parser: str) -> int:
    """Write the values. Raises EnvironmentSetupError or ServiceError."""
    python = ENVIRONMENTS["reference"].python
    if not python.is_file():
        raise EnvironmentSetupError("--record needs the environment reference; make it with scripts/setup_env.sh reference")
    env = {"OMP_NUM_THREADS": "1", **os.environ, "PYTHONPATH": str(ROOT / "model_code")}
    command = [str(python), "-m", "reference.golden", "--model_path", str(weights)]
    done = subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise ServiceError(f"the reference ended with status {done.returncode}; its last lines are above")
    document = {"weights": selftest.fingerprint(weights), **json.loads(done.stdout)}
    try:
        document["page"] = {"file": PAGE.name, "text": page_text(parser)}
    except BundleError as error:
        print(f"the page is not recorded, only the blocks: {error}", file=sys.stderr)
    client.replace(values, (json.dumps(document, ensure_ascii=False, indent=1) + "\n").encode())
    print(f"recorded {len(document['blocks'])} blocks{' and the page' if 'page' in document else ''} in {shown(values)}")
    return 0


def check(options: argparse.Namespace, weights: Path, values: Path) -> int:
    recorded = selftest.load(values, weights)
    findings = selftest.check_blocks(Server(options.vlm), recorded, options.tolerance)
    findings.append(check_page((recorded.get("page") or {}).get("text"), page_text(options.parser), options.text_tolerance))
    return selftest.show(findings, options.json)


def check_in_container(options: argparse.Namespace, settings: LocalSettings) -> int:
    """As `check`, with the blocks asked for inside the VLM's container, where code and weights are the same."""
    weights = options.weights or served_weights("", settings)
    recorded = selftest.load((options.values or weights / selftest.NAME).resolve(), weights)
    command = ["docker", "compose", "exec", "-T", "vlm", "python", "-m", "reference.selftest", "--json",
               "--tolerance", str(options.tolerance)]
    try:
        done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    except OSError as error:
        raise ServiceError(f"--mode docker: docker cannot be run ({error.strerror})") from error
    # A Python that breaks off ends with the same status as a test that says no, but prints no verdict.
    if done.returncode not in (0, FAILED) or not done.stdout.strip():
        raise ServiceError("--mode docker: the blocks could not be asked for in the container vlm; the lines above say why")
    findings = [selftest.Finding(**finding) for finding in json.loads(done.stdout)["findings"]]
    page = check_page((recorded.get("page") or {}).get("text"), page_text(options.parser), options.text_tolerance)
    return selftest.show([*findings, page], options.json)


def main(words: list[str]) -> int:
    try:
        settings = LocalSettings.load(os.environ)
        options = parse_arguments(words, settings)
        if options.mode == "docker" and not options.record:
            return check_in_container(options, settings)
        # Recording the blocks needs no server where the weights are named.
        weights = options.weights or served_weights(Server(options.vlm).root, settings)
        values = (options.values or weights / selftest.NAME).resolve()
        return record(weights, values, options.parser) if options.record else check(options, weights, values)
    except BundleError as error:
        print(f"error: {error}", file=sys.stderr)
        return exit_status(error)


if __name__ == "__main__":
    sys.exit(run(lambda: main(sys.argv[1:])))
