# SPDX-License-Identifier: Apache-2.0
"""The walls of ``docparser``: which package may import what. ``python -m tests.parser.test_walls`` counts the arrows.

The imports are read from the source, also those inside functions and under TYPE_CHECKING.
"""

from __future__ import annotations

import functools
import graphlib
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from tests.support.imports import imports, module_name, module_of

PACKAGE = Path(__file__).resolve().parents[2] / "parser/docparser"
README = PACKAGE.parent / "README.md"

# From the bottom to the top. Each package, and each module beside them, may import what its line names and nothing
# else; what a line names stands above it in this list, so no arrow points upwards.
ALLOWED: dict[str, set[str]] = {
    "docparser": set(),  # the package itself, which holds nothing
    "errors": set(),
    "logs": set(),
    "settings": set(),
    "traces": {"settings"},
    "job_tables": set(),
    "postgres": {"errors", "job_tables"},
    "s3": {"errors"},
    "weights": {"errors", "settings"},
    "contract": set(),
    "outline": set(),
    "html_tables": set(),
    "formula_signs": set(),
    "places": {"formula_signs"},
    "places.grids": {"places"},
    "clients": {"contract", "errors", "job_tables", "logs", "postgres", "settings"},
    "http_protocol": {"clients", "settings"},
    "opening": set(),
    # Of errors only what its job in a child process may say.
    "convert": {"errors", "formula_signs", "html_tables", "opening", "outline", "places"},
    "sandbox": {"errors", "settings"},
    "outbound": set(),
    "own_text": {"places"},
    "documents": {"contract", "errors", "opening", "outbound", "own_text", "settings"},
    "layout.operators": set(),
    "layout": {"layout.operators"},
    "vlm": {"errors", "settings", "traces"},
    "page": {
        *("contract", "errors", "formula_signs", "html_tables", "layout", "outline", "own_text", "places"),
        *("places.grids", "sandbox", "settings", "traces", "vlm", "weights"),
    },
    "small_print": {"own_text", "page", "places", "places.grids", "vlm"},
    "whole_page": {"contract", "layout", "page", "settings", "vlm", "weights"},
    "worker": {
        "contract",
        "documents",
        "errors",
        "layout",
        "logs",
        "outline",
        "own_text",
        "page",
        "sandbox",
        "settings",
        "small_print",
        "traces",
        "vlm",
        "weights",
        "whole_page",
    },
    "parsing": {"contract", "documents", "errors", "settings", "traces", "worker"},
    "models": {"contract", "errors", "parsing", "settings", "vlm", "weights"},
    "jobs.storage": {"contract", "errors", "job_tables", "postgres", "s3"},
    "jobs": {
        "clients",
        "contract",
        "documents",
        "errors",
        "jobs.storage",
        "models",
        "outbound",
        "parsing",
        "settings",
        "traces",
    },
    "web": set(),
    "http": {
        *("clients", "contract", "convert", "documents", "errors", "logs", "parsing", "sandbox", "settings", "traces")
    },
    "http.jobs": {
        *("clients", "contract", "convert", "documents", "errors", "http", "jobs", "jobs.storage", "models", "sandbox")
    },
    "http.dialects": {
        *("clients", "contract", "convert", "documents", "errors", "http", "http.jobs", "jobs", "jobs.storage", "logs"),
        *("models", "outline", "parsing", "settings"),
    },
    "app": {
        "clients",
        "documents",
        "http",
        "http.dialects",
        "http.jobs",
        "jobs",
        "models",
        "parsing",
        "sandbox",
        "settings",
        "traces",
    },
    "server": {"app", "errors", "http_protocol", "logs", "parsing", "settings", "weights"},
    "__main__": {"server"},
    "api_keys": {"clients", "contract", "errors", "settings"},
    "link_keys": {"errors", "jobs", "jobs.storage", "settings"},
}
# Of these packages, others may import only the named modules: plain data, and the handle of the process.
DOORS = {
    "worker": {"worker.messages", "worker.process"},
    "small_print": {"small_print.reading"},
}

