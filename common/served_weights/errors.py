# SPDX-License-Identifier: Apache-2.0
"""What is wrong with weights."""

from __future__ import annotations

from tool_errors import UsageError


class WeightsError(UsageError):
    """The weights are missing, incomplete, or not the ones that their manifest lists."""
