# SPDX-License-Identifier: Apache-2.0
"""Loading of parameters that hold several of the checkpoint's tensors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from torch import Tensor, nn
from vllm.model_executor.model_loader.weight_utils import default_weight_loader


def load_stacked(
    module: nn.Module, weights: Iterable[tuple[str, Tensor]], stacked: Mapping[str, Mapping[str, str]]
) -> set[str]:
    """Load named tensors into ``module``; the parts of a stacked parameter go to their shards.

    Args:
        stacked: name of a submodule here -> {its part's name in the checkpoint: shard}.

    Returns:
        Names of the parameters that were loaded.

    Raises:
        KeyError: for a tensor that has no place.
    """
    parts = {part: (whole, shard) for whole, shards in stacked.items() for part, shard in shards.items()}
    parameters = dict(module.named_parameters())
    loaded = set()
    for name, weight in weights:
        path, owner, kind = (["", ""] + name.rsplit(".", 2))[-3:]
        whole, shard = parts.get(owner, (owner, None))
        target = ".".join(filter(None, (path, whole, kind)))
        if target not in parameters:
            raise KeyError(f"{name}: the checkpoint holds a tensor that PaddleOCR-VL does not have")
        parameter = parameters[target]
        load = getattr(parameter, "weight_loader", default_weight_loader)
        load(parameter, weight, *(() if shard is None else (shard,)))
        loaded.add(target)
    return loaded
