# SPDX-License-Identifier: Apache-2.0
"""The service's settings. The app factory reads them from the environment once and passes them on."""

from __future__ import annotations

from pydantic import AliasChoices, Field, ValidationError

from docparser.settings.base import REPOSITORY
from docparser.settings.jobs import CallbackSettings, JobSettings
from docparser.settings.models import ModelSettings
from docparser.settings.pages import PageSettings
from docparser.settings.requests import ClientSettings, RequestSettings, TraceSettings

__all__ = ["REPOSITORY", "Settings", "variable", "wrong"]


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


def wrong(exc: ValidationError) -> list[str]:
    """What is wrong with the settings, a sentence for each."""
    # A default that is derived from a wrong setting would be reported a second time.
    errors = (error for error in exc.errors() if error["type"] != "default_factory_not_called")
    fields = ((str(error["loc"][0]), error) for error in errors)
    return [f"{variable(field)}: {error['msg']}; {_shown(field, error['input'])}" for field, error in fields]


def _shown(field: str, value: object) -> str:
    """The value of a wrong setting, unless a secret may be in it: in a field for secrets, or in an address with one."""
    info = Settings.model_fields.get(field)
    if (info is not None and not info.repr) or "@" in str(value):
        return "its value is not shown, for it may hold a secret; write @ and / in a password as %40 and %2F"
    return f"got {value!r}"
