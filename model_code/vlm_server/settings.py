# SPDX-License-Identifier: Apache-2.0
"""The launcher's settings, read from the environment once and passed on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import atlas
import declared_settings
from declared_settings import vlm_args
from served_weights.settings import WeightSettings
from tool_errors import UsageError

# VLM_GRAPH_MODE -> vLLM's CUDAGraphMode, which vllm-ascend takes for its own graphs.
GRAPH_MODES = {
    "none": "NONE",
    "piecewise": "PIECEWISE",
    "full": "FULL",
    "full_decode_only": "FULL_DECODE_ONLY",
    "full_and_piecewise": "FULL_AND_PIECEWISE",
}


@dataclass(frozen=True)
class Settings:
    """`weights` says which model is wanted, from where and on what; `host` and `port` say where to listen.

    `product` is what the image was built for, None on CPU; `graph_mode` is a value of GRAPH_MODES, None for the stack's
    own choice; `precision` is one of VLM_PRECISION, on Ascend "auto"; `arguments` are further words for `vllm serve`;
    `replicas_per_die` is how many servers share a die's memory, and `layout_share` the part of it that the layout
    server beside them may take; `traces_to` is the collector's address for traces, empty without one; `logs` is CANN's
    folder for this replica's logs, None where nobody names one.
    """

    weights: WeightSettings
    host: str
    port: int
    product: atlas.Product | None = None
    state_dir: Path | None = None
    enforce_eager: bool = False
    memory_utilization: float | None = None
    graph_mode: str | None = None
    precision: str = "auto"
    replicas_per_die: int = 1
    layout_share: float = 0.0
    arguments: tuple[str, ...] = ()
    traces_to: str = ""
    logs: Path | None = None

    @classmethod
    def from_environment(cls, env: Mapping[str, str]) -> Settings:
        """Read what WeightSettings reads, SOC_VERSION (the image's), VLM_HOST, VLM_PORT, STATE_DIR, VLM_ENFORCE_EAGER,
        VLM_MEMORY_UTILIZATION, VLM_GRAPH_MODE, VLM_PRECISION, VLM_REPLICAS_PER_DIE, OTEL_EXPORTER_OTLP_ENDPOINT,
        ASCEND_PROCESS_LOG_PATH, VLM_ARGS and what `layout_share` reads; empty means unset. `refuse_mistakes` checks
        each value by itself.

        Raises UsageError naming the variable, its value and what was expected.
        """
        weights = WeightSettings.from_environment(env)
        eager = declared_settings.flag(env, "VLM_ENFORCE_EAGER")
        share = declared_settings.text(env, "VLM_MEMORY_UTILIZATION")
        if share and weights.hardware == "cpu":
            raise UsageError(
                "VLM_MEMORY_UTILIZATION is set, but HARDWARE is cpu; leave it empty. On a CPU the cache follows from "
                "the memory (in containers VLM_MEM_LIMIT)"
            )
        graph_mode = declared_settings.choice(env, "VLM_GRAPH_MODE")
        if graph_mode and weights.hardware == "cpu":
            raise UsageError("VLM_GRAPH_MODE is set, but HARDWARE is cpu, which has no graphs; leave it empty")
        product = atlas.of_soc(env.get("SOC_VERSION") or atlas.DEFAULT.soc) if weights.hardware == "ascend" else None
        precision = declared_settings.choice(env, "VLM_PRECISION")
        if precision != "auto" and product:
            raise UsageError(
                f"VLM_PRECISION is {precision!r}, but HARDWARE is {weights.hardware}, which computes in "
                f"{product.dtype}; leave it empty"
            )
        if graph_mode not in ("", "none") and eager:
            raise UsageError(f"VLM_GRAPH_MODE is {graph_mode!r}, but VLM_ENFORCE_EAGER is 1; leave one of them empty")
        arguments = vlm_args.words(env, on_dies=product is not None)
        collector = env.get("OTEL_EXPORTER_OTLP_ENDPOINT") or ""
        return cls(
            weights=weights,
            host=declared_settings.text(env, "VLM_HOST"),
            port=declared_settings.port(env, "VLM_PORT"),
            product=product,
            enforce_eager=eager,
            memory_utilization=float(share) if share else None,
            graph_mode=GRAPH_MODES[graph_mode] if graph_mode else None,
            precision=precision,
            replicas_per_die=declared_settings.whole(env, "VLM_REPLICAS_PER_DIE"),
            layout_share=layout_share(env),
            arguments=arguments,
            traces_to=f"{collector.rstrip('/')}/v1/traces" if collector else "",
            logs=Path(env["ASCEND_PROCESS_LOG_PATH"]) if product and env.get("ASCEND_PROCESS_LOG_PATH") else None,
            state_dir=Path(env["STATE_DIR"]) if env.get("STATE_DIR") else None,
        )


def layout_share(env: Mapping[str, str]) -> float:
    """LAYOUT_MEMORY_SHARE where the layout server runs on a die that replicas use, else 0. In a container VLM_REPLICAS
    counts all replicas. Raises WrongValue."""
    kind, _, number = declared_settings.text(env, "LAYOUT_DEVICE").partition(":")
    if not declared_settings.flag(env, "LAYOUT_SERVER") or kind == "cpu":
        return 0.0
    used = declared_settings.whole(env, "VLM_REPLICAS") // declared_settings.whole(env, "VLM_REPLICAS_PER_DIE")
    if env.get("VLM_REPLICAS") and int(number or 0) >= max(1, used):
        return 0.0
    return declared_settings.number(env, "LAYOUT_MEMORY_SHARE")
