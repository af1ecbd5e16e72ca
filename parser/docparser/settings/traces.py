# SPDX-License-Identifier: Apache-2.0
"""Settings of traces, by OpenTelemetry's own names. The launcher of the VLM server reads them too."""

from __future__ import annotations

from pydantic import AliasChoices, Field

from docparser.settings.base import SettingsGroup


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
        description="What the parser is called in traces; the VLM server has `-vlm` behind it.",
    )
    traces_sampler_arg: float = Field(
        default=1.0,
        ge=0,
        le=1,
        validation_alias=AliasChoices("OTEL_TRACES_SAMPLER_ARG", "traces_sampler_arg"),
        description="Share of requests that are traced; a request with a `traceparent` says it itself.",
    )
