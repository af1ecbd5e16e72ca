# SPDX-License-Identifier: Apache-2.0
"""Which tests are quick ones: the marker `unit` goes to each test that has none of the markers in `HEAVY`.

A fixture that starts something gives its marker to the tests that use it, and some folders give one to all of their
tests. Other tests that start something by themselves carry the marker in their file.
"""

from __future__ import annotations

import gc
import os
import socket
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

pytest.register_assert_rewrite("tests.support", "tests.images", "tests.npu")

from tests.runner.tally import EARLIER, Case, case_of, passed  # noqa: E402  after the line above
from tests.support.system_packages import refuse_unnamed_programs  # noqa: E402  after the line above

refuse_unnamed_programs()

# torch, Paddle and the tests themselves are objects that stay. A quarter of the time of some groups went to looking for
# garbage among them. The tests run with Python's own threshold.
THRESHOLD = gc.get_threshold()
gc.set_threshold(50_000)

# Marker -> fixtures that start or load what the marker says.
HEAVY = {
    "server": {
        # tests/parser and tests/jobs
        *("layout_model", "_vlm", "vlm", "service", "start_service", "two_workers", "recorded_vlm", "site", "start"),
        # tests/tools, tests/api, tests/web, tests/e2e, tests/plugin, tests/bundle
        *("parser", "vlms", "parser_url", "starter", "local", "server", "watched"),
        # tests/fuzz: a campaign starts no service, but takes a minute
        "campaigns",
    },
    "browser": {"browser"},
    "engine": {"engine"},
    "model": {"reference_python", "full_shapes"},
    "training": {"in_torch", "in_paddle"},
}
# Folder -> marker of all its tests.
FOLDERS = {"e2e": "server", "images": "engine", "layout": "model", "workshop/demo_training": "training"}
TESTS = Path(__file__).resolve().parent


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.set_threshold(*THRESHOLD)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        for folder, marker in FOLDERS.items():
            if item.path.is_relative_to(TESTS / folder):
                item.add_marker(marker)
        for marker, fixtures in HEAVY.items():
            if fixtures & set(getattr(item, "fixturenames", ())):
                item.add_marker(marker)
        if not any(item.get_closest_marker(marker) for marker in HEAVY):
            item.add_marker("unit")
    if earlier := os.environ.pop(EARLIER, None):
        leave_out(passed(Path(earlier)), config, items)


def leave_out(done: set[Case], config: pytest.Config, items: list[pytest.Item]) -> None:
    """Do not run again what the rehearsal of the same call has passed in its bare root (tests/runner/lanes.py)."""
    config.hook.pytest_deselected(items=[item for item in items if case_of(item.nodeid) in done])
    items[:] = [item for item in items if case_of(item.nodeid) not in done]


@pytest.fixture(autouse=True)
def unit_tests_start_nothing(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A test with the marker `unit` fails when it listens on a socket or starts a service."""
    if request.node.get_closest_marker("unit"):
        name = request.node.nodeid
        start = subprocess.Popen.__init__

        def listen(self, *arguments) -> None:
            raise AssertionError(f"{name} listens on a socket; mark it `server`")

        def guarded(self, command, *arguments, **options) -> None:
            assert not starts_a_service(command), f"{name} starts a service; mark it `server`: {command}"
            start(self, command, *arguments, **options)

        monkeypatch.setattr(socket.socket, "listen", listen)
        monkeypatch.setattr(subprocess.Popen, "__init__", guarded)
        # For processes further down: the simulated services refuse to start.
        monkeypatch.setenv("UNIT_TEST", name)
    yield


def starts_a_service(command: str | Iterable[object]) -> bool:
    """Whether a command line runs the parser, the VLM server or a simulated one, and not only prints something."""
    words = command.split() if isinstance(command, str) else [str(word) for word in command]
    if any(word.startswith("--print") for word in words):
        return False
    modules = {
        "docparser",
        "vlm_server",
        "vlm_server.vllm",
        "vllm.entrypoints.openai.api_server",
        "tests.support.simulated_vlm",
    }
    modules |= {"tests.support.simulated_page_work", "tests.support.simulated_services"}
    run = {after for word, after in zip(words, words[1:]) if word == "-m"}
    names = [Path(word).name for word in words]
    return bool(modules & run) or ("vllm" in names and "serve" in names)
