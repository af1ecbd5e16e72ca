# SPDX-License-Identifier: Apache-2.0
"""What all groups of settings have in common."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import ValidationInfo, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from declared_settings.forms import FORMS

REPOSITORY = Path(__file__).resolve().parents[3]


class SettingsGroup(BaseSettings):
    """Every field is ``PARSER_<NAME>`` in the environment, except those with an alias, which other services share.

    Sizes are in pixels, bytes or MiB as named; times in seconds. A text of a certain form names it:
    ``Field(json_schema_extra={"format": ...})``, one of declared_settings.forms.FORMS.
    """

    model_config = SettingsConfigDict(
        env_prefix="PARSER_", frozen=True, extra="ignore", populate_by_name=True, env_ignore_empty=True
    )

    @field_validator("*")
    @classmethod
    def _has_its_form(cls, value: Any, info: ValidationInfo) -> Any:
        field = cls.model_fields[str(info.field_name)]
        extra = field.json_schema_extra
        if not isinstance(extra, dict) or not value:
            return value
        form = FORMS[str(extra["format"])]
        if (misfit := form.misfit(str(value))) is not None:
            shown = repr(misfit) if field.repr else "the value"
            raise ValueError(f"{shown} cannot be used; expected {form.expected}")
        return value


def listed(text: str) -> tuple[str, ...]:
    return tuple(name.strip().lower() for name in text.split(",") if name.strip())
