# SPDX-License-Identifier: Apache-2.0
"""Settings of who may ask: addresses, keys, names, and documents that are named by URL."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from docparser.settings.base import SettingsGroup, listed


class ClientSettings(SettingsGroup):
    published_address: str = Field(
        default="", description="Address that clients reach this service at, where it is not PARSER_BIND (containers)."
    )
    auth: str = Field(
        default="keys",
        pattern="^(keys|off)$",
        description="`off`: no keys at any address, for a proxy that checks them.",
    )
    api_keys: str = Field(
        default="",
        repr=False,
        description="Entries of keys, comma-separated; a command keeps them in a file instead (docs/secure.md#keys-"
        "quotas-and-the-audit-log). Keys are needed if PARSER_BIND is not loopback.",
    )
    api_keys_file: Path | None = Field(default=None, description="The same, one per line; changes count at once.")
    allowed_hosts: str = Field(
        default="",
        json_schema_extra={"format": "host names"},
        description="Names under which clients reach the parser, comma-separated; `*.example.org` means all names "
        "below it, `*` any. Numeric addresses, `localhost`, the service's name in compose and the name in "
        "PUBLIC_URL always work; other names get 421.",
    )
    allowed_origins: str = Field(
        default="",
        json_schema_extra={"format": "origins"},
        description="Web pages of other origins that may call the parser, like `https://app.example.org`; others get "
        "403 for every write.",
    )
    audit_log: str = Field(
        default="log",
        description="Where the audit log goes: `log` (lines of the service's log), `stdout`, `off`, or a file, in "
        "containers below `/var/lib/paddleocr-vl`.",
    )
    url_hosts: str = Field(
        default="",
        description="Hosts that `file` may be a URL of, like files.example.com,*.example.org:8443. Empty: none.",
    )
    url_timeout_s: float = Field(
        default=60.0, gt=0, description="Longest time for fetching a document that `file` is the URL of."
    )

    @property
    def allowed_host_list(self) -> tuple[str, ...]:
        return listed(self.allowed_hosts)

    @property
    def allowed_origin_list(self) -> tuple[str, ...]:
        return listed(self.allowed_origins)
