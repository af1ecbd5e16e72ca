# SPDX-License-Identifier: Apache-2.0
"""What Python files import, read from their source: also inside functions, and for types only."""

from __future__ import annotations

import ast
import functools
from collections.abc import Collection
from pathlib import Path


def module_name(path: Path) -> str:
    """The dotted name of a file by its path below the folder that it is imported from."""
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@functools.cache
def imports(path: Path, name: str) -> frozenset[str]:
    """The dotted names that the file of the module ``name`` imports; `from a import b` counts as `a.b`."""
    here = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = here[: len(here) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            found |= {f"{base}.{alias.name}" for alias in node.names}
    return frozenset(found)


def module_of(dotted: str, modules: Collection[str]) -> str | None:
    """The module that a dotted name lies in: the longest beginning of it that is one of ``modules``."""
    parts = dotted.split(".")
    longest = (".".join(parts[:count]) for count in range(len(parts), 0, -1))
    return next((name for name in longest if name in modules), None)


@functools.cache
def defined(path: Path) -> frozenset[str]:
    """The names that a module has when it is loaded: assigned, defined or imported at its top, in any branch."""
    found: set[str] = set()

    def look(nodes: list[ast.stmt]) -> None:
        for node in nodes:
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                found.add(node.name)
            elif isinstance(node, (ast.Import, ast.ImportFrom)):
                found.update((alias.asname or alias.name).partition(".")[0] for alias in node.names)
            else:
                found.update(one.id for one in ast.walk(node) if isinstance(one, ast.Name))
                for field in ("body", "orelse", "finalbody"):
                    look(getattr(node, field, []))
                for handler in getattr(node, "handlers", []):
                    look(handler.body)

    look(ast.parse(path.read_text(encoding="utf-8")).body)
    return frozenset(found)
