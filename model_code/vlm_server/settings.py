# SPDX-License-Identifier: Apache-2.0
"""The launcher's settings, read from the environment once and passed on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from vlm_models.settings import VisionSettings

from .errors import SettingError

REPOSITORY = Path(__file__).resolve().parents[2]
HARDWARE = ("cpu", "ascend")


@dataclass(frozen=True)
class Settings:
    """Where the weights are, which model is wanted, on what, and where to listen.

    `vlm_model` is None where VLM_MODEL is unset or empty: the default model, or on CPU its demo weights.
    """

    models_dir: Path
    models_config: Path
    vlm_model: str | None
    hardware: str
    host: str
    port: int
    state_dir: Path | None = None
    enforce_eager: bool = False
    memory_utilization: float | None = None

    @classmethod
    def from_environment(cls, env: Mapping[str, str]) -> Settings:
        """Read MODELS_DIR, MODELS_CONFIG, VLM_MODEL, HARDWARE, VLM_HOST, VLM_PORT, STATE_DIR, VLM_ENFORCE_EAGER and
        VLM_MEMORY_UTILIZATION, and check those of the vision tower; empty means unset.

        Raises SettingError naming the variable, its value and what was expected.
        """
        hardware = env.get("HARDWARE") or "ascend"
        if hardware not in HARDWARE:
            raise SettingError(f"HARDWARE is {hardware!r}; expected one of {', '.join(HARDWARE)}")
        port = env.get("VLM_PORT") or "8000"
        if not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
            raise SettingError(f"VLM_PORT is {port!r}; expected a port number from 1 to 65535")
        eager = env.get("VLM_ENFORCE_EAGER") or "0"
        if eager not in ("0", "1"):
            raise SettingError(f"VLM_ENFORCE_EAGER is {eager!r}; expected 1 (no graph mode) or 0")
        try:
            utilization = float(env["VLM_MEMORY_UTILIZATION"]) if env.get("VLM_MEMORY_UTILIZATION") else None
        except ValueError:
            utilization = 0.0
        if utilization is not None and not 0 < utilization < 1:
            raise SettingError(f"VLM_MEMORY_UTILIZATION is {env['VLM_MEMORY_UTILIZATION']!r}; expected a share of a die's memory, "
                               "like 0.8: what it leaves is what the vision tower works in")
        if utilization is not None and hardware == "cpu":
            raise SettingError("VLM_MEMORY_UTILIZATION is set, but HARDWARE is cpu, where VLLM_CPU_KVCACHE_SPACE says how much "
                               "memory is taken; leave it empty")
        try:
            # Read by the model itself; here a mistake is said before anything is loaded.
            VisionSettings.from_environment(env)
        except ValueError as error:
            raise SettingError(str(error)) from error
        return cls(
            # Relative folders count from the repository, as compose counts them, not from where one happens to stand.
            models_dir=(REPOSITORY / (env.get("MODELS_DIR") or "models")).resolve(),
            models_config=(REPOSITORY / (env.get("MODELS_CONFIG") or "config/models.yaml")).resolve(),
            vlm_model=env.get("VLM_MODEL") or None,
            hardware=hardware,
            host=env.get("VLM_HOST") or "127.0.0.1",
            port=int(port),
            enforce_eager=eager == "1",
            memory_utilization=utilization,
            state_dir=Path(env["STATE_DIR"]) if env.get("STATE_DIR") else None,
        )
