# SPDX-License-Identifier: Apache-2.0
"""scripts/status.sh: whether all of the bundle serves, on one screen; exit status 0 only if it does."""

from __future__ import annotations

import argparse
import dataclasses
import json
import re
import sys
import time
import urllib.error
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import declared_settings
import npu_smi
from bundle import parser_client, readiness
from bundle.compose import division, project
from bundle.compose.dies import given, unlisted
from bundle.compose.images import hardware
from bundle.origin import UNKNOWN
from bundle.paths import VALUES
from bundle.progress import last_line, step
from tool_errors import FAILED, ServiceError, run

SAMPLE = re.compile(r"^(docparser_[a-z_]+)(?:\{[^}]*\})? (\S+)$", re.MULTILINE)
TIMEOUT_SECONDS = 10
PAUSE_SECONDS = 5
MEMORY_LIMITS = {"vlm": "VLM_MEM_LIMIT", "vlm-next": "VLM_MEM_LIMIT", "parser": "PARSER_MEM_LIMIT"}
# Labels of our images, in the order in which they are shown: the bundle's own, and what is in them.
ORIGIN = {"bundle": "version", "commit": "revision", "built": "created"}
VERSIONS = ("stack", "vllm", "vllm-ascend", "torch", "torch-npu", "transformers", "cann", "soc", "paddleocr")
LABELS = {
    **{key: f"org.opencontainers.image.{label}" for key, label in ORIGIN.items()},
    **{key: f"paddleocr-vl.{key}" for key in VERSIONS},
}
COMMIT, SHORT = re.compile(r"^([0-9a-f]{12})[0-9a-f]{28}"), r"\1"


@dataclass(frozen=True)
class Line:
    """One line of the answer. `well` is None where it is no verdict; `lasting` says that no waiting changes it."""

    name: str
    text: str
    well: bool | None = None
    lasting: bool = False


def get(url: str) -> tuple[int, str]:
    """Status and body of a GET to the parser; status 0 and the reason if it does not answer."""
    try:
        return 200, parser_client.get(url, TIMEOUT_SECONDS)
    except urllib.error.HTTPError as error:
        return error.code, error.read(1 << 20).decode("utf-8", "replace")
    except OSError as error:
        return 0, str(getattr(error, "reason", error))


def container(name: str, row: dict[str, Any] | None) -> Line:
    """State and versions of a service's container, and what it went through."""
    if row is None:
        return Line(name, "no container; docker compose up -d", False, lasting=True)
    found = project.labels(row["Image"])
    known = {key: found[label] for key, label in LABELS.items() if found.get(label, UNKNOWN) != UNKNOWN}
    versions = [f"{key} {COMMIT.sub(SHORT, value)}" for key, value in known.items()]
    health = row.get("Health") or "no health check"
    text = f"{row['State']}, {health}; {row['Image']}" + (f" ({', '.join(versions)})" if versions else "")
    return Line(name, "; ".join([text, *troubles(name, row)]), row["State"] == "running" and health == "healthy")


def troubles(name: str, row: dict[str, Any]) -> Iterator[str]:
    """Restarts of a container, the status and the line that it ended with, and what the kernel ended in it for want of
    memory."""
    runs = row["State"] == "running"
    try:
        known = project.inspect(row["ID"])
    except ServiceError:
        return  # it was removed just now
    if count := known["RestartCount"]:
        yield f"restarted {count} times"
    if not runs:
        yield f"ended with status {known['State']['ExitCode']}"
    if not runs or (count and row.get("Health") != "healthy"):
        log = project.docker("logs", "--tail", str(readiness.LOG_LINES), row["ID"])
        yield f"its log: {readiness.likely_cause([*log.stdout.splitlines(), *log.stderr.splitlines()])}"
    killed = project.compose("exec", "-T", name, project.PYTHON, "-m", "cgroup").stdout.strip() if runs else ""
    if known["State"].get("OOMKilled") or (killed.isdigit() and int(killed)):
        times = f"{killed} times since its start" if killed.isdigit() and int(killed) else "before its end"
        yield f"out of memory {times}: raise {MEMORY_LIMITS[name]}"


def inside(service: str) -> dict[str, Any]:
    """What a container of the VLM says of its replicas and its layout server; {"unknown": why} if it does not."""
    answer = project.compose("exec", "-T", service, project.PYTHON, "-m", "container.status")
    try:
        return json.loads(answer.stdout)
    except ValueError:
        return {"unknown": last_line(answer.stderr, otherwise="no answer")}


