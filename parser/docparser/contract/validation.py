# SPDX-License-Identifier: Apache-2.0
"""What is wrong with a request, in words: pydantic's errors with the field, the reason and the value."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

MAX_PART = 80  # characters of a field's name, which a client may have made up
MAX_ERRORS = 5  # of one request; more would hide the first
# What pydantic puts into a location for each alternative of a union type.
UNION_TAG = re.compile(r"(constrained-|function-|dict\[|list\[|tuple\[|literal\[)")


def describe_errors(errors: Sequence[Mapping[str, Any]]) -> str:
    return "; ".join(describe_error(error) for error in errors[:MAX_ERRORS])


def describe_error(error: Mapping[str, Any]) -> str:
    """One line from one of pydantic's errors: where, what, and the value if it is short."""
    if error["type"] == "json_invalid":
        place = f" at character {error['loc'][-1]}" if error["loc"][-1] else ""
        return f"body: not valid JSON ({error.get('ctx', {}).get('error', error['msg'])}{place})"
    parts = [str(part)[:MAX_PART] for part in error["loc"] if part != "body" and not UNION_TAG.match(str(part))]
    where = ".".join(parts) or "body"
    message = error["msg"].removeprefix("Value error, ")
    value = error.get("input")
    if error["type"] == "missing" or isinstance(value, (dict, list)):
        return f"{where}: {message}"
    shown = repr(value)
    return f"{where}: {message}; got {shown if len(shown) <= 80 else shown[:77] + '...'}"
