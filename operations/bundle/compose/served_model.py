# SPDX-License-Identifier: Apache-2.0
"""Whether a second container of the VLM would serve the model that the first one serves."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import PurePath

from bundle.compose import project
from bundle.compose.images import hardware
from bundle.compose.mounted import MODELS, on_host
from selftest.check import KEY_FILE
from served_weights.settings import WeightSettings
from served_weights.vlm import find_vlm
from tool_errors import UsageError

KEY = PurePath(project.REPLICAS).with_name(KEY_FILE)
ASK = f"""
from pathlib import Path
from urllib.request import Request
from health_probe import OPENER
key = Path("{KEY}")
headers = {{"Authorization": "Bearer " + key.read_text()}} if key.exists() else {{}}
with OPENER.open(Request("http://127.0.0.1:8000/v1/models", headers=headers), timeout=10) as answer:
    print(answer.read().decode())
"""


def served(service: str) -> str:
    """What VLM_MODEL must be for the model that `service` serves; "" where it does not answer, or serves another
    folder."""
    answer = project.compose("exec", "-T", service, project.PYTHON, "-c", ASK)
    try:
        root = PurePath(json.loads(answer.stdout)["data"][0]["root"])
    except (ValueError, LookupError, TypeError):
        return ""
    return str(root.relative_to(MODELS)) if root.is_relative_to(MODELS) else ""


def check(service: str, values: Mapping[str, str]) -> None:
    """Raise UsageError where a new container, of the settings `values`, would serve another model than `service` does:
    the parser asks for one by name, and its calls go to both. Where VLM_MODEL is unset, weights that were fetched since
    are newer."""
    now = served(service)
    try:
        settings = WeightSettings.from_environment({**on_host(values), "HARDWARE": hardware(values)})
        wanted = str(find_vlm(settings).path.relative_to(settings.models_dir))
    except (ValueError, UsageError):
        return  # it cannot be known here; preflight and the new container's start say why
    if now and now != wanted:
        raise UsageError(
            f"{service} serves {now}, and with these settings a new container would serve {wanted}, but the parser "
            f"asks for one model. Nothing was changed. Set VLM_MODEL={now} in .env for this upgrade. To change the "
            "model, run docker compose up"
        )