def replicas(name: str, other: str, found: dict[str, Any]) -> Line:
    """How many replicas of a container answer, and which do not; the container `other` may have the other half."""
    if "unknown" in found:
        return Line(name, f"unknown: {found['unknown']}", False)
    up = sum(replica["up"] for replica in found["replicas"])
    down = [
        f"{replica['number']}" + (f" (die {replica['die']})" if replica["die"] is not None else "")
        for replica in found["replicas"]
        if not replica["up"]
    ]
    text = f"{up} of {found['configured']} up"
    text += f"; down or loading: {', '.join(down)}" if down else ""
    if found.get("half"):
        text += f"; the {found['half']} half of the dies, the other one is for {other} (scripts/upgrade.sh)"
    text += f"; left out at the last start: die {found['missing']}" if found["missing"] else ""
    return Line(name, text, not down and not found["missing"], lasting=bool(found["missing"]) and not down)


def dies(wanted: Sequence[int], answer: npu_smi.Answer) -> Line:
    """The Health of the dies that compose gives to `vlm`, as npu-smi on the node prints it. It is no verdict where
    npu-smi does not answer whoever asks here, or not by the dies' numbers: `replicas` says what serves."""
    if trouble := npu_smi.trouble(answer):
        return Line("dies", f"unknown: {trouble[0]}; {trouble[1]}")
    report = npu_smi.listed(answer.text)
    if report.unnumbered:
        return Line("dies", f"unknown: {report.unnumbered}")
    own = [die for die in report.dies if die.number in wanted]
    lost = unlisted(wanted, report)
    odd = [f"die {die.number} {die.health}" for die in own if die.health.upper() != "OK"]
    odd += [f"die {number} has no line in npu-smi info" for number in lost]
    fine = sum(die.health.upper() == "OK" for die in own)
    sick = bool(lost) or not all(die.usable for die in own)
    text = "; ".join([f"{fine} of {len(wanted)} have the Health OK", *odd])
    return Line("dies", text, False if sick else True if fine == len(wanted) else None, lasting=sick)


def layout(own: dict[str, Any] | None, ready: dict[str, Any]) -> Line | None:
    """The layout server, as the VLM's container (`own`) and the parser's readiness (`ready`) see it, if any."""
    known = ready.get("layout")
    used = (known or {}).get("server")
    if own is None and used is None:
        return None
    said = []
    if own is not None and own["up"]:
        waiting = "" if own["waiting"] is None else f"{own['waiting']} pages wait, "
        said.append(f"up on {own['device']}: {waiting}{own['batch']} at once")
    elif own is not None:
        stands = "ended, and is not started again" if own.get("ended") else "down or loading"
        said.append(f"{stands}, for {own['device']}: {own['detail']}")
    if used is not None:
        said.append(
            f"the parser uses {used['url']}" if used["used"] else f"the parser's CPU stands in: {used['because']}"
        )
    elif known is not None:
        said.append("the parser does not ask it: LAYOUT_URL is not set")
    well = (own is None or own["up"]) and (known is None or bool(used and used["used"]))
    return Line("layout", "; ".join(said), well, lasting=bool(own and own.get("ended")))


def folder() -> Line | None:
    """Where else the containers of this node were made, if so: settings and versions there are not those of here."""
    others = project.other_folders(project.printed, VALUES)
    return Line("folder", f"containers were made in {', '.join(others)}, by the settings there") if others else None


def weights(result: dict[str, Any]) -> Line:
    """What readiness says of the weights in use."""
    parts = [
        f"{result[kind]['model']}{' (DEMO weights)' if result[kind].get('demo') else ''}"
        for kind in ("vlm", "layout")
        if (result.get(kind) or {}).get("model")
    ]
    return Line("weights", ", ".join(parts) or "unknown")


def queue(page: str) -> Line:
    """Waiting and running pages, from the parser's metrics."""
    values = {name: float(value) for name, value in SAMPLE.findall(page)}
    if "docparser_queue_tasks" not in values:
        return Line("queue", "unknown: the parser's metrics do not answer; with keys, set PARSER_API_KEY")
    waiting, running = values["docparser_queue_tasks"], values["docparser_running_tasks"]
    oldest = values["docparser_queue_oldest_seconds"]
    return Line("queue", f"{waiting:.0f} pages wait, the oldest for {oldest:.0f} s; {running:.0f} in work")


