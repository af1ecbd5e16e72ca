# SPDX-License-Identifier: Apache-2.0
"""Our entries in vLLM's model registry, inspected in the process that asks.

What: an entry whose class is imported, when first needed, by the process that wants to know about it.
Why: for a class given by name, vLLM starts a second Python process that imports all of vLLM to
    answer a dozen yes/no questions, so that CUDA is not initialised before a fork. Importing our class
    initialises no device, and the API server imports it at the first request anyway. It saves a third of the
    processor time of a start (15 s of 45 s on two cores).
How: by the registry's own types, which are private; where they are missing, by its public function.
When it can go: when vLLM caches the answers for models outside its tree.
"""

from __future__ import annotations

from typing import Any

from vllm import ModelRegistry


def is_known(architecture: str) -> bool:
    """Whether this vLLM has a model of its own for an architecture; newer ones run some by transformers' code."""
    return getattr(ModelRegistry.models.get(architecture), "class_name", None) == architecture


def register_model(architecture: str, target: str) -> None:
    """Register ``"module:Class"`` for an architecture, before vLLM's own class of that name."""
    module, name = target.split(":")
    if getattr(ModelRegistry.models.get(architecture), "module_name", None) == module:
        return
    try:
        entry = _in_process_entry(module, name)
    except (ImportError, AttributeError, TypeError):
        ModelRegistry.register_model(architecture, target)
    else:
        ModelRegistry.models[architecture] = entry


def _in_process_entry(module: str, name: str) -> Any:
    """An entry of a type that is private to vLLM."""
    from vllm.model_executor.models.registry import _LazyRegisteredModel, _ModelInfo

    describe = _ModelInfo.from_model_cls

    class InProcessModel(_LazyRegisteredModel):
        def inspect_model_cls(self) -> _ModelInfo:
            return describe(self.load_model_cls())

    return InProcessModel(module, name)
