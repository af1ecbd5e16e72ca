# SPDX-License-Identifier: Apache-2.0
"""Every Python file passes the type checker with the libraries that it runs with (decision 0411; level: mypy.ini)."""

from __future__ import annotations

import configparser
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.imports import imports, module_name

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENTS = Path(os.environ.get("ENVS_DIR") or ROOT / ".venvs")
# Folders that modules are imported from.
BASES = ("common", "operations", "model_code", "parser", "workshop", "workshop/benchmarks", "scripts")

LARGE = ("vlm", "npu-0.23", "reference")

PARSER_BENCHMARKS = (
    "bench_bucket",
    "bench_hostile",
    "bench_layout",
    "bench_own_text",
    "bench_places",
    "bench_page",
    "bench_parser",
    "bench_text_modes",
    "profile_page",
    "soak_parser",
)

VLM_BENCHMARKS = ("bench_confidence", "bench_llama_cpp", "bench_model", "bench_serving")

# Files that import NumPy, in a folder whose other files need the standard library only.
WITH_NUMPY = (
    "common/layout_wire.py",
    "common/paddle_program/operators.py",
    "common/paddle_program/parameters.py",
    "common/paddle_program/program.py",
    "common/print_size.py",
)
# Files that import torch, in folders whose other files do not.
WITH_TORCH = (
    "tests/support/threads.py",
    "tests/support/simulated_graphs.py",
    "tests/support/simulated_npu_kernels.py",
    "tests/support/simulated_language_kernels.py",
    "tests/support/simulated_attention_kernels.py",
    "tests/support/simulated_inference_card.py",
)
# Files that import pyarrow, which only the corpus has.
CORPUS_SUPPORT = ("tests/support/corpus.py",)


@dataclass(frozen=True)
class Room:
    """The files that import the libraries of an environment; the checker reads them together.

    `without` are files and folders inside of `paths` that need the libraries of another environment, so that they stand
    in its room.
    """

    environment: str
    paths: tuple[str, ...]
    without: tuple[str, ...] = ()


ROOMS = (
    Room(
        "tools",
        (
            *("common", "operations/bundle", "operations/container", "scripts"),
            *("workshop/chaos", "workshop/chaos_bundle.py", "workshop/pdf_file.py", "workshop/planted_faults"),
            *("tests/conftest.py", "tests/__init__.py", "tests/runner", "tests/types"),
            *("tests/bundle", "tests/e2e", "tests/images", "tests/newest", "tests/rehearsal", "tests/workshop/chaos"),
        ),
        without=(*WITH_NUMPY, "tests/images/nodes"),
    ),
    Room("client", ("operations/batch", "tests/tools")),
    Room(
        "corpus",
        (
            *("operations/corpus", "workshop/benchmarks/bench_corpus.py", *CORPUS_SUPPORT),
            *("tests/corpus", "tests/images/nodes"),
        ),
    ),
    Room(
        "parser",
        (
            *("parser/docparser", *WITH_NUMPY, "workshop/benchmarks/parser_bench"),
            *(f"workshop/benchmarks/{n}.py" for n in PARSER_BENCHMARKS),
            *("workshop/shapes_of_fonts.py", "tests/api/parser_for_requests.py"),
            *("tests/fuzz", "tests/jobs", "tests/parser", "tests/support"),
        ),
        without=(*WITH_TORCH, *CORPUS_SUPPORT),
    ),
    Room(
        "vlm",
        (
            *("model_code/vlm_models", "model_code/vlm_server", "model_code/plugin_logits", "model_code/layout_server"),
            "workshop/benchmarks/model_bench",
            *(f"workshop/benchmarks/{n}.py" for n in VLM_BENCHMARKS),
            "tests/plugin",
        ),
    ),
    # Paddle has no types, so the environment that holds torch serves for all of the training and of layout.
    Room(
        "reference",
        (
            *("model_code/reference", "workshop/random_checkpoints", "workshop/demo_training", *WITH_TORCH),
            *("tests/reference", "tests/layout", "tests/workshop/demo_training"),
        ),
    ),
    Room("api", ("tests/api", "docs/examples"), without=("tests/api/parser_for_requests.py",)),
    Room("browser", ("tests/web",)),
    # The plugin again, with the second pinned stack.
    Room("npu-0.23", ("model_code/vlm_models", "tests/npu")),
)
FILES = subprocess.run(
    ["git", "ls-files", "-co", "--exclude-standard", "*.py"], cwd=ROOT, capture_output=True, text=True, check=True
).stdout.split()
MARK = "# type" + ": ignore"  # in two parts: the search below reads this file, too
IGNORE = re.compile(MARK + r"(?P<code>\[[a-z-]+(, [a-z-]+)*\])?(?P<reason>\s+#\s*\w.*)?")


