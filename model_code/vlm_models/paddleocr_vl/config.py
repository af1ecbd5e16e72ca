# SPDX-License-Identifier: Apache-2.0
"""Configuration of PaddleOCR-VL as transformers < 5 and vLLM want it.

Two spellings of ``config.json`` are read: the published one, where the language model's keys lie at
the top level beside ``vision_config``, and the one that transformers >= 5 saves, with a
``text_config``. Defaults are the published values.
"""

from __future__ import annotations

from typing import Any

from transformers import AutoConfig, AutoImageProcessor, AutoProcessor, PretrainedConfig


class PaddleOCRVLVisionConfig(PretrainedConfig):
    """Vision tower: a SigLIP-so400m encoder over 14-px patches, with 2-D rotary embedding added."""

    model_type = "paddleocr_vl_vision"
    base_config_key = "vision_config"

    def __init__(
        self,
        hidden_size: int = 1152,
        intermediate_size: int = 4304,
        num_hidden_layers: int = 27,
        num_attention_heads: int = 16,
        num_channels: int = 3,
        image_size: int = 384,
        patch_size: int = 14,
        hidden_act: str = "gelu_pytorch_tanh",
        layer_norm_eps: float = 1e-6,
        spatial_merge_size: int = 2,
        rope_theta: float = 10000.0,
        **kwargs: Any,
    ) -> None:
        self.hidden_size = hidden_size
        self.intermediate_size = intermediate_size
        self.num_hidden_layers = num_hidden_layers
        self.num_attention_heads = num_attention_heads
        self.num_channels = num_channels
        self.image_size = image_size
        self.patch_size = patch_size
        self.hidden_act = hidden_act
        self.layer_norm_eps = layer_norm_eps
        self.spatial_merge_size = spatial_merge_size
        # transformers >= 5 writes {"rope_parameters": {"rope_theta": ...}}.
        self.rope_theta = (kwargs.pop("rope_parameters", None) or {}).get("rope_theta", rope_theta)
        super().__init__(**kwargs)
        require_multiple("vision_config.hidden_size", hidden_size, 4 * num_attention_heads)
        if hidden_act != "gelu_pytorch_tanh":
            raise ValueError(f"vision_config.hidden_act: {hidden_act!r} is not known; 'gelu_pytorch_tanh' is expected")


class PaddleOCRVLTextConfig(PretrainedConfig):
    """Language model: ERNIE-4.5-0.3B, dense, grouped-query attention, multimodal rotary embedding."""

    model_type = "paddleocr_vl_text"
    base_config_key = "text_config"
    # transformers >= 5 would warn of it thirty times while a server starts.
    ignore_keys_at_rope_validation = {"mrope_section"}

    def __init__(
        self,
        vocab_size: int = 103424,
        hidden_size: int = 1024,
        intermediate_size: int = 3072,
        num_hidden_layers: int = 18,
        num_attention_heads: int = 16,
        num_key_value_heads: int | None = 2,
        head_dim: int | None = 128,
        hidden_act: str = "silu",
        max_position_embeddings: int = 131072,
        rms_norm_eps: float = 1e-5,
        rope_theta: float = 500000.0,
        rope_scaling: dict[str, Any] | None = None,
        use_bias: bool = False,
        pad_token_id: int = 0,
        bos_token_id: int = 1,
        eos_token_id: int | list[int] = 2,
        tie_word_embeddings: bool = True,
        **kwargs: Any,
    ) -> None:
        self.vocab_size = vocab_size
        self.hidden_size = hidden_size
        self.intermediate_size = intermediate_size
        self.num_hidden_layers = num_hidden_layers
        self.num_attention_heads = num_attention_heads
        self.num_key_value_heads = num_key_value_heads or num_attention_heads
        self.head_dim = head_dim or hidden_size // num_attention_heads
        self.hidden_act = hidden_act
        self.max_position_embeddings = max_position_embeddings
        self.rms_norm_eps = rms_norm_eps
        if use_bias:
            raise ValueError("use_bias: True is not supported, PaddleOCR-VL has no biases in its language model")
        self.use_bias = use_bias
        rope = dict(kwargs.pop("rope_parameters", None) or {})
        self.rope_theta = rope.pop("rope_theta", rope_theta)
        self.rope_scaling = mrope_scaling({**rope, **(rope_scaling or {})}, self.head_dim)
        kwargs |= {"pad_token_id": pad_token_id, "bos_token_id": bos_token_id, "eos_token_id": eos_token_id}
        kwargs |= {"tie_word_embeddings": tie_word_embeddings}
        super().__init__(**kwargs)