# What comes from outside: its top-level name -> who may import it.
OUTSIDE: dict[str, set[str]] = {
    "openvino": {"layout", "layout.operators"},
    "paddle": {"layout"},  # the one that OpenVINO is compared with
    "paddlex": {"page"},  # what is not its public API: page.paddlex_private alone
    "fastapi": {"http", "http.dialects", "http.jobs", "app"},
    "starlette": {"http", "http.dialects", "http.jobs"},
    "uvicorn": {"http_protocol", "server"},
    "aiohttp": {"documents", "models", "outbound", "vlm"},  # the one client library for HTTP
    "psycopg": {"jobs.storage", "postgres"},
    "boto3": {"s3"},
    "botocore": {"s3"},
    "httpx": set(),
    "requests": {"traces"},  # OpenTelemetry's exporter asks with it
    "opentelemetry": {"traces"},
}
# The batch tool uses these without the service, in an environment that lacks everything else.
WITH_CONVERT = ("convert", "formula_signs", "html_tables", "opening", "places")
CONVERT_NEEDS = {"PIL", "docx", "latex2mathml", "markdown_it", "nh3", "openpyxl", "pikepdf", "pypdfium2", "upright"}

Tree = dict[str, set[str]]  # module, without "docparser." -> what it imports: modules of the package, or dotted names


NOTHING_ELSE: Mapping[Path, Path] = MappingProxyType({})
imports_of = functools.cache(imports)


def read_tree(package: Path, instead: Mapping[Path, Path] = NOTHING_ELSE) -> Tree:
    """Modules of ``package`` keep their names below it; an import from outside keeps its full name with a "/" before.
    ``instead``: files that are read in the place of modules, which need not be there."""
    root = package.name
    files = sorted({*package.rglob("*.py"), *instead})
    paths = {module_name(path.relative_to(package.parent)): path for path in files}
    tree: Tree = {}
    for name, path in paths.items():
        found = {module_of(dotted, paths) or f"/{dotted}" for dotted in imports_of(instead.get(path, path), name)}
        found -= {name}
        tree[name.removeprefix(f"{root}.")] = {target.removeprefix(f"{root}.") for target in found}
    return tree


def room(module: str, tree: Tree) -> str:
    """The line of ALLOWED that ``module`` belongs to: its innermost package, or itself at the top."""
    packages = {name.rpartition(".")[0] for name in tree} | {"web"}
    return module if module in packages or "." not in module else module.rpartition(".")[0]


def arrows(tree: Tree) -> set[tuple[str, str]]:
    """Imports from one module of the package to another."""
    return {(module, target) for module, targets in tree.items() for target in targets if target[0] != "/"}


def wrong_neighbours(tree: Tree) -> list[str]:
    used: set[tuple[str, str]] = set()
    wrong = []
    for module, target in sorted(arrows(tree)):
        here, there = room(module, tree), room(target, tree)
        if here == there:
            continue
        used.add((here, there))
        if there not in ALLOWED.get(here, ()):
            wrong.append(f"{module} imports {target}: {here} may not import {there}")
        elif there in DOORS and target not in DOORS[there]:
            wrong.append(
                f"{module} imports {target}: only {', '.join(sorted(DOORS[there]))} may be imported from outside"
            )
    allowed = {(here, there) for here, targets in ALLOWED.items() for there in targets}
    return wrong + [f"ALLOWED lets {here} import {there}, which it does not" for here, there in sorted(allowed - used)]


def upward_arrows(tree: Tree) -> list[tuple[str, str]]:
    """Imports of a module from a package that stands further up in ALLOWED."""
    height = {name: number for number, name in enumerate(ALLOWED)}
    return sorted(arrow for arrow in arrows(tree) if height[room(arrow[0], tree)] < height[room(arrow[1], tree)])


def wrong_libraries(tree: Tree) -> list[str]:
    wrong = []
    for module, targets in sorted(tree.items()):
        here = room(module, tree)
        for library in sorted({target[1:].partition(".")[0] for target in targets if target[0] == "/"}):
            if here not in OUTSIDE.get(library, {here}):
                wrong.append(f"{module} imports {library}: {here} may not")
            if here in WITH_CONVERT and library not in CONVERT_NEEDS | sys.stdlib_module_names:
                wrong.append(f"{module} imports {library}: {here} needs {', '.join(sorted(CONVERT_NEEDS))} only")
    return wrong


