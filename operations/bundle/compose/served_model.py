# SPDX-License-Identifier: Apache-2.0
"""Whether a second container of the VLM would serve the model that the first one serves."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import PurePath

from bundle.compose import project
from served_weights.errors import WeightsError
from served_weights.settings import WeightSettings
from served_weights.vlm import find_vlm
from tool_errors import UsageError

MODELS = PurePath("/models")  # MODELS_DIR inside the containers
ASK = "from health_probe import probe; print(probe('http://127.0.0.1:8000/v1/models', 10).detail)"


def check(service: str, python: str, values: Mapping[str, str]) -> None:
    """Raise UsageError where a new container would serve another model than `service` does: the parser asks for one by
    name, and its calls go to both. Where VLM_MODEL is unset, weights that were fetched since are newer.

    `python` runs inside the container, `values` are the settings of the new one.
    """
    answer = project.compose("exec", "-T", service, python, "-c", ASK)
    try:
        served = PurePath(json.loads(answer.stdout)["data"][0]["root"])
        settings = WeightSettings.from_environment({**values, "HARDWARE": values.get("HARDWARE") or "ascend"})
        wanted = find_vlm(settings).path.relative_to(settings.models_dir)
    except (ValueError, LookupError, TypeError, WeightsError):
        return  # one of them cannot be known here; preflight and the new container's start say why
    if served.is_relative_to(MODELS) and served.relative_to(MODELS) != wanted:
        raise UsageError(
            f"{service} serves {served.relative_to(MODELS)}, and with these settings a second container would serve "
            f"{wanted}, while the parser asks both for one model. Nothing was changed. Set "
            f"VLM_MODEL={served.relative_to(MODELS)} in .env for this upgrade; another model is a matter of docker "
            "compose up"
        )
