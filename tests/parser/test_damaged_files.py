# SPDX-License-Identifier: Apache-2.0
"""Generated damaged files: the service answers with 2xx or 4xx, no process ends, memory and descriptors stay flat.

Four of each kind here; more on demand: ``DAMAGED_FILES=2000 scripts/test.sh parser -k damaged``.
"""

from __future__ import annotations

import os
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.support import damaged, samples
from tests.support.parser_process import ParserProcess
from tests.support.processes import children

COUNT = int(os.environ.get("DAMAGED_FILES", 4 * len(damaged.KINDS)))
GROWTH_MIB = 300  # allocators keep some of what the largest pages took


def state(service: ParserProcess) -> tuple[list[int], int, int]:
    """Worker pids; resident MiB and open descriptors of the service and its workers."""
    workers = children(service.process.pid)
    pids = [service.process.pid, *workers]
    pages = sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in pids)
    return workers, pages * os.sysconf("SC_PAGE_SIZE") >> 20, sum(len(os.listdir(f"/proc/{pid}/fd")) for pid in pids)


@pytest.mark.skipif(COUNT < 1, reason="DAMAGED_FILES is 0")
def test_damaged_files_are_refused_or_read_and_do_no_harm(service):
    def send(number: int) -> tuple[str, int, str]:
        kind, data = damaged.file(number)
        options = {"visualize": False, "useLayoutDetection": number % 3 > 0}
        response = service.parse(samples.encode(data), **options)
        return kind, response.status_code, response.text[:300]

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(send, range(len(damaged.KINDS))))  # caches fill
        workers, memory, descriptors = state(service)
        answers = list(threads.map(send, range(COUNT)))
    wrong = [answer for answer in answers if not (200 <= answer[1] < 300 or 400 <= answer[1] < 500)]
    assert not wrong, wrong[:5]
    statuses = Counter(status for _, status, _ in answers)
    assert statuses[200] > COUNT / 20 and sum(statuses.values()) - statuses[200] > COUNT / 10, statuses
    after = state(service)
    assert after[0] == workers, "no worker was replaced"
    assert after[1] - memory < GROWTH_MIB
    assert abs(after[2] - descriptors) < 20
    assert service.page(samples.image())["markdown"]["text"]
    assert not list((service.log.parent / "spool").glob("*"))


def test_files_are_the_same_for_the_same_number():
    assert [damaged.file(number) for number in range(40)] == [damaged.file(number) for number in range(40)]
    assert len({damaged.file(number)[1] for number in range(400)}) > 300
