# SPDX-License-Identifier: Apache-2.0
"""What runs without Python 3.11 (openEuler 22.03 has 3.9, Debian 13 has 3.13): what a node needs, and a first try in
containers. Where an environment is made, 3.11 is asked for."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bundle.offline import contents
from tests.support.paths import ROOT

MODULES = (
    "preflight",
    "weights.fetch",
    "offline",
    "compose.build",
    "compose.dies",
    "compose.upgrade",
    "selftest",
    "status",
    "support",
    "acceptance",
    "demo",
    "environments.setup",
    "wheels",
    "local_mode.keys",
)
# Of the standard library since 3.10 or 3.11, as far as somebody might reach for it here: names of modules, built-in
# names, methods, and named arguments.
LATER = {
    *("tomllib", "asyncio.Runner", "asyncio.TaskGroup", "asyncio.timeout", "contextlib.aclosing", "contextlib.chdir"),
    *("datetime.UTC", "enum.StrEnum", "hashlib.file_digest", "inspect.get_annotations", "itertools.pairwise"),
    *("math.cbrt", "operator.call", "os.EFD_CLOEXEC", "os.eventfd", "os.splice", "sys.exception", "sys.orig_argv"),
    *("sys.stdlib_module_names", "types.NoneType", "types.UnionType", "typing.Concatenate", "typing.LiteralString"),
    *("typing.Never", "typing.NotRequired", "typing.ParamSpec", "typing.Required", "typing.Self", "typing.TypeAlias"),
    *("typing.TypeGuard", "typing.Unpack", "typing.assert_never", "typing.assert_type", "typing.reveal_type"),
}
BUILT_IN = {"BaseExceptionGroup", "EncodingWarning", "ExceptionGroup", "aiter", "anext"}
METHODS = {"add_note", "bit_count", "hardlink_to"}
ARGUMENTS = {
    *(("zip", "strict"), ("dataclass", "slots"), ("dataclass", "kw_only"), ("field", "kw_only"), ("glob", "root_dir")),
    *((name, "process_group") for name in ("Popen", "check_call", "check_output", "run")),
    *((name, "key") for name in ("bisect", "bisect_left", "bisect_right", "insort", "insort_left", "insort_right")),
}
OLD = next(
    (
        found
        for name in ("python3.9", "python3.10")
        if (found := shutil.which(name))
        and not subprocess.run([found, "-c", ""], capture_output=True, check=False).returncode
    ),
    None,
)


def on_the_path() -> dict[str, str]:
    """The environment of a Python into which nothing of ours is installed, as scripts/lib/python.sh makes it."""
    return {**os.environ, "PYTHONPATH": f"{ROOT}/operations:{ROOT}/common"}


def later(tree: ast.AST) -> set[str]:
    """What a module uses that Python 3.9 lacks, as far as the tables above and the union of types in a call say so."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names} & LATER
        elif isinstance(node, ast.ImportFrom):
            found |= {str(node.module), *(f"{node.module}.{name.name}" for name in node.names)} & LATER
        elif isinstance(node, ast.Attribute):
            found |= {ast.unparse(node)} & LATER | {node.attr} & METHODS
        elif isinstance(node, ast.Name):
            found |= {node.id} & BUILT_IN
        elif isinstance(node, ast.Call):
            name = ast.unparse(node.func).rpartition(".")[2]
            found |= {f"{name}({word.arg}=)" for word in node.keywords if (name, word.arg) in ARGUMENTS}
            if name in ("isinstance", "issubclass") and any(isinstance(word, ast.BinOp) for word in node.args[1:]):
                found.add(f"{name}(…, … | …)")
    return found


