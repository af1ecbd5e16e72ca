# SPDX-License-Identifier: Apache-2.0
"""The whole tree: licence headers, no paths of one machine, working links, names that agree, linters."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import declared_settings
from bundle import envfile
from tests.support.paths import ROOT

LISTED = subprocess.run(
    ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True, check=True
).stdout
TRACKED = [ROOT / name for name in LISTED.splitlines()]
TEXT = [
    path
    for path in TRACKED
    if path.is_file()
    and path.suffix
    in (".py", ".sh", ".md", ".toml", ".yaml", ".yml", ".conf", ".ini", ".in", ".txt", ".example", ".jinja", "")
]
SOURCE = [path for path in TRACKED if path.suffix in (".py", ".sh") and path.is_file()]
DOCUMENTS = [path for path in TRACKED if path.suffix == ".md" and path.is_file()]


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_every_source_file_names_the_licence():
    header = "SPDX-License-Identifier" + ": Apache-2.0"  # apart, for `reuse lint` reads this file too
    without = [relative(path) for path in SOURCE if header not in path.read_text()[:200]]
    assert without == []


def test_every_licence_that_is_named_has_its_text():
    """As `reuse lint` wants it, which is no part of our environments."""
    annotations = (ROOT / "REUSE.toml").read_text()
    named = " AND ".join(re.findall(r'^SPDX-License-Identifier = "(.+)"$', annotations, re.MULTILINE))
    assert set(re.split(" AND | OR ", named)) == {path.stem for path in (ROOT / "LICENSES").iterdir()}
    vendored = [path.name for path in (ROOT / "parser/docparser/web/static/vendor").iterdir() if path.is_dir()]
    assert vendored and all(f'static/vendor/{name}/**"' in annotations for name in vendored)


def test_no_path_of_one_machine():
    pattern = re.compile(r"(?<![\w.])/(work|home/\w+|root)/")
    found = [
        f"{relative(path)}: {line.strip()}"
        for path in TEXT
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines()
        if pattern.search(line)
    ]
    assert found == []


def test_links_in_documents_lead_somewhere():
    broken = []
    for path in DOCUMENTS:
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", path.read_text()):
            if not re.match(r"[a-z]+:", target) and not (path.parent / target).exists():
                broken.append(f"{relative(path)}: {target}")
    assert broken == []


def test_messages_name_documents_that_are_there():
    named = {
        (relative(path), target)
        for path in SOURCE
        for target in re.findall(r"(?<![\w/.-])docs/[\w/.-]+\.md", path.read_text())
        if not relative(path).startswith("tests/")
    }
    # Any page.
    others = {("common/declared_settings/kinds.py", "docs/NAME.md")}
    assert {(name, target) for name, target in named if not (ROOT / target).exists()} == others


def anchors(path: Path) -> set[str]:
    """The names that GitHub gives to a document's headings."""
    titles = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```", "", path.read_text(), flags=re.M | re.S), re.MULTILINE)
    plain = [re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", title) for title in titles]
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in plain}


def test_links_to_sections_lead_to_one():
    broken = []
    for path in DOCUMENTS:
        for target, anchor in re.findall(r"\]\(([^)#\s]*)#([^)\s]+)\)", path.read_text()):
            document = path.parent / target if target else path
            if not re.match(r"[a-z]+:", target) and document.suffix == ".md" and anchor not in anchors(document):
                broken.append(f"{relative(path)}: {target}#{anchor}")
    assert broken == []


def test_every_script_is_executable_and_listed():
    listed = (ROOT / "scripts/README.md").read_text()
    for path in [*ROOT.glob("scripts/*.sh"), *ROOT.glob("scripts/*.py")]:
        assert f"`{path.name}" in listed, f"scripts/README.md has no line for {path.name}"
        assert path.suffix == ".py" or path.stat().st_mode & 0o111, f"{relative(path)} is not executable"


def test_env_example_is_short_and_names_settings_with_their_defaults():
    text = (ROOT / ".env.example").read_text()
    assert len(text.splitlines()) < 40 and "docs/settings.md has all" in text
    values = envfile.parse(text, {})
    assert values.keys() <= declared_settings.names()
    for name, value in values.items():
        if name in declared_settings.DECLARED:
            assert value == declared_settings.DECLARED[name].default, name


def compose_settings() -> set[str]:
    """Variables that the compose files read from .env."""
    files = [
        ROOT / "compose.yaml",
        *(ROOT / "config/compose").glob("**/*.yaml"),
        *(ROOT / "config/stacks").glob("*.yaml"),
    ]
    return {name for path in files for name in re.findall(r"\$\{([A-Z][A-Z0-9_]+)", path.read_text())}