def circle(tree: Tree) -> list[str]:
    """The modules of one circle of imports, or none."""
    try:
        graphlib.TopologicalSorter(
            {name: {t for t in targets if t in tree} for name, targets in tree.items()}
        ).prepare()
    except graphlib.CycleError as exc:
        return exc.args[1]
    return []


def unlisted(tree: Tree) -> list[str]:
    return sorted({room(module, tree) for module in tree} ^ ALLOWED.keys())


def rows_of_the_readme(text: str) -> list[list[str]]:
    """The packages and modules that each row of the README's table names, as ALLOWED does."""
    names = [re.findall(r"`([a-z0-9_/]+)`", line.split("|")[1]) for line in text.splitlines() if line.startswith("| `")]
    return [[name.rstrip("/").replace("/", ".") for name in row] for row in names]


def unknown_names(text: str) -> list[str]:
    """Functions and modules that the table "Who does what with a page" names and that are not in the code."""
    table = text.partition("Who does what with a page")[2]
    rows = [line.split("|")[2] for line in table.splitlines() if line.startswith("| ")]
    wrong = []
    for row in rows[1:]:
        names = re.findall(r"`(\w+(?:/\w+)*)/?`", row)
        paths = [path for name in names for path in (PACKAGE / f"{name}.py", PACKAGE / name) if path.exists()]
        files = [file for path in paths for file in ([path] if path.is_file() else path.rglob("*.py"))]
        code = "".join(file.read_text(encoding="utf-8") for file in (*files, PACKAGE / "page/paddlex_private.py"))
        modules = {str(path.relative_to(PACKAGE)).removesuffix(".py") for path in paths}
        wrong += [name for name in names if name not in modules and not re.search(rf"\b{name}\b", code)]
    return wrong if len(rows) > 15 else ["the table is not found"]


def wrong_rows(rows: list[list[str]]) -> list[str]:
    """What the table lacks or invents, and permissions that lead to a row further up."""
    row_of = {name: number for number, row in enumerate(rows) for name in row}
    odd = [f"{name}: named without being there, or there without a name" for name in row_of.keys() ^ ALLOWED.keys()]
    return sorted(name for name in odd if not name.startswith("docparser:")) + [
        f"{here} imports {there}, which stands above it"
        for here, targets in ALLOWED.items()
        for there in sorted(targets & row_of.keys())
        if here in row_of and row_of[there] < row_of[here]
    ]


def planted(folder: Path, module: str, line: str) -> Tree:
    """The tree with one more line in one module."""
    path, changed = PACKAGE / module, folder / "changed.py"
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    changed.write_text(f"{text}\n{line}\n", encoding="utf-8")
    return read_tree(PACKAGE, {path: changed})


def test_packages_import_only_what_their_line_allows():
    assert wrong_neighbours(read_tree(PACKAGE)) == []


def test_no_arrow_points_upwards():
    order = list(ALLOWED)
    assert all(order.index(there) < order.index(here) for here, targets in ALLOWED.items() for there in targets)
    assert upward_arrows(read_tree(PACKAGE)) == []


def test_libraries_stay_where_they_belong():
    assert wrong_libraries(read_tree(PACKAGE)) == []


def test_one_module_reaches_behind_paddlexs_public_names():
    found = {
        module
        for module, targets in read_tree(PACKAGE).items()
        if any(target.startswith("/paddlex.") for target in targets)
    }
    assert found == {"page.paddlex_private"}


def test_no_circle():
    assert circle(read_tree(PACKAGE)) == []


def test_every_package_and_every_module_at_the_top_is_listed():
    assert unlisted(read_tree(PACKAGE)) == []


def test_the_readme_names_every_package_in_the_order_of_the_walls():
    assert wrong_rows(rows_of_the_readme(README.read_text(encoding="utf-8"))) == []


def test_what_the_readme_names_of_a_page_is_there():
    text = README.read_text(encoding="utf-8")
    assert unknown_names(text) == []
    assert unknown_names(text.replace("`_position`", "`_place`").replace("`page/notes`", "`page/note`")) == [
        "_place",
        "page/note",
    ]


