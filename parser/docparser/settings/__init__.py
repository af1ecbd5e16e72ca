# SPDX-License-Identifier: Apache-2.0
"""The service's settings. The app factory reads them from the environment once and passes them on."""

from __future__ import annotations

from pydantic import AliasChoices, Field

from docparser.settings.base import REPOSITORY
from docparser.settings.jobs import CallbackSettings, JobSettings
from docparser.settings.models import ModelSettings
from docparser.settings.pages import PageSettings, cores
from docparser.settings.requests import ClientSettings, RequestSettings, TraceSettings

__all__ = ["REPOSITORY", "Settings", "cores", "variable"]


class Settings(
    JobSettings, CallbackSettings, RequestSettings, ClientSettings, PageSettings, ModelSettings, TraceSettings
):
    """All of them; the groups describe each."""

    bind: str = Field(default="127.0.0.1", description="Address to listen on.")
    port: int = Field(default=8080, ge=1, le=65535, description="Port to listen on.")
    log_level: str = Field(
        default="info", pattern="^(critical|error|warning|info|debug)$", description="How much the service's log says."
    )
    log_format: str = Field(
        default="json", pattern="^(json|text)$", description="json: one object a line; text: for reading."
    )


def variable(field: str) -> str:
    """The environment variable that sets ``field``; the name of a variable is returned unchanged."""
    info = Settings.model_fields.get(field)
    if info is None:
        return field
    alias = info.validation_alias
    return str(alias.choices[0]) if isinstance(alias, AliasChoices) else f"PARSER_{field.upper()}"
