# SPDX-License-Identifier: Apache-2.0
"""The two Dockerfiles: what they share is the same text (decision 0405), and the context holds what they copy."""

from __future__ import annotations

import re
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from bundle.environments import environment
from bundle.environments.environment import Environment
from bundle.image_build import steps
from tests.support.imports import imports as imports_of
from tests.support.imports import module_name, module_of
from tests.support.paths import ROOT

FILES = ("Dockerfile.cpu", "Dockerfile.ascend")
SHARED = ("base", "builder", "dependencies", "vlm")
OWN = {
    "Dockerfile.cpu": {"system", "platform", "parser_dependencies", "parser", "corpus"},
    "Dockerfile.ascend": {"system", "vllm", "kernels", "platform"},
}


def sections(name: str) -> dict[str, str]:
    """Text of a Dockerfile's sections by the name in their heading `# ---- NAME: ...`."""
    parts = re.split(r"(?m)^# ---- (\w+): ", (ROOT / name).read_text())
    return dict(zip(parts[1::2], (part.strip() for part in parts[2::2]), strict=True))


def test_shared_sections_are_the_same_text():
    cpu, ascend = map(sections, FILES)
    for name in SHARED:
        assert cpu[name] == ascend[name], f"section {name}: change both Dockerfiles"
    for name, found in zip(FILES, (cpu, ascend), strict=True):
        assert set(found) - set(SHARED) == OWN[name]


def test_the_parser_is_made_once():
    assert "docparser" not in (ROOT / "Dockerfile.ascend").read_text()
    assert "FROM base AS parser_dependencies\n" in sections("Dockerfile.cpu")["parser_dependencies"]


def context() -> list[str]:
    """Patterns of what .dockerignore lets into the build context."""
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    return [line.removeprefix("!") for line in lines if line.startswith("!")]


def copies(text: str) -> list[str]:
    """What the COPY instructions of a Dockerfile, or of a part of it, take from the context."""
    text = text.replace("\\\n", " ").replace("${VLM_ENVIRONMENT}", "vlm")
    return [word for words in re.findall(r"(?m)^COPY (?!--from)(.+)$", text) for word in words.split()[:-1]]


def copy(patterns: list[str], target: Path) -> None:
    """Copy the files that the patterns name, with their folders, as a build does."""
    for pattern in patterns:
        for path in ROOT.glob(pattern):
            place = target / path.relative_to(ROOT)
            place.parent.mkdir(parents=True, exist_ok=True)
            if path.is_dir():
                shutil.copytree(path, place, dirs_exist_ok=True)
            else:
                shutil.copyfile(path, place)


def imports(tree: Path, *modules: str) -> None:
    """Import the modules with nothing but `tree` and the standard library; fails with the error of the first that
    cannot be."""
    path = f"{tree}/operations:{tree}/common"
    for module in modules:
        command = [sys.executable, "-S", "-c", f"import {module}"]
        done = subprocess.run(command, env={"PYTHONPATH": path}, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def test_the_context_holds_all_that_the_installer_imports(tmp_path: Path):
    copy(context(), tmp_path / "context")
    copy(copies(sections("Dockerfile.cpu")["builder"]), tmp_path / "builder")
    imports(tmp_path / "context", "bundle.image_build.steps", "bundle.image_build.bill")
    imports(tmp_path / "builder", "bundle.image_build.steps", "bundle.image_build.bill")


def test_each_image_holds_all_that_its_entry_point_imports(tmp_path: Path):
    text = sections("Dockerfile.cpu")
    copy(copies(text["parser"]), tmp_path / "parser")
    imports(tmp_path / "parser", "container.parser", "container.guard", "health_probe")
    copy(copies(text["vlm"]), tmp_path / "vlm")
    imports(tmp_path / "vlm", "container.vlm", "container.replica", "container.balancer", "container.guard")


@pytest.mark.parametrize("name", FILES)
def test_every_file_that_is_copied_is_in_the_context(name: str):
    allowed = {path for pattern in context() for path in ROOT.glob(pattern)}
    text = (ROOT / name).read_text()
    mounted = re.findall(r"--mount=type=bind,source=([^,]+),", text)
    for source in (*mounted, *copies(text)):
        found = list(ROOT.glob(source))
        assert found, f"{source} is not there"
        for path in found:
            inside = any(path == one or one in path.parents or path in one.parents for one in allowed)
            assert inside, f"{source} is not in .dockerignore"


def test_a_further_lock_goes_into_the_environment_that_is_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    calls: list[tuple[str, list[str]]] = []
    monkeypatch.setattr(environment, "ENVS_DIR", tmp_path)
    monkeypatch.setattr(steps, "pip", lambda made, what, arguments: calls.append((made.name, arguments)))
    (tmp_path / "parser").mkdir()
    steps.further(Environment("parser"), Environment("corpus"))
    [(name, [verb, *_, file])] = calls
    assert (name, verb) == ("corpus", "sync") and (tmp_path / "corpus").resolve() == tmp_path / "parser"
    assert Path(file).read_text() == (ROOT / "config/requirements/corpus.txt").read_text()


def test_every_user_can_read_what_a_hardened_checkout_had_for_its_owner(tmp_path: Path):
    """Under a umask of 077 an image's user could not even start its entry point."""
    (tmp_path / "container").mkdir(mode=0o700)
    for name, mode in (("entrypoint.sh", 0o700), ("models.yaml", 0o600), ("open", 0o644)):
        (tmp_path / "container" / name).touch()
        (tmp_path / "container" / name).chmod(mode)
    (tmp_path / "link").symlink_to("/nowhere")
    steps.open_to_all(tmp_path)
    modes = {path.name: stat.S_IMODE(path.lstat().st_mode) for path in tmp_path.rglob("*") if not path.is_symlink()}
    assert modes == {"container": 0o755, "entrypoint.sh": 0o755, "models.yaml": 0o644, "open": 0o644}


def test_what_a_corpus_imports_is_in_the_context():
    """Its image starts in an hour's test alone, and a worker that lacks a module would be started again and again."""
    there = {
        module_name(path.relative_to(ROOT / "operations")): path
        for path in (ROOT / "operations").rglob("*.py")
        if path.relative_to(ROOT / "operations").parts[0] in ("batch", "bundle", "corpus")
    }
    allowed = [ROOT / line for line in context()]
    reached = {name for name in there if name.partition(".")[0] == "corpus"}
    waiting = list(reached)
    while waiting:
        name = waiting.pop()
        for dotted in imports_of(there[name], name):
            if (module := module_of(dotted, there)) and module not in reached:
                reached.add(module)
                waiting.append(module)
    missing = {name for name in reached if not {there[name], *there[name].parents} & set(allowed)}
    assert "bundle.ports" in reached and missing == set()
