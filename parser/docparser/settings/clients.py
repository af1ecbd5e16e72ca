# SPDX-License-Identifier: Apache-2.0
"""Settings of who may ask: addresses, keys, names, and documents that are named by URL."""

from __future__ import annotations

import re
from pathlib import Path

from pydantic import Field, ValidationInfo, field_validator

from docparser.settings.base import SettingsGroup, listed


class ClientSettings(SettingsGroup):
    published_address: str = Field(
        default="", description="Address that clients reach this service at, where it is not PARSER_BIND (containers)."
    )
    auth: str = Field(default="keys", pattern="^(keys|off)$", description="off: no keys, at any address.")
    api_keys: str = Field(
        default="",
        repr=False,
        description="Comma-separated entries, sha256:<hex> and attributes (docs/api.md). `python -m docparser.api_keys "
        "make` makes a key, and keeps its entry in PARSER_DATA_DIR/api_keys, where it is found without this setting.",
    )
    api_keys_file: Path | None = Field(default=None, description="The same, one per line; changes count at once.")
    allowed_hosts: str = Field(
        default="",
        description="Names under which this service may be asked, like ocr.example.org,*.lan; `*`: any. Numeric "
        "addresses, this machine's names and PUBLIC_URL's always may.",
    )
    allowed_origins: str = Field(
        default="",
        description="Origins of web pages that may call this service, like https://app.example.org. Its own may.",
    )
    audit_log: str = Field(
        default="log", description="log: lines of the service's log; stdout; off; or the path of a file."
    )
    url_hosts: str = Field(
        default="",
        description="Hosts that `file` may be a URL of, like files.example.com,*.example.org:8443. Empty: none.",
    )
    url_timeout_s: float = Field(default=60.0, gt=0)

    @field_validator("allowed_hosts", "allowed_origins")
    @classmethod
    def _are_names(cls, names: str, info: ValidationInfo) -> str:
        host = r"(\*|(\*\.)?[A-Za-z0-9_]([A-Za-z0-9._-]*[A-Za-z0-9_])?|\[[0-9A-Fa-f:.]+\])"
        form, example = {
            "allowed_hosts": (host, "ocr.example.org without scheme or port"),
            "allowed_origins": (r"\*|https?://[^\s/,*]+", "https://app.example.org without a path"),
        }[str(info.field_name)]
        for name in listed(names):
            if not re.fullmatch(form, name):
                raise ValueError(f"{name!r} is no such name; expected names like {example}, comma-separated")
        return names

    @property
    def allowed_host_list(self) -> tuple[str, ...]:
        return listed(self.allowed_hosts)

    @property
    def allowed_origin_list(self) -> tuple[str, ...]:
        return listed(self.allowed_origins)