@pytest.mark.parametrize("name", ["docs/settings.md", "docs/zh-CN/settings.md"])
def test_compose_env_example_and_the_guide_know_the_same_settings(name: str):
    documented = set(re.findall(r"^\| `([A-Z][A-Z0-9_]+)` \|", (ROOT / name).read_text(), re.MULTILINE))
    example = set(envfile.parse((ROOT / ".env.example").read_text(), {}))
    of_scripts = {"VLM_IMAGE", "VLM_NEXT_HALF"}  # what scripts/upgrade.sh tells compose
    assert compose_settings() - of_scripts <= documented, "compose reads what the guide does not name"
    assert example <= documented, ".env.example names what the guide does not"
    local_only = {
        *("VLM_HOST", "VLM_PORT", "LAYOUT_PORT", "READY_TIMEOUT", "ENVS_DIR", "RUN_DIR"),
        *("VLM_URL", "PARSER_DATA_DIR", "PARSER_CACHE_DIR", "PARSER_SPOOL_DIR", "PARSER_PUBLISHED_ADDRESS"),
    }
    assert documented - compose_settings() == local_only, "the guide names what compose does not read"


def test_documents_name_only_settings_and_scripts_that_exist():
    of_clients = {"PADDLEOCR_BASE_URL"}  # read by PaddleOCR's SDK, not by this bundle
    known = {*envfile.parse((ROOT / ".env.example").read_text(), {}), *of_clients}
    code = "".join(path.read_text() for path in SOURCE) + "".join(
        path.read_text() for path in (ROOT / "config").rglob("*.yaml")
    )
    for path in (ROOT / "README.md", ROOT / "README.zh-CN.md", ROOT / "CONTRIBUTING.md"):
        text = path.read_text()
        for name in re.findall(r"`([A-Z][A-Z]+_[A-Z_]+)(?:=[^`]*)?`", text):
            assert name in known or name in code, f"{path.name} names {name}, which nothing reads"
        for script in re.findall(r"scripts/[a-z_]+\.(?:sh|py)", text):
            assert (ROOT / script).is_file(), f"{path.name} names {script}, which does not exist"


def test_defaults_in_env_example_are_the_codes():
    from bundle.local_mode.settings import LocalSettings

    values = envfile.parse((ROOT / ".env.example").read_text(), {})
    own = LocalSettings.of({}).values
    names = ("VLM_HOST", "VLM_PORT", "PARSER_BIND", "PARSER_PORT", "READY_TIMEOUT")
    assert {name: values[name] for name in names} == {name: own[name] for name in names}


@pytest.mark.parametrize("name", ["README.md", "README.zh-CN.md"])
def test_figures_in_the_readme_are_those_of_the_benchmarks(name: str):
    """A paragraph that names the benchmarks as its source says no number that is not there."""
    measured = (ROOT / "docs/benchmarks.md").read_text()
    quoting = [text for text in (ROOT / name).read_text().split("\n\n") if "docs/benchmarks.md" in text]
    figures = [figure for text in quoting for figure in re.findall(r"\d+\.\d+", text)]
    assert figures and [figure for figure in figures if not re.search(rf"(?<![\d.]){figure}(?![\d])", measured)] == []


def test_both_readmes_show_the_same_commands():
    def commands(name: str) -> list[str]:
        blocks = re.findall(r"^```(?:sh|bash)\n(.*?)^```", (ROOT / name).read_text(), re.MULTILINE | re.DOTALL)
        return [line.partition("#")[0].strip() for block in blocks for line in block.splitlines() if line.strip()]

    assert commands("README.md") and commands("README.md") == commands("README.zh-CN.md")


@pytest.mark.parametrize(
    "command",
    [
        ["ruff", "check", "."],
        ["ruff", "format", "--check", "."],
        [
            "shellcheck",
            "-x",
            ".ci/run",
            *sorted(relative(path) for folder in ("scripts", "operations") for path in ROOT.glob(f"{folder}/**/*.sh")),
        ],
        ["hadolint", *sorted(map(relative, (*ROOT.glob("Dockerfile.*"), *ROOT.glob("tests/images/**/Dockerfile"))))],
    ],
    ids=["ruff", "ruff-format", "shellcheck", "hadolint"],
)
def test_linters(command: list[str]):
    program = shutil.which(command[0], path=str(Path(sys.executable).parent))
    if program is None and command[0] != "ruff" and platform.machine() != "x86_64":
        pytest.skip(f"{command[0]} has no wheel for this processor")
    assert program, f"{command[0]} is missing from the tools environment"
    result = subprocess.run([program, *command[1:]], cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


def test_what_goes_beyond_one_node_is_one_step_from_the_readme():
    """The pages of decision 0418's table are those of README's, besides the one on folders, a tool of the core."""
    decision = (ROOT / "docs/decisions/0418-beyond-one-page-on-one-node.md").read_text()
    decided = set(re.findall(r"^\| \[[^\]]+\]\(\.\./([^)#]+)", decision, re.MULTILINE))
    for name, folder in (("README.md", "docs"), ("README.zh-CN.md", "docs(?:/zh-CN)?")):
        text = (ROOT / name).read_text()
        heading = {"README.md": "## When you need more", "README.zh-CN.md": "## 需要更多时"}[name]
        table = text[text.index(heading) :].split("\n## ")[0]
        assert set(re.findall(rf"\({folder}/([^)#]+)", table)) == decided - {"tools.md"}, name