def python_of(environment: str) -> Path:
    return ENVIRONMENTS / environment / "bin/python"


def check(room: Room) -> str:
    """What mypy finds in a room; empty where that is nothing."""
    command = [sys.executable, "-m", "mypy", f"--python-executable={python_of(room.environment)}", "--no-error-summary"]
    excluded = [f"--exclude=^{re.escape(path)}(/|$)" for path in room.without]
    checked = subprocess.run(
        [*command, f"--cache-dir=.mypy_cache/{room.environment}", *excluded, *room.paths],
        cwd=ROOT,
        env={**os.environ, "MYPYPATH": os.pathsep.join(BASES)},
        capture_output=True,
        text=True,
        check=False,
    )
    return "" if checked.returncode == 0 else checked.stdout + checked.stderr or f"mypy ended with {checked.returncode}"


@pytest.fixture(scope="session")
def found_in_rooms() -> Iterator[dict[str, Future[str]]]:
    """Rooms are being checked, as many at once as there are cores."""
    # The libraries of the model's environments take longest to read.
    longest_first = sorted(ROOMS, key=lambda room: room.environment not in LARGE)
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        there = [room for room in longest_first if python_of(room.environment).exists()]
        yield {room.environment: pool.submit(check, room) for room in there}


@pytest.mark.model
@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.environment)
def test_room_has_no_type_errors(room: Room, found_in_rooms: dict[str, Future[str]]) -> None:
    if room.environment not in found_in_rooms:
        missing = f"{room.environment} is missing; make it with: scripts/setup_env.sh {room.environment}"
        pytest.fail(missing) if os.environ.get("CI") else pytest.skip(missing)
    assert found_in_rooms[room.environment].result() == ""


def test_every_file_stands_in_a_room() -> None:
    places = [path for room in ROOMS for path in room.paths]
    strays = [file for file in FILES if not any(file == place or file.startswith(f"{place}/") for place in places)]
    assert not strays, f"no room of ROOMS holds {', '.join(strays)}"


def test_no_file_names_what_is_not_read() -> None:
    """What mypy.ini skips of the libraries is Any."""
    config = configparser.ConfigParser()
    config.read(ROOT / "mypy.ini")
    follow = {
        pattern: section["follow_imports"]
        for name, section in config.items()
        if name.startswith("mypy-") and "follow_imports" in section
        for pattern in name.removeprefix("mypy-").split(",")
    }

    def is_read(module: str) -> bool:
        parts = module.split(".")
        patterns = [module, *(f"{'.'.join(parts[:count])}.*" for count in range(len(parts), 0, -1))]
        return next((follow[pattern] for pattern in patterns if pattern in follow), "") != "skip"

    assert is_read("transformers.models.auto.x") and not is_read("transformers.models.x") and is_read("torch.fx")
    named = {name: file for file in FILES for name in imports(ROOT / file, module_name(Path(file)))}
    skipped = {module: file for module, file in named.items() if not is_read(module)}
    assert not skipped, f"take these names out of what mypy.ini skips: {skipped}"


def test_only_tests_may_leave_types_out() -> None:
    config = configparser.ConfigParser()
    config.read(ROOT / "mypy.ini")
    said = {name: section.getboolean("disallow_untyped_defs", fallback=None) for name, section in config.items()}
    assert {name: value for name, value in said.items() if value is not None} == {"mypy": True, "mypy-tests.*": False}


def test_every_ignore_names_its_error_and_says_why() -> None:
    """The reason stands behind it, or as a comment in the line above."""
    bare = []
    for file in FILES:
        lines = (ROOT / file).read_text(encoding="utf-8").splitlines()
        for number, line in enumerate(lines):
            found = IGNORE.search(line)
            above = lines[number - 1].strip() if number else ""
            blanket = re.search(r"#\s*mypy" + ":", line)
            if blanket or (found and not (found["code"] and (found["reason"] or above.startswith("# ")))):
                bare.append(f"{file}:{number + 1}: {line.strip()}")
    assert not bare, "\n".join(bare)


@pytest.mark.parametrize(
    ("rest", "code", "reason"),
    [
        ("[abstract]  # set at run time", "[abstract]", "set at run time"),
        ("[abstract]", "[abstract]", None),
        ("", None, None),
    ],
)
def test_an_ignore_is_read_in_its_parts(rest: str, code: str | None, reason: str | None) -> None:
    found = IGNORE.search(f"x = f()  {MARK}{rest}")
    assert found and found["code"] == code
    assert (found["reason"] or "").strip(" #") == (reason or "")
