# SPDX-License-Identifier: Apache-2.0
"""The tables of folders in CONTRIBUTING and the READMEs: each folder that they name is there, each that is there is
named, and the importers are those of the code. The index of decisions names each record."""

from __future__ import annotations

import functools
import re
import subprocess
from pathlib import Path

import pytest

# The lists stand where a new import must be added to them.
from tests.bundle.test_rooms import FROM_PARSER, PACKAGES, ROOMS, package
from tests.support.paths import ROOT
from tests.support.tree import imports, modules, tracked

CODE = re.compile(r"`([^`]+)`")
LISTED = subprocess.run(
    ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
).stdout
FILES = [path for path in map(Path, LISTED.splitlines()) if (ROOT / path).is_file()]


def rows(document: str) -> list[list[str]]:
    """The cells of each row of a document's tables whose first cell has code in it."""
    lines = (ROOT / document).read_text(encoding="utf-8").splitlines()
    found = [line.strip("|").split("|") for line in lines if line.startswith("|")]
    return [[cell.strip() for cell in cells] for cells in found if CODE.search(cells[0])]


def named(document: str) -> list[str]:
    """The code in the first cells of a document's tables, without a slash at the end."""
    return [name.rstrip("/") for cells in rows(document) for name in CODE.findall(cells[0])]


def packages(folder: str) -> set[str]:
    """The packages and modules right below a folder, by their names."""
    below = {path.relative_to(folder).parts[0] for path in tracked() if path.is_relative_to(folder)}
    return {name.removesuffix(".py") for name in below} - {"__init__"}


@functools.cache
def arrows() -> set[tuple[str | None, str | None]]:
    """(importing package, imported package) of the whole tree; None is none of ours."""
    tops = {other.partition(".")[0] for module in modules() for other in imports(module)}
    ours = {top: package(top) for top in tops}
    return {(package(module), ours[other.partition(".")[0]]) for module in modules() for other in imports(module)}


def test_contributing_names_every_folder_of_the_tree():
    names = named("CONTRIBUTING.md")
    assert [name for name in names if not (ROOT / name).is_dir()] == []
    folders = {path.parts[0] for path in FILES if len(path.parts) > 1 and not path.parts[0].startswith(".")}
    holders = {"model_code", "operations", "parser"}
    inside = {f"{folder}/{name}" for folder in holders for name in packages(folder)}
    assert (folders - holders) | inside <= set(names)
    assert {name for name in names if "/" in name} == inside


@pytest.mark.parametrize("cells", rows("CONTRIBUTING.md"), ids=lambda cells: CODE.findall(cells[0])[0])
def test_contributing_says_who_imports_a_package(cells: list[str]):
    name = Path(CODE.findall(cells[0])[0]).name
    if name not in PACKAGES:
        assert cells[2] == "", f"{name} is no package: expected no importers"
        return
    importers = {ours for ours, theirs in arrows() if theirs == name and ours != name}
    said = {word for word in CODE.findall(cells[2]) if word in PACKAGES}
    assert importers == (set(PACKAGES) - said - {name} if cells[2].startswith("everything") else said)
    only = {word for part in re.findall(r"\(of it only ([^)]*)\)", cells[2]) for word in CODE.findall(part)}
    assert only == ({other.split(".")[1] for other in FROM_PARSER} if name == "docparser" else set())


def test_the_operations_readme_names_its_packages_and_rooms():
    names = set(named("operations/README.md"))
    commands = {name.removesuffix(".py") for name in names if name.endswith(".py")}
    assert packages("operations") | set(ROOMS) == {name for name in names if not name.endswith(".py")}
    assert commands <= packages("operations/bundle")


def test_the_readme_of_the_benchmarks_names_its_programs_and_their_parts():
    there = {
        path.relative_to("workshop/benchmarks").parts[0]
        for path in tracked()
        if path.is_relative_to("workshop/benchmarks")
    }
    programs = {name for name in there if name.endswith(".py")}
    assert set(named("workshop/benchmarks/README.md")) == programs
    text = (ROOT / "workshop/benchmarks/README.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^- `(\w+)/`", text, re.MULTILINE)) == there - programs


def test_the_readme_of_the_workshop_names_its_packages():
    assert set(named("workshop/README.md")) == {
        path.parts[1] for path in tracked() if path.parts[0] == "workshop" and path.parts[2:]
    }


def test_the_index_of_decisions_names_each_record_once():
    folder = ROOT / "docs/decisions"
    listed = re.findall(r"^\| \[(\d{4})\]\((\d{4}-[\w-]+\.md)\)", (folder / "README.md").read_text(), re.MULTILINE)
    assert [number for number, name in listed if not name.startswith(number)] == []
    assert sorted(name for _, name in listed) == sorted(path.name for path in folder.glob("0*.md"))


def test_every_decision_that_is_named_exists():
    numbers = {path.name[:4] for path in (ROOT / "docs/decisions").glob("0*.md")}
    words = re.compile(r"(?:decisions?|Decisions?|决策)\s+\[?(0\d{3})|docs/decisions/(0\d{3})")
    missing = {
        f"{path}: {number}"
        for path in FILES
        for match in words.finditer((ROOT / path).read_text(encoding="utf-8", errors="ignore"))
        if (number := match[1] or match[2]) not in numbers
    }
    assert missing == set()


def test_files_that_documents_name_exist():
    """Code spans of documents that begin with a folder of the tree, like `tests/data`; an ending may be left out."""
    folders = {path.parts[0] for path in FILES if len(path.parts) > 1}
    of_readers = ("deploy/kubernetes/site", "models/PaddleOCR-VL")  # what a reader makes, or fetches
    named_paths = {
        (document, word.partition("::")[0].rstrip("/"))
        for document in FILES
        if document.suffix == ".md" and document.name != "CHANGELOG.md"  # which tells of what went
        for word in re.findall(r"`([\w.-]+/[\w./:-]*)`", (ROOT / document).read_text(encoding="utf-8"))
        if word.partition("/")[0] in folders and not word.startswith(of_readers)
    }
    missing = {
        f"{document}: {word}"
        for document, word in named_paths
        if not (ROOT / word).exists() and not list((ROOT / word).parent.glob(f"{Path(word).name}.*"))
    }
    assert len(named_paths) > 100 and missing == set()