def test_a_package_that_the_readme_lacks_is_found():
    rows = rows_of_the_readme(README.read_text(encoding="utf-8").replace("`postgres/`, `s3`", "`postgres/`, `s4`"))
    assert [name.partition(":")[0] for name in wrong_rows(rows)] == ["s3", "s4"]
    (words, *_) = wrong_rows([["errors"], *[[name for name in ALLOWED if name not in ("docparser", "errors")]]])
    assert words.endswith("imports errors, which stands above it")


def test_a_forbidden_neighbour_is_found(tmp_path):
    tree = planted(tmp_path, "jobs/links.py", "def late():\n    from docparser.http.errors import new_log_id")
    assert wrong_neighbours(tree) == ["jobs.links imports http.errors: jobs may not import http"]
    assert upward_arrows(tree) == [("jobs.links", "http.errors")]


def test_an_import_for_types_only_counts(tmp_path):
    tree = planted(tmp_path, "vlm/reply.py", "if TYPE_CHECKING:\n    from docparser.parsing import pool")
    assert wrong_neighbours(tree) == ["vlm.reply imports parsing.pool: vlm may not import parsing"]


def test_a_relative_import_counts(tmp_path):
    tree = planted(tmp_path, "convert/workbook.py", "from ..settings import Settings")
    assert wrong_neighbours(tree) == ["convert.workbook imports settings: convert may not import settings"]


def test_a_door_that_is_not_one_is_found(tmp_path):
    (words,) = wrong_neighbours(planted(tmp_path, "parsing/pool.py", "import docparser.worker.baton"))
    assert words.startswith("parsing.pool imports worker.baton: only worker.messages, worker.process")


def test_a_permission_without_use_is_found(tmp_path, monkeypatch):
    monkeypatch.setitem(ALLOWED, "vlm", ALLOWED["vlm"] | {"contract"})
    assert wrong_neighbours(read_tree(PACKAGE)) == ["ALLOWED lets vlm import contract, which it does not"]


def test_paddle_outside_the_worker_is_found(tmp_path):
    tree = planted(tmp_path, "documents/decoder.py", "def late():\n    import paddlex.inference")
    assert wrong_libraries(tree) == ["documents.decoder imports paddlex: documents may not"]


def test_fastapi_below_http_is_found(tmp_path):
    tree = planted(tmp_path, "jobs/service.py", "from fastapi import Request\nfrom starlette.types import Scope")
    assert wrong_libraries(tree) == [f"jobs.service imports {name}: jobs may not" for name in ("fastapi", "starlette")]


def test_a_library_that_the_batch_tool_lacks_is_found(tmp_path):
    tree = planted(tmp_path, "convert/workbook.py", "import pydantic")
    assert wrong_libraries(tree) == [
        f"convert.workbook imports pydantic: convert needs {', '.join(sorted(CONVERT_NEEDS))} only"
    ]


def test_a_circle_is_found(tmp_path):
    tree = planted(tmp_path, "parsing/result.py", "from docparser.parsing.service import ParseService")
    assert {"parsing.result", "parsing.service"} <= set(circle(tree))
    assert wrong_neighbours(tree) == [], "both lie in one package: only the search for circles finds it"


def test_a_new_module_at_the_top_is_found(tmp_path):
    tree = planted(tmp_path, "helpers.py", "import json")
    assert unlisted(tree) == ["helpers"]


def count(package: Path) -> dict[str, int]:
    """Modules; entries at the top; imports between modules, and between those entries; arrows that point upwards."""
    tree = read_tree(package)
    modules = tree.keys() - {room(module, tree) for module in tree if (package / module.replace(".", "/")).is_dir()}
    between = {(module.partition(".")[0], target.partition(".")[0]) for module, target in arrows(tree)}
    known = {module for module in tree if room(module, tree) in ALLOWED} == tree.keys()
    return {
        "modules": len(modules - {package.name}),
        "entries at the top": len({module.partition(".")[0] for module in tree} - {package.name}),
        "arrows between modules": len(arrows(tree)),
        "arrows between the entries at the top": len({pair for pair in between if pair[0] != pair[1]}),
        **({"upward arrows": len(upward_arrows(tree))} if known else {}),
    }


if __name__ == "__main__":
    for what, number in count(Path(sys.argv[1]) if len(sys.argv) > 1 else PACKAGE).items():
        print(f"{number:4}  {what}")
