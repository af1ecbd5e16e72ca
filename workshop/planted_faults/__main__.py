# SPDX-License-Identifier: Apache-2.0
"""Plant faults one at a time and say which ones the tests find: python -m planted_faults [NAME...]

Exit status 1 where fewer than ENOUGH of all faults are found (with NAME..., where one is not), 2 where it cannot be
judged: a name or a text is not there, or a test fails without the fault.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bundle.paths import ROOT
from planted_faults.faults import FAULTS, Fault
from tool_errors import ToolError, UsageError

ENOUGH = 17
# Folder -> a package in it, by which it is seen where an environment imports from.
PACKAGES = {"common": "npu_smi", "operations": "bundle", "model_code": "vlm_models", "parser": "docparser"}
FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)
LONGEST_S = 900


@contextmanager
def scratch_tree() -> Iterator[Path]:
    """A checkout of HEAD, which is removed at the end with its environments."""
    with tempfile.TemporaryDirectory(prefix="planted-") as name:
        tree = Path(name) / "tree"
        subprocess.run(["git", "worktree", "add", "--quiet", "--detach", str(tree), "HEAD"], cwd=ROOT, check=True)
        try:
            yield tree
        finally:
            subprocess.run(["git", "worktree", "remove", "--force", str(tree)], cwd=ROOT, check=True)


class Judge:
    def __init__(self, tree: Path) -> None:
        self.tree = tree
        # A compiled file counts as current while size and second of its source are the same.
        self._env = {key: value for key, value in os.environ.items() if key not in ("ENVS_DIR", "PYTHONPATH")}
        self._env["PYTHONDONTWRITEBYTECODE"] = "1"

    def make_environments(self, names: Iterable[str]) -> None:
        """In the tree, of the same libraries. Not ROOT's: there the editable installs lead to ROOT's packages, in every
        service that a test starts, and scripts under test would install the tree's packages over them."""
        command = ["scripts/setup_env.sh", *sorted(set(names))]
        done = subprocess.run(command, cwd=self.tree, env=self._env, capture_output=True, text=True, check=False)
        if done.returncode:
            raise ToolError(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")

    def check_imports(self, fault: Fault) -> None:
        """Raises ToolError where the environment imports the fault's file from elsewhere, so that nobody would see
        it."""
        package = PACKAGES[fault.file.partition("/")[0]]
        code = f"import importlib.util as u; print(u.find_spec({package!r}).origin)"
        done = self._python(fault, "-c", code)
        if done.returncode or not Path(done.stdout.strip()).is_relative_to(self.tree):
            raise ToolError(f"{package} comes from elsewhere: {done.stdout.strip()}{done.stderr[-500:]}")

    def failing_test(self, fault: Fault) -> str | None:
        """The first test of the fault's that fails now; None where all pass."""
        done = self._python(fault, "-m", "pytest", "-x", "-q", "-m", "not long", "-p", "no:cacheprovider", *fault.tests)
        if done.returncode == 0:
            return None
        named = FAILED.search(done.stdout)
        if done.returncode != 1 or named is None:
            raise ToolError(f"pytest ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr}")
        return named[1]

    def judge(self, fault: Fault) -> str | None:
        """The test that finds the fault, None without one. Raises ToolError where it cannot be judged."""
        self.check_imports(fault)
        if failing := self.failing_test(fault):
            raise ToolError(f"{failing} fails without the fault")
        file = self.tree / fault.file
        sound = file.read_text(encoding="utf-8")
        if (count := sound.count(fault.text)) != 1:
            raise ToolError(f"{fault.text!r} stands {count} times in {fault.file}; expected once")
        file.write_text(sound.replace(fault.text, fault.replacement), encoding="utf-8")
        try:
            return self.failing_test(fault)
        finally:
            file.write_text(sound, encoding="utf-8")

    def _python(self, fault: Fault, *words: str) -> subprocess.CompletedProcess[str]:
        python = self.tree / ".venvs" / fault.environment / "bin/python"
        return subprocess.run(
            [str(python), *words],
            cwd=self.tree,
            env=self._env,
            capture_output=True,
            text=True,
            timeout=LONGEST_S,
            check=False,
        )


def chosen(names: list[str]) -> list[Fault]:
    by_name = {fault.name: fault for fault in FAULTS}
    for name in names:
        if name not in by_name:
            raise UsageError(f"NAME is {name!r}; expected one of {', '.join(by_name)}")
    return [by_name[name] for name in names] or list(FAULTS)


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="planted_faults", description=__doc__.splitlines()[0])
    parser.add_argument("names", metavar="NAME", nargs="*", help="of faults.py; all without one")
    options = parser.parse_args(words)
    try:
        faults, found, unjudged = chosen(options.names), 0, []
        with scratch_tree() as tree:
            judge = Judge(tree)
            judge.make_environments(name for fault in faults for name in (fault.environment, *fault.also))
            for fault in faults:
                began = time.monotonic()
                try:
                    test = judge.judge(fault)
                except (ToolError, subprocess.TimeoutExpired) as error:
                    unjudged.append(fault.name)
                    print(f"{fault.name:28} NOT JUDGED: {error}", flush=True)
                    continue
                found += test is not None
                print(f"{fault.name:28} {test or 'NOT FOUND'} ({time.monotonic() - began:.0f} s)", flush=True)
    except ToolError as error:
        print(f"planted_faults: {error}", file=sys.stderr)
        return 2
    print(f"{found} of {len(faults)} found")
    if unjudged:
        return 2
    return 0 if found >= min(ENOUGH, len(faults)) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
