# SPDX-License-Identifier: Apache-2.0
"""CPU kernels for what PyTorch does in several passes over the data.

Compiled by Numba when the model is built, so that no C++ compiler is needed; Numba is one of vLLM's own dependencies.
They run in PyTorch's OpenMP threads: threads of their own would compete with those for the processors.
"""

from __future__ import annotations

from importlib.util import find_spec


def available() -> bool:
    """Whether Numba is installed and PyTorch's OpenMP runtime is one that the kernels can run in."""
    if find_spec("numba") is None:
        return False
    from .openmp import runtime

    return runtime() is not None
