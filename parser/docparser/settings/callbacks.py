# SPDX-License-Identifier: Apache-2.0
"""Settings of callbacks: requests that tell a client's own service that its job has ended."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from docparser.settings.base import SettingsGroup


class CallbackSettings(SettingsGroup):
    callback_hosts: str = Field(
        default="",
        json_schema_extra={"format": "hosts"},
        description="Hosts that jobs may send callbacks to (docs/api.md#callbacks), like "
        "`hooks.example.com,*.example.org:8443`. Empty: none.",
    )
    callback_networks: str = Field(
        default="",
        json_schema_extra={"format": "networks"},
        description="Networks, not public ones, that those hosts may resolve to, like `10.2.0.0/16`. Empty: none.",
    )
    callback_secrets: str = Field(
        default="",
        repr=False,
        description="What signs callbacks: `whsec_<base64 of 24 to 64 bytes>`, comma-separated; `echo "
        '"whsec_$(openssl rand -base64 32)"` makes one. Each signs every callback; while one takes the '
        "place of another, both are here. Needed with PARSER_CALLBACK_HOSTS.",
    )
    callback_secrets_file: Path | None = Field(
        default=None,
        description="The same in a file, in containers below `/var/lib/paddleocr-vl`, one per line; changes count "
        "without a restart.",
    )
    callback_timeout_s: float = Field(default=10.0, gt=0, le=300, description="Longest wait for a receiver's answer.")
    callback_pause_s: float = Field(
        default=5.0,
        gt=0,
        description="Pause before the second attempt; each further one is twice as long, 1 h at most.",
    )
    callback_hours: float = Field(default=24.0, gt=0, description="How long a callback that fails is sent again.")
