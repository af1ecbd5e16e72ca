# SPDX-License-Identifier: Apache-2.0
"""Check a value of the parser by its entry in settings.schema.json, as docparser.settings would.

What pydantic takes is never refused here. What is refused here, pydantic would refuse as well.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from env_values import WrongValue

from .forms import FORMS

# Words of pydantic for a switch, beside the 1 and 0 of docs/settings.md.
SWITCH = frozenset(("0", "1", "off", "on", "f", "t", "false", "true", "n", "y", "no", "yes"))
BOUNDS = {"minimum": "from", "exclusiveMinimum": "above", "maximum": "to", "exclusiveMaximum": "below"}


def check(name: str, value: str, schema: Mapping[str, Any]) -> None:
    """Raises WrongValue, which hides a value that may hold a secret."""
    if expected := _not_met(value, schema):
        hidden = schema.get("writeOnly") or "@" in value
        raise WrongValue(name, "***" if hidden else value, expected)


def _not_met(value: str, schema: Mapping[str, Any]) -> str:
    """What was expected; "" for a value that can be used."""
    if "enum" in schema:
        return "" if value.strip().lower() in SWITCH else "1 or 0"
    if schema["type"] in ("integer", "number"):
        words = [f"{word} {schema[key]:,}" for key, word in BOUNDS.items() if key in schema]
        kind = "a whole number" if schema["type"] == "integer" else "a number"
        return "" if _is_number_within(value, schema) else " ".join([kind, *words])
    if "format" in schema:
        form = FORMS[schema["format"]]
        return "" if form.misfit(value) is None else form.expected
    if "pattern" in schema and not re.search(schema["pattern"], value):
        return f"one of {', '.join(schema['pattern'].strip('^()$').split('|'))}"
    return ""


def _is_number_within(value: str, schema: Mapping[str, Any]) -> bool:
    try:
        number = float(value)
    except ValueError:
        return False
    if schema["type"] == "integer" and not (math.isfinite(number) and number.is_integer()):
        return False
    return (
        number >= schema.get("minimum", -math.inf)
        and number <= schema.get("maximum", math.inf)
        and ("exclusiveMinimum" not in schema or number > schema["exclusiveMinimum"])
        and ("exclusiveMaximum" not in schema or number < schema["exclusiveMaximum"])
    )
