# SPDX-License-Identifier: Apache-2.0
"""Kill a replica that is alive but no longer answers; supervisord starts it again. Bound CANN's logs.

A probe is a real request, for one token of a tiny image, so that the engine has to work. On a loaded replica it may
wait behind other requests, so a failed probe counts only while the replica's counters of tokens and requests stand
still. They move when a step of the engine ends, which on a CPU may take many probes; there its CPU time tells whether
it computes.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
import urllib.error
import urllib.request

from prometheus_client.metrics_core import Metric

from bounded_child import cpu_s
from container import folders, replicas
from container.metrics import fetch
from container.replica import processes_of_group, record
from declared_settings import number, whole
from health_probe import OPENER, probe
from selftest.tiny_image import tiny_request
from tool_errors import run

WORK = {f"vllm:{name}_total" for name in ("prompt_tokens", "generation_tokens", "request_success")}
MEET_EVERY_S, MEET_TIMEOUT_S = 0.5, 1.0
# Of one core: an engine that computes takes more, one that waits for requests less.
LEAST_SHARE = 0.1
# For so long CPU time stands for work: a step takes four whole pages of Qwen2-VL (max-num-batched-tokens), each of up
# to 430 s on two cores. What computes for longer spins.
LONGEST_STEP_S = 1800


def work_done(page: list[Metric] | None) -> float | None:
    """A number that grows while a replica works; None if its metrics do not answer, or if VLM_ARGS turned them off."""
    found = [sample.value for family in page or () for sample in family.samples if sample.name in WORK]
    return sum(found) if found else None


def key() -> dict[str, str]:
    """The header with the key that the replicas ask for, if they do."""
    return {"Authorization": f"Bearer {os.environ['VLLM_API_KEY']}"} if os.environ.get("VLLM_API_KEY") else {}


def answers(url: str, model: str, timeout: float) -> bool:
    """Whether a chat completion of one token is answered. A refusal (4xx) is an answer too."""
    body = json.dumps(tiny_request(model)).encode()
    headers = {"Content-Type": "application/json", **key()}
    request = urllib.request.Request(f"{url}/v1/chat/completions", body, headers)
    try:
        with OPENER.open(request, timeout=timeout):
            return True
    except urllib.error.HTTPError as error:
        return error.code < 500
    except OSError:
        return False


def engine_cpu_s(group: int) -> float:
    """Seconds of CPU time of a replica's processes, without the API server, which leads their group: it works for each
    probe, even where the engine hangs."""
    found = 0.0
    for process in processes_of_group(group):
        with contextlib.suppress(OSError):  # it has ended
            found += cpu_s(process) if process != group else 0
    return found


class Watch:
    """The probes of one replica. A failed probe counts only once the replica has answered, `/health` included;
    before that it is loading."""

    def __init__(self, index: int, url: str, model: str, timeout: float, failures: int) -> None:
        self._index, self._url, self._model = index, url, model
        self._timeout, self._allowed = timeout, failures
        self._group: int | None = None
        self._seen = False
        self._failed = 0
        self._work: float | None = None
        self._still_since = 0.0  # time.monotonic()
        self._cpu = (0.0, 0.0)  # of the engine, and when

    def meet(self) -> None:
        """See whether a loading replica is ready. Call it often: a replica that hangs just after it became ready would
        otherwise count as loading for ever."""
        if self._known_group() is not None and not self._seen:
            self._seen = probe(f"{self._url}/health", MEET_TIMEOUT_S).healthy

    def _known_group(self) -> int | None:
        """The replica's process group; None if none is recorded. A new group resets the probes."""
        try:
            group = int(record(os.environ, self._index).read_text())
        except (OSError, ValueError):
            return None
        if group != self._group:
            self._group, self._seen, self._failed, self._work = group, False, 0, None
        return group

    def _computes(self, group: int) -> bool:
        """Whether the engine has computed since the last call. Only on a CPU: a driver that hangs may spin."""
        if os.environ.get("HARDWARE") != "cpu":
            return False
        (cpu, then), now = self._cpu, time.monotonic()
        self._cpu = (engine_cpu_s(group), now)
        return now - self._still_since < LONGEST_STEP_S and self._cpu[0] - cpu > LEAST_SHARE * (now - then)

    def check(self) -> None:
        """Probe once; kill the replica after too many failures in a row."""
        group = self._known_group()
        if group is None:
            return
        if answers(self._url, self._model, self._timeout):
            self._seen, self._failed = True, 0
            return
        page = fetch(self._url)
        work = work_done(page)
        if page is not None and work is None:
            return  # it answers, but whether it works is unknown
        moved = work is not None and work != self._work
        self._work = work
        if moved:
            self._still_since = time.monotonic()
        computes = self._computes(group)
        if not self._seen or moved or (page is not None and computes):
            return
        self._failed += 1
        if self._failed >= self._allowed:
            print(
                f"replica {self._index} has not answered {self._failed} probes in a row and does no work: killing it",
                flush=True,
            )
            for process in processes_of_group(group):
                os.kill(process, signal.SIGKILL)
            self._failed = 0


def main() -> None:
    """Raises WrongValue."""
    interval = number(os.environ, "WATCHDOG_INTERVAL_S")
    watches = [
        Watch(
            index,
            url,
            os.environ["VLM_MODEL_NAME"],
            number(os.environ, "WATCHDOG_TIMEOUT_S"),
            whole(os.environ, "WATCHDOG_FAILURES"),
        )
        for index, url in enumerate(replicas.urls(os.environ))
    ]
    log_bytes = whole(os.environ, "ASCEND_LOG_MIB") << 20
    while True:
        due = time.monotonic() + interval
        while time.monotonic() < due:
            time.sleep(min(MEET_EVERY_S, interval))
            for watch in watches:
                watch.meet()
        for watch in watches:
            watch.check()
        if removed := folders.prune(os.environ, log_bytes):
            print(f"removed {removed} of the oldest files that CANN wrote (ASCEND_LOG_MIB)", flush=True)


if __name__ == "__main__":
    sys.exit(run(main))