def disk() -> Line:
    """Free space of the volume that holds jobs and results."""
    answer = project.compose("exec", "-T", "parser", "df", "-Pk", "/var/lib/paddleocr-vl")
    rows = [line.split() for line in answer.stdout.splitlines()[1:]]
    if answer.returncode or not rows or len(rows[-1]) < 5:
        return Line("disk", "unknown")
    size, free = (int(rows[-1][column]) / 2**20 for column in (1, 3))
    return Line("disk", f"{free:.0f} of {size:.0f} GiB free for jobs and results")


def look() -> list[Line]:
    """Every line. Raises ServiceError where the engine does not answer."""
    parser = parser_client.address(VALUES)
    rows = project.containers()
    lines = [container(name, rows.get(name)) for name in ("vlm", "parser")]
    if "vlm-next" in rows:
        lines.append(container("vlm-next", rows["vlm-next"]))
    if (elsewhere := folder()) is not None:
        lines.append(elsewhere)
    found: dict[str, Any] = {}
    if rows.get("vlm", {}).get("State") == "running":
        found = inside("vlm")
        lines.append(replicas("replicas", "vlm-next", found))
        if why := division.unserved(rows, VALUES, found.get("half") or ""):
            text = f"some dies serve nobody: {why}; scripts/upgrade.sh back gives vlm all dies"
            lines.append(Line("halves", text, False, lasting="vlm-next" not in rows))
    if rows.get("vlm-next", {}).get("State") == "running":
        lines.append(replicas("next", "vlm", inside("vlm-next")))
    if hardware(VALUES) == "ascend":
        lines.append(dies(given(VALUES), npu_smi.ask("info")))
    code, body = get(f"{parser}/health/ready")
    try:
        answer = json.loads(body)
    except ValueError:
        answer = {}
    said, ready = answer.get("errorMsg") or body[:200], answer.get("result") or {}
    if (line := layout(found.get("layout"), ready)) is not None:
        lines.append(line)
    # Without a container of each it never becomes ready.
    lines.append(Line("service", f"{parser}: {said}", code == 200, lasting=not {"vlm", "parser"} <= rows.keys()))
    lines.append(weights(ready))
    if code:
        lines.append(queue(get(f"{parser}/metrics")[1]))
    if rows.get("parser", {}).get("State") == "running":
        lines.append(disk())
    if wrong := declared_settings.unknown(VALUES):
        # Compose passes the names that it knows, so no container can refuse these.
        lines.append(Line("settings", "; ".join(wrong), False, lasting=True))
    return lines


def wait_for_all(seconds: float) -> list[Line]:
    """Look until all is well that waiting can mend, or the time is over; returns the last look."""
    deadline = time.monotonic() + seconds
    with step("waiting for every replica and the parser") as ticker:
        while True:
            lines = look()
            bad = [line for line in lines if line.well is False and not line.lasting]
            if not bad or time.monotonic() >= deadline:
                return lines
            ticker.detail = f"{bad[0].name}: {bad[0].text}"[:120]
            time.sleep(PAUSE_SECONDS)


def main(words: list[str]) -> int:
    arguments = argparse.ArgumentParser(prog="scripts/status.sh", description=__doc__.partition(": ")[2])
    arguments.add_argument(
        "--wait-all",
        nargs="?",
        type=float,
        const=1800.0,
        metavar="SECONDS",
        help="wait until all of it serves, by default 1800 s; `docker compose up --wait` returns at the first",
    )
    arguments.add_argument("--json", action="store_true", help="one JSON list instead of lines")
    options = arguments.parse_args(words)
    lines = look() if options.wait_all is None else wait_for_all(options.wait_all)
    if options.json:
        print(json.dumps([dataclasses.asdict(line) for line in lines], indent=1))
    else:
        for line in lines:
            print(f"{line.name:<9} {'' if line.well is None else 'ok  ' if line.well else 'BAD '}{line.text}")
    if all(line.name not in ("vlm", "parser") or "no container" in line.text for line in lines):
        raise ServiceError("the bundle does not run here; docker compose up -d starts it")
    return FAILED if any(line.well is False for line in lines) else 0


if __name__ == "__main__":
    sys.exit(run(lambda: main(sys.argv[1:])))
