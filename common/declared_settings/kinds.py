# SPDX-License-Identifier: Apache-2.0
"""Kinds of settings, with name, default, bounds and meaning; each reads its value from an environment."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from env_values import WrongValue

from .forms import FORMS


@dataclass(frozen=True)
class Setting:
    """A text. An empty one means ``default``. The page shows ``shown`` instead where the default depends on something.

    ``form`` is one of forms.FORMS that the text must have; "" for any text.
    The meaning is English Markdown. ``docs/NAME.md#section`` and names of settings become links and code on the page.
    """

    name: str
    default: str
    meaning: str
    unit: str = ""
    shown: str = ""
    allowed: str = ""
    form: str = ""

    @property
    def bounds(self) -> str:
        """Allowed values in words, with the unit; "" for any text."""
        return self.allowed

    def read(self, env: Mapping[str, str]) -> Any:
        """The value, in its kind's type. Raises WrongValue."""
        value = env.get(self.name) or self.default
        if value and self.form and FORMS[self.form].misfit(value) is not None:
            raise WrongValue(self.name, value, FORMS[self.form].expected)
        return value


@dataclass(frozen=True)
class Flag(Setting):
    """1 or 0; ``does`` is what 1 does, for the error."""

    does: str = ""

    @property
    def bounds(self) -> str:
        return "1 or 0"

    def read(self, env: Mapping[str, str]) -> bool:
        value = env.get(self.name) or "0"
        if value not in ("0", "1"):
            raise WrongValue(self.name, value, f"1 ({self.does}) or 0" if self.does else "1 or 0")
        return value == "1"


@dataclass(frozen=True)
class Choice(Setting):
    """One of ``values``; the default need not be one."""

    values: tuple[str, ...] = ()

    @property
    def bounds(self) -> str:
        return ", ".join(f"`{value}`" for value in self.values)

    def read(self, env: Mapping[str, str]) -> str:
        value = env.get(self.name) or self.default
        if value != self.default and value not in self.values:
            raise WrongValue(self.name, value, f"one of {', '.join(self.values)}")
        return value


@dataclass(frozen=True)
class Number(Setting):
    """A decimal number without exponent, both bounds included. An unset one without a default is the least one."""

    least: float = 0
    most: float = 10**9 - 1
    noun, digits = "a number", r"[0-9]*\.?[0-9]{1,6}"

    @property
    def bounds(self) -> str:
        words = f"from {self.least:,}" if self.most == 10**9 - 1 else f"{self.least:,} to {self.most:,}"
        return f"{words} {self.unit}".rstrip()

    def read(self, env: Mapping[str, str]) -> float:
        value = env.get(self.name) or self.default or str(self.least)
        if not re.fullmatch(self.digits, value) or not self.least <= float(value) <= self.most:
            raise WrongValue(self.name, value, f"{self.noun} from {self.least} to {self.most}")
        return float(value)


@dataclass(frozen=True)
class Whole(Number):
    """A whole number, both bounds included."""

    least: int = 0
    most: int = 10**9 - 1
    noun, digits = "a whole number", "[0-9]{1,9}"

    def read(self, env: Mapping[str, str]) -> int:
        return int(super().read(env))


@dataclass(frozen=True)
class Port(Whole):
    """A TCP port."""

    least: int = 1
    most: int = 65535
    noun = "a port number"

    @property
    def bounds(self) -> str:
        return "1 to 65535"
