# SPDX-License-Identifier: Apache-2.0
"""All settings but the parser's, as a table that the code reads; the parser's are in docparser.settings.

docs/settings.md and settings.schema.json are written from both (CONTRIBUTING.md). So programs without pydantic check
the parser's settings by the schema: the containers at their start, and scripts/preflight.sh. Standard library only.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import env_values
from tool_errors import UsageError

from . import by_schema
from .deployment import BUCKET, BUILDS, CORPUS, LOCAL_MODE, PARSER_CONTAINER
from .kinds import Choice, Flag, Number, Port, Setting, Whole
from .services import ADDRESSES, HARDWARE_AND_WEIGHTS, LAYOUT, MOST_REPLICAS, VLM_SERVER

SCHEMA = Path(__file__).parent / "settings.schema.json"
DECLARED: dict[str, Setting] = {
    setting.name: setting
    for group in (
        *(HARDWARE_AND_WEIGHTS, VLM_SERVER, LAYOUT, ADDRESSES),
        *(PARSER_CONTAINER, BUCKET, CORPUS, BUILDS, LOCAL_MODE),
    )
    for setting in group
}
# Names with our prefixes that are no settings of a service: the bundle's programs pass them to each other, or read them
# as clients.
BETWEEN_PROGRAMS = frozenset(
    {
        *("VLM_REPLICA_PORT", "VLM_MAX_NUM_SEQS", "VLM_SERVED_NAMES", "VLM_FAMILY", "VLM_KEY_DIGESTS"),
        "VLM_VIDEO_MEGAPIXELS",
        *("VLM_PODS", "VLM_MOST_PODS", "LAYOUT_HOST"),
        *("VLM_HALF", "VLM_NEXT_HALF", "VLM_IMAGE", "VLM_ENVIRONMENT", "PARSER_STOP_SECONDS", "CORPUS_OUTCOME_FD"),
        *("VLM_API_KEY", "PARSER_API_KEY"),  # of scripts/selftest.sh and of clients
    }
)
PREFIXES = ("PARSER_", "VLM_", "LAYOUT_", "CORPUS_", "WATCHDOG_")

Kind = TypeVar("Kind", bound=Setting)


def flag(env: Mapping[str, str], name: str) -> bool:
    """Raises WrongValue, as the others do."""
    return _declared(name, Flag).read(env)


def choice(env: Mapping[str, str], name: str) -> str:
    return _declared(name, Choice).read(env)


def whole(env: Mapping[str, str], name: str) -> int:
    return _declared(name, Whole).read(env)


def replicas(env: Mapping[str, str], places: int) -> int:
    """How many replicas VLM_REPLICAS_PER_DIE makes on so many dies (on CPU: core sets). Raises UsageError for more than
    a container may have."""
    each = whole(env, "VLM_REPLICAS_PER_DIE")
    if places * each > MOST_REPLICAS:
        raise UsageError(
            f"VLM_REPLICAS_PER_DIE is {each}: that makes {places * each} replicas; expected at most {MOST_REPLICAS}"
        )
    return places * each


def number(env: Mapping[str, str], name: str) -> float:
    return _declared(name, Number).read(env)


def port(env: Mapping[str, str], name: str) -> int:
    return _declared(name, Port).read(env)


def text(env: Mapping[str, str], name: str) -> str:
    """The text of a setting of any kind, of which only the form is checked."""
    value: str = Setting.read(DECLARED[name], env)
    return value


def unchecked(env: Mapping[str, str], name: str) -> str:
    """The text of a setting, the parser's too, for those who say themselves what is wrong with it."""
    default: str = DECLARED[name].default if name in DECLARED else _schemas()[name].get("default", "")
    return env.get(name) or default


def check(env: Mapping[str, str], name: str) -> None:
    """Raises WrongValue for a value that every reader of the setting would refuse."""
    if name in DECLARED:
        DECLARED[name].read(env)
    elif value := env.get(name):
        by_schema.check(name, value, _schemas()[name])


def wrong(env: Mapping[str, str]) -> list[env_values.WrongValue]:
    """The complaints of `check` about the settings in ``env``. A cluster's address of a service is no setting."""
    found = []
    for name in sorted(names() & env.keys()):
        try:
            if not env_values.is_link(name, env[name]):
                check(env, name)
        except env_values.WrongValue as error:
            found.append(error)
    return found


@functools.cache
def _schemas() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = json.loads(SCHEMA.read_text(encoding="utf-8"))["properties"]
    return found


@functools.cache
def names() -> frozenset[str]:
    """Names of all settings, the parser's too."""
    return frozenset(_schemas())


def unknown(env: Mapping[str, str]) -> list[str]:
    """A line for each variable of ``env`` with a prefix of ours that nothing reads."""
    return env_values.unknown(env, PREFIXES, names(), BETWEEN_PROGRAMS)


def refuse_unknown(env: Mapping[str, str]) -> None:
    """Raises UsageError for what `unknown` finds."""
    if found := unknown(env):
        raise UsageError("\n".join(found))


def refuse_mistakes(env: Mapping[str, str]) -> None:
    """Raises UsageError with a line for each unknown name and each wrong value."""
    if found := [*unknown(env), *map(str, wrong(env))]:
        raise UsageError("\n".join(found))


def _declared(name: str, kind: type[Kind]) -> Kind:
    setting = DECLARED[name]
    if not isinstance(setting, kind):
        raise TypeError(f"{name} is a {type(setting).__name__}, not a {kind.__name__}")
    return setting
