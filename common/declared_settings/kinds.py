# SPDX-License-Identifier: Apache-2.0
"""Kinds of settings, with name, default, bounds and meaning."""

from __future__ import annotations

from dataclasses import dataclass


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


@dataclass(frozen=True)
class Flag(Setting):
    """1 or 0; ``does`` is what 1 does, for the error."""

    does: str = ""

    @property
    def bounds(self) -> str:
        return "1 or 0"


@dataclass(frozen=True)
class Choice(Setting):
    """One of ``values``."""

    values: tuple[str, ...] = ()

    @property
    def bounds(self) -> str:
        return ", ".join(f"`{value}`" for value in self.values)


@dataclass(frozen=True)
class Number(Setting):
    """A decimal number, both bounds included."""

    least: float = 0
    most: float = 10**9 - 1

    @property
    def bounds(self) -> str:
        words = f"from {self.least:,}" if self.most == 10**9 - 1 else f"{self.least:,} to {self.most:,}"
        return f"{words} {self.unit}".rstrip()


@dataclass(frozen=True)
class Whole(Number):
    """A whole number, both bounds included."""

    least: int = 0
    most: int = 10**9 - 1


@dataclass(frozen=True)
class Port(Setting):
    """A TCP port."""

    @property
    def bounds(self) -> str:
        return "1 to 65535"
