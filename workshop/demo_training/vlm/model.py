# SPDX-License-Identifier: Apache-2.0
"""PaddleOCR-VL for training: one batch holds crops of one grid, so nothing is padded but text.

Module names follow the published checkpoint (``visual.vision_model...``, ``mlp_AR...``,
``model...``), so ``state_dict()`` is the checkpoint. Equality with transformers'
``PaddleOCRVLForConditionalGeneration`` is tested in ``tests/workshop/demo_training``.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .config import DemoConfig


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary embedding, half-split form: x * cos + rotate_half(x) * sin; last dim is the head's."""
    half = x.shape[-1] // 2
    return x * cos + torch.cat((-x[..., half:], x[..., :half]), -1) * sin


class VisionAttention(nn.Module):
    def __init__(self, c: DemoConfig):
        super().__init__()
        self.heads = c.vision_heads
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (
            nn.Linear(c.vision_hidden, c.vision_hidden) for _ in range(4)
        )

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        b, n, d = x.shape
        q, k, v = (p(x).view(b, n, self.heads, -1).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj))
        out = F.scaled_dot_product_attention(rotate(q, cos, sin), rotate(k, cos, sin), v)
        return self.out_proj(out.transpose(1, 2).reshape(b, n, d))


class VisionMLP(nn.Module):
    def __init__(self, c: DemoConfig):
        super().__init__()
        self.fc1 = nn.Linear(c.vision_hidden, c.vision_intermediate)
        self.fc2 = nn.Linear(c.vision_intermediate, c.vision_hidden)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc2(F.gelu(self.fc1(x), approximate="tanh"))


class VisionLayer(nn.Module):
    def __init__(self, c: DemoConfig):
        super().__init__()
        self.layer_norm1 = nn.LayerNorm(c.vision_hidden, eps=1e-6)
        self.self_attn = VisionAttention(c)
        self.layer_norm2 = nn.LayerNorm(c.vision_hidden, eps=1e-6)
        self.mlp = VisionMLP(c)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        x = x + self.self_attn(self.layer_norm1(x), cos, sin)
        return x + self.mlp(self.layer_norm2(x))


class VisionEmbeddings(nn.Module):
    def __init__(self, c: DemoConfig):
        super().__init__()
        self.side = c.positions_per_side
        self.patch_embedding = nn.Conv2d(3, c.vision_hidden, c.patch, c.patch)
        self.position_embedding = nn.Embedding(self.side**2, c.vision_hidden)

    def forward(self, pixels: Tensor) -> Tensor:
        """pixels [B, 3, H, W] -> [B, H/14 * W/14, hidden], row-major."""
        x = self.patch_embedding(pixels)
        grid = self.position_embedding.weight.view(1, self.side, self.side, -1).permute(0, 3, 1, 2)
        grid = F.interpolate(grid, size=x.shape[-2:], mode="bilinear", align_corners=False)
        return (x + grid).flatten(2).transpose(1, 2)


class VisionEncoder(nn.Module):
    def __init__(self, c: DemoConfig):
        super().__init__()
        self.layers = nn.ModuleList(VisionLayer(c) for _ in range(c.vision_layers))


