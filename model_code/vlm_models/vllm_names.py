# SPDX-License-Identifier: Apache-2.0
"""What vLLM's versions, and the transformers that comes with each, call by different names: the only place that knows.

What: classes that moved, a method with two forms, and the place that says which inputs stay on the host.
Why: one plugin serves every stack (config/stacks), and the newest vLLM is tried beside them (tests/newest).
How: by asking for the thing itself, the newer name first; never by a version's number.
When it can go: each entry names the last stack that needs it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from transformers import BatchFeature
from vllm.multimodal.inputs import MultiModalFieldConfig
from vllm.multimodal.processing import BaseMultiModalProcessor

from .pixels import free

if TYPE_CHECKING:  # the newer names
    from vllm.multimodal.media import MEDIA_CONNECTOR_REGISTRY
    from vllm.multimodal.processing.dummy_inputs import BaseDummyInputsBuilder

    Qwen2VLImageProcessorFast: Any  # of two classes, by transformers' version
else:
    try:
        from vllm.multimodal.processing.dummy_inputs import BaseDummyInputsBuilder
    except ImportError:  # 0.11.1
        from vllm.multimodal.profiling import BaseDummyInputsBuilder
    try:
        from vllm.multimodal.media import MEDIA_CONNECTOR_REGISTRY
    except ImportError:  # 0.11.1
        from vllm.multimodal.utils import MEDIA_CONNECTOR_REGISTRY
    try:  # transformers 5: the slow one has a file of its own, and the old name of the fast one warns
        import transformers.models.qwen2_vl.image_processing_pil_qwen2_vl  # noqa: F401
        from transformers.models.qwen2_vl.image_processing_qwen2_vl import (
            Qwen2VLImageProcessor as Qwen2VLImageProcessorFast,
        )
    except ImportError:  # 0.11.1
        from transformers.models.qwen2_vl.image_processing_qwen2_vl_fast import Qwen2VLImageProcessorFast

__all__ = [
    "MEDIA_CONNECTOR_REGISTRY",
    "BaseDummyInputsBuilder",
    "MediaProcessor",
    "Qwen2VLImageProcessorFast",
    "batched_on_host",
    "keeps_on_host",
]

Model = TypeVar("Model", bound=type)
# 0.11.1 reads attributes of the model's class; later versions read an argument of the field and refuse the attributes.
BY_FIELD = "keep_on_cpu" in inspect.signature(MultiModalFieldConfig.batched).parameters
APPLIES = inspect.signature(BaseMultiModalProcessor.apply)
PROCESSES = inspect.signature(BaseMultiModalProcessor._call_hf_processor)


def batched_on_host(modality: str) -> MultiModalFieldConfig:
    """A field with one entry for each item, whose tensor the model gets on the CPU: the tower's sizes decide how it
    runs, and on a device each of them would be a synchronisation."""
    options: dict[str, Any] = {"keep_on_cpu": True} if BY_FIELD else {}
    return MultiModalFieldConfig.batched(modality, **options)


def keeps_on_host(*fields: str) -> Callable[[Model], Model]:
    """Class decorator: name such fields by attributes of the model, where the fields cannot say it themselves."""

    def decorate(model: Model) -> Model:
        if not BY_FIELD:
            setattr(model, "merge_by_field_config", True)  # noqa: B010  (later versions have no such attribute)
            setattr(model, "multimodal_cpu_fields", frozenset(fields))  # noqa: B010
        return model

    return decorate


class MediaProcessor:
    """Mixin for vLLM's multimodal processor: a request's images and videos become features, and vLLM expands the places
    in its prompt.

    To 0.23.0 vLLM hands over the prompt too and wants its tokens; later versions tokenise before.
    """

    info: Any

    def media_features(self, media: Mapping[str, Any], options: Mapping[str, Any]) -> Mapping[str, Any]:
        """Features by name of ``media`` ("images", "videos"; a modality without items may be missing). ``options`` are
        the request's `mm_processor_kwargs`. Raises ValueError."""
        raise NotImplementedError

    def apply(self, *words: Any, **named: Any) -> Any:
        """vLLM's, and behind it the pixels are freed: without a cache of inputs, prefix caching hashes them last."""
        asked = APPLIES.bind(self, *words, **named).arguments
        vllms: Any = super()  # the class that this one is mixed into
        made = vllms.apply(*words, **named)
        media = asked["inputs"].mm_data_items if "inputs" in asked else asked["mm_data"]  # 0.11.1
        # The server's requests have lists or vLLM's items, which have no __iter__. A program may give one image or none
        # to 0.11.1's `LLM`; it keeps its own pixels.
        for items in (media.get("image"), media.get("video")):
            for item in items if hasattr(items, "__getitem__") else ():
                free(item[0] if isinstance(item, tuple) else item)  # a clip has its facts beside it
        return made

    def _call_hf_processor(self, *words: Any, **named: Any) -> BatchFeature:
        asked = PROCESSES.bind(self, *words, **named).arguments
        names = ("mm_data", "mm_kwargs") if "prompt" in asked else ("hf_data", "hf_kwargs")
        media, options = (asked[name] for name in names)
        dtype = self.info.ctx.model_config.dtype
        # vLLM's own method casts too: processors make float32, which takes twice the room on the way to the tower.
        features = {
            name: one.to(dtype) if one.is_floating_point() else one
            for name, one in self.media_features(media, options).items()
        }
        if "prompt" not in asked:
            return BatchFeature(features)
        tokens = self.info.get_tokenizer()(asked["prompt"], return_tensors="pt", **asked["tok_kwargs"])
        return BatchFeature({**tokens, **features})

    # Asked to 0.23.0; later versions never expand places by transformers' processors.
    def _hf_processor_applies_updates(self, *_: Any, **__: Any) -> bool:
        return False
