# SPDX-License-Identifier: Apache-2.0
"""The error that only the scripts know; all others are in ``common/tool_errors.py``."""

from __future__ import annotations

from tool_errors import FAILED, ToolError


class ParseError(ToolError):
    """The services run, yet a page could not be parsed."""

    exit_status = FAILED
