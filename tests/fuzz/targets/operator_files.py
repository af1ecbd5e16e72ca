# SPDX-License-Identifier: Apache-2.0
"""Texts that an operator's machine brings: models.yaml, .env, metrics of replicas, `npu-smi`, a manifest of weights."""

from __future__ import annotations

import contextlib
from typing import Any

import yaml

from bundle import envfile
from container.metrics import merge, parsed
from npu_smi import parse as parse_npu_smi
from served_weights import yaml_subset
from served_weights.catalog import Catalog, wanted
from tests.fuzz.choices import Choices
from tests.fuzz.verdict import Broken
from tests.support.paths import DATA
from tool_errors import UsageError

YAML = (
    *("default: a\n", "models:\n", "  a:\n", "    served_name: x\n", "    path: a/b\n", "    demo: ~\n", "    vllm:\n"),
    *("\n", "      - 1\n", "# comment\n", ": ", "'", '"', "|\n", ">-\n", "&a", "*a", "!!str", "<<:", "{", "}", "["),
    *("]", "---\n", "  ", "yes", "null", "1.0", "2020-01-01", "? ", "\t", "%YAML 1.1\n", "path", "é: x\n", "\\u0041"),
    "no: on\n",
)
ENV = ("A=1\n", "export ", "KEY=", "'", '"', "#", " # x", "\n", "=", "$A", "\\", "B='x' # y\n")
METRICS = (
    *("# TYPE a counter\n", "# HELP a b\n", "a_total 1\n", 'a{b="c"} 2\n', 'a{b="', "\\", "NaN", "+Inf", "1e9", " "),
    *("\n", "# TYPE a histogram\n", 'a_bucket{le="1"} 3\n', "a_created 1\n", "{", "}", "#", "-1", "# EOF\n"),
    'replica="0"',
)
NPU_SMI = (
    *("| ", "+---+\n", "| NPU   Name", "| Chip  Phy-ID", "Process id", "910B1", "Ascend910", "OK", "0 ", "1 / 2 "),
    "|\n",
)


def target(data: bytes) -> None:
    choices = Choices(data)
    (models_yaml, env, metrics, npu_smi)[choices.below(4)](choices)


def models_yaml(choices: Choices) -> None:
    """The reader without PyYAML reads what PyYAML reads, or refuses."""
    text = choices.text(YAML, longest=4000)
    try:
        ours = yaml_subset.load(text, wanted)
    except yaml_subset.UnreadableYaml:
        ours = None
    try:
        theirs = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError):
        if ours:
            raise Broken("a text is read that PyYAML calls broken") from None
        return
    with contextlib.suppress(UsageError):
        Catalog.from_data(theirs)
    if ours is not None and ours != only_wanted(theirs or {}, ()):
        raise Broken("models.yaml reads the same without PyYAML")


def only_wanted(value: Any, above: tuple[str, ...]) -> Any:
    if not isinstance(value, dict):
        return value
    return {key: only_wanted(item, (*above, key)) for key, item in value.items() if wanted((*above, str(key)))}


def env(choices: Choices) -> None:
    text = choices.text(ENV, longest=4000)
    try:
        values = envfile.parse(text, {"HOME": "/home/x", "EMPTY": ""})
    except UsageError as error:
        number = int(str(error).partition("line ")[2].partition(":")[0])
        if not 1 <= number <= text.count("\n") + 1:
            raise Broken("a line that is not there is called malformed") from None
        return
    if any(not key or " " in key or "=" in key for key in values):
        raise Broken("keys of .env are names")


def metrics(choices: Choices) -> None:
    text = choices.text(METRICS, longest=4000)
    try:
        families = parsed(text)
    except ValueError:
        families = None
    merge({"0": families, "1": families})


def npu_smi(choices: Choices) -> None:
    parse_npu_smi(choices.text(NPU_SMI, longest=4000) if choices.chance(2) else choices.rest().decode("latin-1"))


def seeds() -> list[bytes]:
    table = (DATA / "npu-smi/a3.txt").read_bytes()[:3000]
    return [b"\3\1" + table, *(bytes([kind, 12]) + bytes(range(50)) for kind in range(3))]
