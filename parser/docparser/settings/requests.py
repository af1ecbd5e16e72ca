# SPDX-License-Identifier: Apache-2.0
"""Settings of requests: who may ask, how much, and where traces go."""

from __future__ import annotations

from pathlib import Path

from pydantic import AliasChoices, Field

from docparser.settings.base import SettingsGroup, listed


class RequestSettings(SettingsGroup):
    """One client (an address, or a key where it is known) has at most half of what all have together."""

    trusted_proxies: str = Field(
        default="",
        json_schema_extra={"format": "networks"},
        description="Addresses or networks of proxies, like `127.0.0.1,10.2.0.0/16`, whose `X-Forwarded-For` says who "
        "the client is (docs/secure.md#tls-in-front). The parser ignores the header of others.",
    )
    max_connections: int = Field(
        default=1024,
        ge=2,
        description="Open connections; one client (an IPv4 address, an IPv6 /64) may have half of them. At the bound "
        "the parser closes the connection that has waited longest for its client to send. If none waits, a new "
        "connection gets 503. A client beyond its half gets 429.",
    )
    header_timeout_s: float = Field(
        default=15.0, gt=0, le=3600, description="Longest time for a request's head, and until a first byte comes."
    )
    keep_alive_s: float = Field(default=30.0, ge=0, le=3600, description="How long a connection waits for a request.")
    stall_timeout_s: float = Field(
        default=30.0, gt=0, le=3600, description="The time over which a body or an answer must move at the least rate."
    )
    least_rate: int = Field(
        default=1024, ge=1, description="Bytes a second that a client must send of a body, and take of an answer."
    )
    max_event_streams: int = Field(default=256, ge=1, description="Clients that follow a job's events; more get 429.")

    # Limits of a request.
    max_body_mib: int = Field(default=256, ge=1, description="Largest body of one request, in MiB; beyond it 413.")
    max_requests: int = Field(default=256, ge=1, description="Parsing requests at once; more get 429.")
    max_bodies_mib: int = Field(
        default=1024,
        ge=1,
        description="Bodies of all requests together, as they arrive, and what their JSON takes in memory; one client "
        "may have half.",
    )
    request_timeout_s: float = Field(
        default=3600.0, gt=0, description="Longest time for one request, and for its body to arrive."
    )
    max_pages: int = Field(default=2000, ge=1, le=100_000, description="A longer document is refused, never cut.")
    max_image_pixels: int = Field(
        default=100_000_000, ge=1, description="Larger images are refused before they are decoded."
    )
    pdf_scale: float = Field(
        default=2.0,
        gt=0,
        le=10,
        description="Pixels per PDF point; 2.0 is 144 dpi, as in PaddleX. Small pages and scans get more.",
    )
    max_pdf_objects: int = Field(
        default=200_000, ge=1, description="Objects on one PDF page; a page that has more is not rendered."
    )
    max_pdf_page_pixels: int = Field(
        default=40_000_000, ge=1, description="Larger PDF pages are rendered at a lower scale, to this many pixels."
    )

    @property
    def trusted_proxy_list(self) -> tuple[str, ...]:
        return listed(self.trusted_proxies)


class ClientSettings(SettingsGroup):
    published_address: str = Field(
        default="",
        description="Address at which clients reach this service, if it differs from PARSER_BIND (containers).",
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
        "quotas-and-the-audit-log). Keys are needed if PARSER_BIND or PUBLIC_URL is not loopback.",
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
        description="Web pages of other origins that may call the parser, comma-separated, like "
        "`https://app.example.org`; `*` any, with keys only. Others get 403 for every write.",
    )
    audit_log: str = Field(
        default="log",
        description="Where the audit log goes: `log` (lines of the service's log), `stdout`, `off`, or a file, in "
        "containers below `/var/lib/paddleocr-vl`.",
    )
    url_hosts: str = Field(
        default="",
        json_schema_extra={"format": "hosts"},
        description="Hosts from which the parser fetches a `file` that is a URL, like "
        "files.example.com,*.example.org:8443. Empty: none.",
    )
    url_timeout_s: float = Field(default=60.0, gt=0, description="Longest time for fetching a document by its URL.")

    @property
    def allowed_host_list(self) -> tuple[str, ...]:
        return listed(self.allowed_hosts)

    @property
    def allowed_origin_list(self) -> tuple[str, ...]:
        return listed(self.allowed_origins)


class TraceSettings(SettingsGroup):
    otlp_endpoint: str = Field(
        default="",
        json_schema_extra={"format": "collector"},
        validation_alias=AliasChoices("OTEL_EXPORTER_OTLP_ENDPOINT", "otlp_endpoint"),
        description="Where traces go (docs/traces.md): a collector's address for OTLP over HTTP, like "
        "`http://collector:4318`. Empty: there are none.",
    )
    otlp_headers: str = Field(
        default="",
        repr=False,
        validation_alias=AliasChoices("OTEL_EXPORTER_OTLP_HEADERS", "otlp_headers"),
        description="Headers for the collector, like `authorization=Bearer%20KEY`, comma-separated.",
    )
    otel_service_name: str = Field(
        default="paddleocr-vl",
        validation_alias=AliasChoices("OTEL_SERVICE_NAME", "otel_service_name"),
        description="The parser's name in traces; `-vlm` is added for the VLM server.",
    )
    traces_sampler_arg: float = Field(
        default=1.0,
        ge=0,
        le=1,
        validation_alias=AliasChoices("OTEL_TRACES_SAMPLER_ARG", "traces_sampler_arg"),
        description="Share of requests that are traced; a request with a `traceparent` decides itself.",
    )