class PaddleOCRVLConfig(PretrainedConfig):
    """The whole model; see the two parts for their keys.

    Token ids: ``image_token_id`` fills an image's places in the prompt, ``vision_start_token_id`` and
    ``vision_end_token_id`` stand around them.
    """

    model_type = "paddleocr_vl"
    sub_configs = {"vision_config": PaddleOCRVLVisionConfig, "text_config": PaddleOCRVLTextConfig}
    keys_to_ignore_at_inference = ["past_key_values"]

    def __init__(
        self,
        text_config: dict[str, Any] | PaddleOCRVLTextConfig | None = None,
        vision_config: dict[str, Any] | PaddleOCRVLVisionConfig | None = None,
        image_token_id: int = 100295,
        video_token_id: int = 100296,
        vision_start_token_id: int = 101305,
        vision_end_token_id: int = 101306,
        **kwargs: Any,
    ) -> None:
        if text_config is None:
            # The published spelling. Keys that PretrainedConfig knows (ids, tying) are shared by both levels.
            shared = ("pad_token_id", "bos_token_id", "eos_token_id", "tie_word_embeddings")
            text_config = {key: kwargs[key] for key in shared if key in kwargs}
            text_config.update({key: kwargs.pop(key) for key in TEXT_KEYS if key in kwargs})
        if isinstance(text_config, dict):
            text_config = PaddleOCRVLTextConfig(**_without_type(text_config))
        if vision_config is None or isinstance(vision_config, dict):
            vision_config = PaddleOCRVLVisionConfig(**_without_type(vision_config or {}))
        self.text_config = text_config
        self.vision_config = vision_config
        self.image_token_id = image_token_id
        self.video_token_id = video_token_id
        self.vision_start_token_id = vision_start_token_id
        self.vision_end_token_id = vision_end_token_id
        kwargs["tie_word_embeddings"] = text_config.tie_word_embeddings
        for key in ("pad_token_id", "bos_token_id", "eos_token_id"):
            kwargs[key] = getattr(text_config, key)
        super().__init__(**kwargs)


# Keys of the language model in the published, flat config.json.
TEXT_KEYS = frozenset(
    (
        "vocab_size hidden_size intermediate_size num_hidden_layers num_attention_heads num_key_value_heads head_dim "
        "hidden_act max_position_embeddings rms_norm_eps rope_theta rope_scaling rope_parameters use_bias"
    ).split()
)


def _without_type(section: dict[str, Any]) -> dict[str, Any]:
    # Early checkpoints carry the whole model's type in their sections.
    return {key: value for key, value in section.items() if key != "model_type"}


def mrope_scaling(rope: dict[str, Any], head_dim: int) -> dict[str, Any]:
    """``rope_scaling`` for vLLM's multimodal rotary embedding: section sizes over half a head, in pairs."""
    section = list(rope.get("mrope_section") or (16, 24, 24))
    if sum(section) * 2 != head_dim or len(section) != 3:
        raise ValueError(
            f"rope_scaling.mrope_section: {section} does not fit head_dim {head_dim}; "
            f"three sizes that add up to {head_dim // 2} are expected"
        )
    return {"rope_type": "default", "mrope_section": section}


def require_multiple(key: str, value: int, factor: int) -> None:
    """Raise ValueError unless ``value`` is a multiple of ``factor``."""
    if value % factor:
        raise ValueError(f"{key}: {value} is not a multiple of {factor}")


def register_config() -> None:
    """Make transformers' Auto classes know PaddleOCR-VL, so that no remote code is asked for.

    A class registered for a model type goes before the checkpoint's ``auto_map`` as long as remote code
    is not trusted.
    """
    from .image_processing import PaddleOCRVLImageProcessor
    from .processing import PaddleOCRVLProcessor

    AutoConfig.register(PaddleOCRVLConfig.model_type, PaddleOCRVLConfig, exist_ok=True)
    AutoImageProcessor.register(PaddleOCRVLConfig, slow_image_processor_class=PaddleOCRVLImageProcessor, exist_ok=True)
    AutoProcessor.register(PaddleOCRVLConfig, PaddleOCRVLProcessor, exist_ok=True)
