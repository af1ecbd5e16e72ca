# SPDX-License-Identifier: Apache-2.0
"""models.yaml by both readers: PyYAML, and the small one for a Python that has none."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from served_weights import yaml_subset
from served_weights.catalog import Catalog, wanted
from tests.support.paths import ROOT
from tool_errors import UsageError

TRACKED = ROOT / "config/models.yaml"


def only_wanted(data: Any, above: tuple[str, ...] = ()) -> Any:
    """What PyYAML reads, without the keys that the catalog does not need."""
    if not isinstance(data, dict):
        return data
    return {key: only_wanted(value, (*above, key)) for key, value in data.items() if wanted((*above, key))}


def test_the_tracked_file():
    text = TRACKED.read_text(encoding="utf-8")
    read = yaml_subset.load(text, wanted)
    assert read == only_wanted(yaml.safe_load(text))
    assert read["models"]["PaddleOCR-VL"]["demo"] == "demo/PaddleOCR-VL", "more than nothing was read"
    assert Catalog.from_data(read) == Catalog.load(TRACKED)


# Each is put before, between or behind the lines that are wanted.
BASE = """
default: a
models:
  a:
    path: A
    served_name: Name-0.9B
    demo: demo/A
  b:
    path: deep/B
    served_name: b
"""
VARIANTS = {
    "as it is": BASE,
    "comments": BASE.replace("default: a", "default: a  # the first one").replace(
        "path: A", "# path: C\n    path: A #"
    ),
    "quotes": BASE.replace(" A\n", ' "A # no comment"\n')
    .replace("default: a", "default: 'a'")
    .replace("  b:", '  "b":'),
    "Windows line ends": BASE.replace("\n", "\r\n"),
    "deeper indentation": BASE.replace("    path", "      path")
    .replace("    served", "      served")
    .replace("    demo", "      demo"),
    "spaces behind": BASE.replace("path: A", "path: A   ").replace("models:", "models:  "),
    "no demo": BASE.replace("demo: demo/A", "demo:") + "    demo: ~\n",
    "nested mappings": BASE.replace(
        "    demo:",
        "    arguments:\n      path: other\n      deep: {path: x, list: [1, 2]}\n      # path: y\n    demo:",
    ),
    "lists": BASE.replace("    demo:", "    words:\n    - path: other\n    - [a, 'b: c']\n    demo:")
    + "hardware:\n- default: b\n- x\n",
    "a text of several lines": BASE + "    note: it's one\n      of \"two lines\n    demo: null\n",
    "a block scalar": BASE.replace("    demo:", "    note: |-\n      path: \"not a key\n\n      'nor\n    demo:")
    + "note: >\n  default: b\n   - {\n",
    "anchors in what is skipped": "x: &anchor\n  default: b\n" + BASE + "y: *anchor\n",
    "brackets and quotes in what is skipped": BASE
    + 'x: {default: "b # }", y: [a, {b: c}]}  # default: z\nz: "a \\" b"\n',
    "keys behind": BASE + "environment:\n  default: b\n  models:\n    c:\n      path: C\n",
}


@pytest.mark.parametrize("name", VARIANTS)
def test_what_both_readers_know(name: str):
    assert yaml_subset.load(VARIANTS[name], wanted) == only_wanted(yaml.safe_load(VARIANTS[name].replace("\r\n", "\n")))


REFUSED = {
    "an anchor": BASE.replace("path: A", "path: &p A"),
    "an alias": BASE.replace("served_name: b", "served_name: *p"),
    "a tag": BASE.replace("path: A", "path: !!str A"),
    "a merge key": BASE.replace("    demo: demo/A", "    <<: *base"),
    "an anchor of a whole model": BASE.replace("  a:", "  a: &base"),
    "a flow mapping": "default: a\nmodels: {a: {path: A, served_name: a}}\n",
    "a flow mapping of several lines": BASE + "x: {default: b,\n  y: z}\n",
    "a flow mapping that hides a key": BASE.replace("default: a\n", "x: {y: 1,\ndefault: b\n}\n"),
    "a quoted text that hides a key": BASE + 'x: "one\ndefault: b\ny: two"\n',
    "a list of models": BASE.replace("  a:\n", "  - a:\n"),
    "a number": BASE.replace("path: A", "path: 1"),
    "a truth value": BASE.replace("path: A", "path: yes"),
    "a date": BASE.replace("path: A", "path: 2024-01-01"),
    "a text of several lines": BASE.replace("path: A", "path: A\n      B"),
    "a block scalar": BASE.replace("path: A", "path: |\n      A"),
    "escapes": BASE.replace("path: A", 'path: "A\\x41"'),
    "a doubled quote": BASE.replace("path: A", "path: 'A''B'"),
    "a key that stands there twice": BASE.replace("    demo: demo/A", "    path: B"),
    "a tab": BASE.replace("    path: A", "\tpath: A"),
    "wrong indentation": BASE.replace("  b:\n", " b:\n"),
    "several documents": BASE + "---\ndefault: b\n",
    "a key without its space": BASE.replace("path: A", "path:A"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_small_reader_refuses(name: str):
    assert REFUSED[name] != BASE
    with pytest.raises(yaml_subset.UnreadableYaml, match=r"^line \d+: .*PyYAML"):
        yaml_subset.load(REFUSED[name], wanted)


def without_pyyaml(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)


def test_a_file_is_refused_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    without_pyyaml(monkeypatch)
    file = tmp_path / "models.yaml"
    file.write_text(REFUSED["an anchor"])
    with pytest.raises(UsageError, match=r"MODELS_CONFIG: .*models\.yaml, line 5: '&p A' is not surely a text"):
        Catalog.load(file)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("default: x\n", "expected a mapping with the keys default and models"),
        (BASE.replace("default: a", "default: c"), "default is 'c'; expected one of a, b"),
        (BASE.replace("default: a", "default: a c"), "default is 'a c'; expected one of a, b"),
        (BASE.replace("    path: A\n", ""), "models.a lacks the key 'path'"),
        (BASE.replace("path: A", "path: {x: y}"), "models.a.path is {'x': 'y'}; expected a text"),
        (BASE + "    golden: text\n", "models.b.golden is 'text'; expected a mapping"),
        (
            BASE + "    golden: {prompt: a, pixel: b}\n",
            "models.b.golden has the unknown key 'pixel'; expected prompt, pixels",
        ),
        (BASE + "    golden: {prompt: ' ', pixels: 1 to 2}\n", "models.b.golden.prompt is ' '; expected a text"),
        (
            BASE + "    golden: {prompt: a, pixels: 3 to 2}\n",
            "models.b.golden.pixels is '3 to 2'; expected a text like",
        ),
        (BASE + "  c: text\n", "models.c is 'text'; expected a mapping"),
        (BASE + "  1: {path: x, served_name: y}\n", "models has the key 1; expected a text"),
        ("models: [", "is not YAML"),
        ("default: 2020-13-45\n", "is not YAML: month must be in 1..12"),
        ("[" * 2000, "is nested too deeply"),
    ],
)
def test_a_wrong_file_names_the_key(tmp_path: Path, text: str, message: str):
    file = tmp_path / "models.yaml"
    file.write_text(text)
    with pytest.raises(UsageError) as caught:
        Catalog.load(file)
    assert message in str(caught.value)


def test_a_file_that_is_away_and_one_that_changes(tmp_path: Path):
    file = tmp_path / "models.yaml"
    with pytest.raises(UsageError, match=r"models\.yaml cannot be read: No such file"):
        Catalog.load(file)
    file.write_text(BASE)
    assert Catalog.load(file).defaults == ("a",) and Catalog.load(file) is Catalog.load(file), "read once"
    file.write_text(BASE.replace("default: a", "default: b") + "# longer\n")
    assert Catalog.load(file).defaults == ("b",)


def test_a_bare_python_reads_the_tracked_file():
    """Without site-packages, as a node runs preflight."""
    code = (
        "import sys\n"
        "from served_weights.settings import WeightSettings\n"
        "print(WeightSettings.from_environment({}).catalog.models['PaddleOCR-VL'].demo, 'yaml' in sys.modules)"
    )
    command, env = [sys.executable, "-S", "-P", "-c", code], {"PYTHONPATH": str(ROOT / "common")}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.stdout == "demo/PaddleOCR-VL False\n", done.stderr