class VisionTransformer(nn.Module):
    def __init__(self, c: DemoConfig):
        super().__init__()
        self.c = c
        self.embeddings = VisionEmbeddings(c)
        self.encoder = VisionEncoder(c)
        self.post_layernorm = nn.LayerNorm(c.vision_hidden, eps=1e-6)

    def forward(self, pixels: Tensor) -> Tensor:
        rows, columns = pixels.shape[-2] // self.c.patch, pixels.shape[-1] // self.c.patch
        cos, sin = vision_angles(rows, columns, self.c.vision_hidden // self.c.vision_heads, pixels.device)
        x = self.embeddings(pixels)
        for layer in self.encoder.layers:
            x = layer(x, cos, sin)
        return self.post_layernorm(x)


class VisionModel(nn.Module):
    def __init__(self, c: DemoConfig):
        super().__init__()
        self.vision_model = VisionTransformer(c)


def vision_angles(rows: int, columns: int, head_dim: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """cos, sin [rows*columns, head_dim] of the axial 2-D rotary embedding (theta 10000)."""
    half = head_dim // 2
    inverse = 1.0 / (10000.0 ** (torch.arange(0, half, 2, dtype=torch.float32, device=device) / half))
    y = torch.arange(rows, device=device).repeat_interleave(columns)[:, None] * inverse
    x = torch.arange(columns, device=device).repeat(rows)[:, None] * inverse
    angles = torch.cat((y, x, y, x), -1)
    return angles.cos(), angles.sin()


class Projector(nn.Module):
    def __init__(self, c: DemoConfig):
        super().__init__()
        self.merge = c.merge
        wide = c.vision_hidden * c.merge**2
        self.pre_norm = nn.LayerNorm(c.vision_hidden, eps=1e-5)
        self.linear_1 = nn.Linear(wide, wide)
        self.linear_2 = nn.Linear(wide, c.text_hidden)

    def forward(self, x: Tensor, rows: int, columns: int) -> Tensor:
        """x [B, rows*columns, hidden] -> [B, rows*columns/4, text hidden]."""
        b, _, d = x.shape
        m = self.merge
        x = self.pre_norm(x).view(b, rows // m, m, columns // m, m, d).transpose(2, 3)
        return self.linear_2(F.gelu(self.linear_1(x.reshape(b, -1, m * m * d))))


class RMSNorm(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, x.shape[-1:], self.weight, 1e-5)


class TextAttention(nn.Module):
    def __init__(self, c: DemoConfig):
        super().__init__()
        self.heads, self.kv_heads, self.dim = c.text_heads, c.text_kv_heads, c.head_dim
        self.q_proj = nn.Linear(c.text_hidden, c.text_heads * c.head_dim, bias=False)
        self.k_proj = nn.Linear(c.text_hidden, c.text_kv_heads * c.head_dim, bias=False)
        self.v_proj = nn.Linear(c.text_hidden, c.text_kv_heads * c.head_dim, bias=False)
        self.o_proj = nn.Linear(c.text_heads * c.head_dim, c.text_hidden, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, asked: int | None) -> tuple[Tensor, Tensor | None]:
        """Causal attention; with ``asked`` also head 0's log-probabilities [B, asked, n] of the last ``asked`` rows."""
        b, n, _ = x.shape
        q = rotate(self.q_proj(x).view(b, n, self.heads, self.dim).transpose(1, 2), cos, sin)
        k = rotate(self.k_proj(x).view(b, n, self.kv_heads, self.dim).transpose(1, 2), cos, sin)
        v = self.v_proj(x).view(b, n, self.kv_heads, self.dim).transpose(1, 2)
        group = self.heads // self.kv_heads
        out = F.scaled_dot_product_attention(
            q, k.repeat_interleave(group, 1), v.repeat_interleave(group, 1), is_causal=True
        )
        watched = None
        if asked:
            scores = (q[:, 0, -asked:] @ k[:, 0].transpose(-1, -2)) * self.dim**-0.5
            future = torch.ones(asked, n, dtype=torch.bool, device=x.device).triu(n - asked + 1)
            watched = scores.float().masked_fill(future, float("-inf")).log_softmax(-1)
        return self.o_proj(out.transpose(1, 2).reshape(b, n, -1)), watched


class TextMLP(nn.Module):
    def __init__(self, c: DemoConfig):
        super().__init__()
        self.gate_proj = nn.Linear(c.text_hidden, c.text_intermediate, bias=False)
        self.up_proj = nn.Linear(c.text_hidden, c.text_intermediate, bias=False)
        self.down_proj = nn.Linear(c.text_intermediate, c.text_hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class TextLayer(nn.Module):
    def __init__(self, c: DemoConfig):
        super().__init__()
        self.self_attn = TextAttention(c)
        self.mlp = TextMLP(c)
        self.input_layernorm = RMSNorm(c.text_hidden)
        self.post_attention_layernorm = RMSNorm(c.text_hidden)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, asked: int | None) -> tuple[Tensor, Tensor | None]:
        attended, watched = self.self_attn(self.input_layernorm(x), cos, sin, asked)
        x = x + attended
        return x + self.mlp(self.post_attention_layernorm(x)), watched


class TextModel(nn.Module):
    def __init__(self, c: DemoConfig):
        super().__init__()
        self.embed_tokens = nn.Embedding(c.vocab_size, c.text_hidden)
        self.layers = nn.ModuleList(TextLayer(c) for _ in range(c.text_layers))
        self.norm = RMSNorm(c.text_hidden)


def text_angles(
    c: DemoConfig, before: int, rows: int, columns: int, after: int, device: torch.device
) -> tuple[Tensor, Tensor]:
    """cos, sin [before + rows*columns + after, head_dim] of the 3-D rotary embedding; rows, columns are merged."""
    start = before
    head = torch.arange(before).expand(3, -1)
    grid = torch.stack(
        [
            torch.full((rows * columns,), start),
            torch.arange(rows).repeat_interleave(columns) + start,
            torch.arange(columns).repeat(rows) + start,
        ]
    )
    tail = (torch.arange(after) + start + max(rows, columns)).expand(3, -1)
    positions = torch.cat([head, grid, tail], 1).to(device)
    dim = c.head_dim
    inverse = 1.0 / (c.rope_theta ** (torch.arange(0, dim, 2, dtype=torch.float32, device=device) / dim))
    section = torch.repeat_interleave(torch.arange(3, device=device), torch.tensor(c.mrope_section, device=device))
    angles = positions[section].T * inverse
    angles = torch.cat((angles, angles), -1)
    return angles.cos(), angles.sin()


class DemoModel(nn.Module):
    """The whole model. Only the training loop needs ``watch``; nothing but weights is exported."""

    def __init__(self, c: DemoConfig):
        super().__init__()
        self.c = c
        self.visual = VisionModel(c)
        self.mlp_AR = Projector(c)
        self.model = TextModel(c)
        self.apply(self._initialise)

    @staticmethod
    def _initialise(module: nn.Module) -> None:
        if isinstance(module, nn.Linear):
            nn.init.trunc_normal_(module.weight, std=module.in_features**-0.5)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=0.02)

    def see(self, pixels: Tensor) -> Tensor:
        """pixels [B, 3, H, W] -> features of the vision tower [B, patches, hidden]."""
        return self.visual.vision_model(pixels)

    def forward(
        self,
        features: Tensor,
        rows: int,
        columns: int,
        before: Tensor,
        after: Tensor,
        watch: dict[int, str] | None = None,
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Logits [B, T, vocabulary] at the T positions of ``after`` [B, T] (prompt tail and text).

        features: of ``see``; rows, columns: patches; before: ids [N] ahead of the image.
        ``watch`` names layers whose head 0 reports its log-probabilities over all keys.
        """
        b, asked = after.shape
        image = self.mlp_AR(features, rows, columns)
        head = self.model.embed_tokens(before).expand(b, -1, -1)
        x = torch.cat([head, image, self.model.embed_tokens(after)], 1)
        m = self.c.merge
        cos, sin = text_angles(self.c, len(before), rows // m, columns // m, asked, x.device)
        watched = {}
        for index, layer in enumerate(self.model.layers):
            name = (watch or {}).get(index)
            x, report = layer(x, cos, sin, asked if name else None)
            if name:
                watched[name] = report
        x = self.model.norm(x[:, -asked:])
        return x @ self.model.embed_tokens.weight.T, watched
