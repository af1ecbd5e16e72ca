# SPDX-License-Identifier: Apache-2.0
"""Settings of all that is not the parser, as a table that the code reads; the parser's are docparser.settings.

docs/settings.md and settings.schema.json are written from both (CONTRIBUTING.md). So whoever has no pydantic checks the
parser's settings too, by the schema: containers before they start anything, and scripts/preflight.sh. Standard library
only.
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
from .forms import FORMS
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
# Names with our prefixes that programs of the bundle hand to each other, or read as clients; no settings of a service.
BETWEEN_PROGRAMS = frozenset(
    {
        *("VLM_REPLICA_PORT", "VLM_MAX_NUM_SEQS", "VLM_SERVED_NAMES", "VLM_FAMILY", "VLM_KEY_DIGESTS"),
        *("VLM_PODS", "VLM_MOST_PODS", "LAYOUT_HOST"),
        *("VLM_HALF", "VLM_NEXT_HALF", "VLM_IMAGE", "VLM_ENVIRONMENT", "PARSER_STOP_SECONDS", "CORPUS_OUTCOME_FD"),
        *("VLM_API_KEY", "PARSER_API_KEY"),  # of scripts/selftest.sh and of clients
    }
)
PREFIXES = ("PARSER_", "VLM_", "LAYOUT_", "CORPUS_", "WATCHDOG_")

Kind = TypeVar("Kind", bound=Setting)


def flag(env: Mapping[str, str], name: str) -> bool:
    """Raises WrongValue, as the others do."""
    return env_values.flag(env, name, _declared(name, Flag).does)


def choice(env: Mapping[str, str], name: str) -> str:
    setting = _declared(name, Choice)
    return env_values.choice(env, name, setting.default, setting.values)


def whole(env: Mapping[str, str], name: str) -> int:
    """The least value where nothing is said and there is no default."""
    setting = _declared(name, Whole)
    return env_values.whole(env, name, int(setting.default or setting.least), setting.least, setting.most)


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
    setting = _declared(name, Number)
    return env_values.number(env, name, float(setting.default or setting.least), setting.least, setting.most)


def port(env: Mapping[str, str], name: str) -> int:
    return env_values.port(env, name, int(_declared(name, Port).default))


def text(env: Mapping[str, str], name: str) -> str:
    setting = DECLARED[name]
    value = env.get(name) or setting.default
    if value and setting.form and FORMS[setting.form].misfit(value) is not None:
        raise env_values.WrongValue(name, value, FORMS[setting.form].expected)
    return value


def check(env: Mapping[str, str], name: str) -> None:
    """Raises WrongValue for a value that no reader of the setting would take."""
    readers = {Flag: flag, Choice: choice, Whole: whole, Number: number, Port: port}
    if name in DECLARED:
        readers.get(type(DECLARED[name]), text)(env, name)
    elif value := env.get(name):
        by_schema.check(name, value, _schemas()[name])


def wrong(env: Mapping[str, str]) -> list[env_values.WrongValue]:
    """What `check` says of each setting of ``env``. A cluster's address of a service is no setting."""
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
