# SPDX-License-Identifier: Apache-2.0
"""The Muon optimiser for matrices (Keller Jordan, 2024), which torch carries only from 2.9 on.

A matrix's momentum is replaced by the nearest semi-orthogonal matrix, found by a few Newton-Schulz
iterations, and scaled as in arXiv 2502.16982 so that AdamW's learning rates fit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

# Quintic iteration X <- aX + (bA + cA^2)X with A = XX^T; the coefficients push singular values near 1 fast.
COEFFICIENTS = (3.4445, -4.7750, 2.0315)


def orthogonalise(matrix: Tensor, steps: int) -> Tensor:
    """The matrix [m, n] with its singular values pushed towards 1; computed in bfloat16."""
    a, b, c = COEFFICIENTS
    x = matrix.bfloat16()
    if matrix.shape[0] > matrix.shape[1]:
        x = x.T
    x = x / x.norm().clamp(min=1e-7)
    for _ in range(steps):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return (x.T if matrix.shape[0] > matrix.shape[1] else x).to(matrix.dtype)


class Muon(torch.optim.Optimizer):
    """Muon with Nesterov momentum and decoupled weight decay; 2-D parameters only."""

    def __init__(
        self,
        matrices: Iterable[Tensor],
        lr: float,
        weight_decay: float = 0.0,
        momentum: float = 0.95,
        ns_steps: int = 4,
    ) -> None:
        super().__init__(matrices, {"lr": lr, "weight_decay": weight_decay, "momentum": momentum, "ns_steps": ns_steps})
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.ndim != 2:
                    raise ValueError(
                        f"a parameter of shape {tuple(parameter.shape)} is no matrix; give it to another optimiser"
                    )

    @torch.no_grad()
    # torch's overloads promise the loss of a closure, which Muon never calls.
    def step(self, closure: Callable[[], Any] | None = None) -> None:  # type: ignore[override]
        """One update. There is no closure to call, so no loss to return."""
        if closure is not None:
            raise ValueError("closure: Muon calls none; compute the loss before the step")
        for group in self.param_groups:
            rate, momentum = group["lr"], group["momentum"]
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                state = self.state[parameter]
                if "momentum_buffer" not in state:
                    state["momentum_buffer"] = torch.zeros_like(parameter)
                average = state["momentum_buffer"].lerp_(parameter.grad, 1 - momentum)
                update = orthogonalise(parameter.grad.lerp(average, momentum), group["ns_steps"])
                parameter.mul_(1 - rate * group["weight_decay"])
                parameter.add_(update, alpha=-rate * 0.2 * max(parameter.shape) ** 0.5)
