# SPDX-License-Identifier: Apache-2.0
"""What all groups of settings have in common."""

from __future__ import annotations

import ipaddress
from pathlib import Path

from pydantic_settings import BaseSettings, SettingsConfigDict

REPOSITORY = Path(__file__).resolve().parents[3]


class SettingsGroup(BaseSettings):
    """Every field is ``PARSER_<NAME>`` in the environment, except those with an alias, which other services share.

    Sizes are in pixels, bytes or MiB as named; times in seconds.
    """

    model_config = SettingsConfigDict(
        env_prefix="PARSER_", frozen=True, extra="ignore", populate_by_name=True, env_ignore_empty=True
    )


def listed(text: str) -> tuple[str, ...]:
    return tuple(name.strip().lower() for name in text.split(",") if name.strip())


def check_networks(networks: str) -> str:
    """``networks`` as it is. Raises ValueError for an entry that is neither an address nor a network."""
    for entry in listed(networks):
        try:
            ipaddress.ip_network(entry)
        except ValueError as exc:
            raise ValueError(f"{exc}; expected addresses and networks like 127.0.0.1,10.2.0.0/16") from None
    return networks
