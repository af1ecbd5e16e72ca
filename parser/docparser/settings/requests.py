# SPDX-License-Identifier: Apache-2.0
"""Settings of connections, and limits of a request."""

from __future__ import annotations

from pydantic import Field

from docparser.settings.base import SettingsGroup, listed


class RequestSettings(SettingsGroup):
    """One client (an address, or a key where it is known) has at most half of what all have together."""

    trusted_proxies: str = Field(
        default="",
        json_schema_extra={"format": "networks"},
        description="Addresses or networks of proxies, like `127.0.0.1,10.2.0.0/16`, whose `X-Forwarded-For` says who "
        "the client is (docs/secure.md#tls-in-front). Others' counts for nothing.",
    )
    max_connections: int = Field(
        default=1024,
        ge=2,
        description="Open connections; one client (an IPv4 address, an IPv6 /64) may have half of them. At the bound "
        "the one that has waited longest for its client ends; if none waits, more get 503. One client's half: 429.",
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
    max_requests: int = Field(
        default=256, ge=1, description="Parsing requests at once; more are told to come back (429)."
    )
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