@pytest.mark.parametrize(
    "code",
    [
        "import tomllib",
        "from tomllib import load",
        "from datetime import UTC",
        "hashlib.file_digest(file, 'sha256')",
        "error.add_note('more')",
        "raise ExceptionGroup('several', errors)",
        "zip(one, other, strict=True)",
        "dataclasses.dataclass(slots=True)",
        "subprocess.run(words, process_group=0)",
        "isinstance(value, int | str)",
    ],
)
def test_what_is_later_is_found(code: str):
    assert later(ast.parse(code))


def test_their_scripts_ask_for_no_more():
    for script in ROOT.glob("scripts/*.sh"):
        text = script.read_text()
        name = text.split()[-2]
        assert ("run_on_node" in text) == (name in MODULES), script.name


@pytest.mark.parametrize(
    ("condition", "remedy"),
    [
        ("NODE_PYTHON", "3.9 or newer was not found (found: Python 3.8.1): apt-get install python3 python3-venv"),
        ("ENVIRONMENTS_PYTHON", "3.11 was not found (found: Python 3.8.1): scripts/setup_env.sh tools says"),
    ],
)
def test_a_system_without_their_python_is_told_so(condition: str, remedy: str):
    """Shell functions stand in the place of this machine's programs."""
    none = "python3.11() { return 1; }; /usr/bin/python3.11() { return 1; }"
    old = 'python3() { [[ "$1" == --version ]] && echo "Python 3.8.1"; }'
    words = f'source {ROOT}/scripts/lib/python.sh; {none}; {old}; PYTHON=; find_python "${condition}"'
    done = subprocess.run(["bash", "-c", words], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and f"error: Python {remedy}" in done.stderr, done.stderr


def test_syntax_and_library_are_those_of_python_3_9():
    named = [f"{name}.__main__" if (ROOT / "operations/bundle" / name).is_dir() else name for name in MODULES]
    imports = ", ".join(f"bundle.{name}" for name in named)
    code = f"import sys, {imports}; print('\\n'.join(str(getattr(m, '__file__', '')) for m in sys.modules.values()))"
    listed = subprocess.run(
        [sys.executable, "-c", code],
        env=on_the_path(),
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    ours = [Path(name) for name in listed.splitlines() if name.startswith(str(ROOT)) and ".venvs" not in name]
    assert len(ours) > 30
    for path in ours:
        text = path.read_text(encoding="utf-8")
        assert not (found := later(ast.parse(text, str(path), feature_version=(3, 9)))), (path, found)
        relative = path.relative_to(ROOT)
        assert any(relative.is_relative_to(name) for name in contents.TREE), f"{path} is not in the offline archive"


def test_the_scripts_run_in_a_folder_that_was_carried(tmp_path: Path):
    """The offline archive ends with preflight on the node; the checkout's other folders are not there."""
    for path in contents.tree_files():
        if not path.is_relative_to(ROOT / "docs"):
            target = tmp_path / path.relative_to(ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)
    env = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "ENVS_DIR", "RUN_DIR")}
    script = tmp_path / "scripts/preflight.sh"
    result = subprocess.run(
        [script, "--hardware", "cpu", "--json"], env=env, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert "weights" in {finding["check"] for finding in json.loads(result.stdout)}, result.stderr


def test_a_shell_with_cdpath_finds_the_scripts_folder():
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | {"CDPATH": "."}
    done = subprocess.run(["scripts/preflight.sh", "--help"], cwd=ROOT, env=env, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(OLD is None, reason="there is no Python 3.9 or 3.10 here")
@pytest.mark.parametrize("module", MODULES)
def test_they_run_on_an_older_python(module: str):
    assert OLD
    env = on_the_path()
    if module == "preflight":
        result = subprocess.run(
            [OLD, "-m", "bundle.preflight", "--hardware", "cpu", "--json"],
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )
        assert json.loads(result.stdout), result.stderr
    else:
        result = subprocess.run(
            [OLD, "-m", f"bundle.{module}", "--help"], env=env, capture_output=True, text=True, check=False
        )
        assert "usage: scripts/" in result.stdout + result.stderr, result.stderr
