# SPDX-License-Identifier: Apache-2.0
"""Every Python file of the tree, and which of its modules imports which."""

from __future__ import annotations

import functools
import subprocess
from pathlib import Path

from tests.support.imports import imports as read_imports
from tests.support.imports import module_name, module_of
from tests.support.paths import ROOT

# The innermost first.
FOLDERS = ("common", "operations", "model_code", "parser", "workshop/benchmarks", "workshop")


@functools.cache
def tracked() -> tuple[Path, ...]:
    """Every Python file of the tree, relative to its root."""
    words = ["git", "ls-files", "-co", "--exclude-standard", "*.py"]
    listed = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    return tuple(path for path in map(Path, listed) if (ROOT / path).is_file())


@functools.cache
def modules() -> dict[str, Path]:
    """Every module of the source folders by its dotted name."""
    found = {}
    for path in tracked():
        if folder := next((folder for folder in FOLDERS if path.is_relative_to(folder)), None):
            found[module_name(path.relative_to(folder))] = path
    return found


@functools.cache
def imports(name: str) -> frozenset[str]:
    """The dotted names that a module of this tree imports."""
    return read_imports(ROOT / modules()[name], name)


def imported_modules(name: str) -> set[str]:
    """The modules of this tree that a module imports."""
    return {found for dotted in imports(name) if (found := module_of(dotted, modules())) and found != name}
