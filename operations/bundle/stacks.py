# SPDX-License-Identifier: Apache-2.0
"""The stacks of config/stacks: which environment the VLM server of one runs in."""

from __future__ import annotations

import re
from collections.abc import Mapping

import declared_settings
from bundle.paths import CONFIG
from tool_errors import UsageError


def vlm_environment(values: Mapping[str, str], hardware: str) -> str:
    """The environment of the VLM server of the STACK in ``values``, on `cpu`, else on Ascend, whose products share one.

    Raises WrongValue for a STACK that there is not, UsageError where a stack has no server for this hardware.
    """
    stack = declared_settings.choice(values, "STACK")
    service = "vlm-cpu" if hardware == "cpu" else "vlm-a3"
    text = (CONFIG / "stacks" / f"{stack}.yaml").read_text().partition(f"\n  {service}:\n")[2]
    found = re.search(r"^ +VLM_ENVIRONMENT: (\S+)$", text, re.MULTILINE)
    if not found:
        raise UsageError(f"STACK is {stack!r}: config/stacks/{stack}.yaml has no VLM_ENVIRONMENT of {service}")
    return found[1]
