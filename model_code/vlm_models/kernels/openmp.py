# SPDX-License-Identifier: Apache-2.0
"""Compiled functions in the threads that PyTorch's own operators run in.

GCC's and LLVM's OpenMP runtimes both offer ``GOMP_parallel`` (the interface that GCC compiles ``#pragma omp parallel``
to: libgomp's manual, "Implementing PARALLEL construct"). It is taken from the runtime that libtorch is linked to.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import torch
from numba import cfunc, types
from torch import Tensor


class Runtime:
    """The OpenMP runtime of this process's libtorch."""

    def __init__(self) -> None:
        libtorch = Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"
        # A symbol is looked for in the library and in what it is linked to.
        library = ctypes.CDLL(str(libtorch))
        self.parallel = library.GOMP_parallel
        self.parallel.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint]
        self.parallel.restype = None
        self.thread, self.threads = library.omp_get_thread_num, library.omp_get_num_threads
        for function in (self.thread, self.threads):
            function.argtypes, function.restype = [], ctypes.c_int


@cache
def runtime() -> Runtime | None:
    """None where PyTorch is built without OpenMP, or with one that has no ``GOMP_parallel``."""
    try:
        return Runtime()
    except (OSError, AttributeError):
        return None


class Kernel:
    """``body(arguments, thread, threads)``, run once in each thread.

    Args:
        body: compiled by Numba in nopython mode; it does the ``thread``-th of ``threads`` shares. ``arguments`` is a
            pointer to int64: addresses of tensors and plain numbers, in the order of the call.
    """

    def __init__(self, body: Callable[[Any, int, int], None]) -> None:
        found = runtime()
        if found is None:
            raise RuntimeError("this PyTorch has no OpenMP runtime with GOMP_parallel; VLM_ATTENTION=sdpa needs none")
        self.parallel, thread, threads = found.parallel, found.thread, found.threads
        self.compiled = cfunc(types.void(types.CPointer(types.int64)))(lambda a: body(a, thread(), threads()))

    def __call__(self, *arguments: Tensor | int, alone: bool = False) -> None:
        """Returns when all threads are through. Tensors are passed by address: the caller checks type and layout.

        alone: the calling thread does all of it, which is sooner where it is less than waking the others.
        """
        numbers = [value.data_ptr() if isinstance(value, Tensor) else value for value in arguments]
        packed = (ctypes.c_int64 * len(numbers))(*numbers)
        if alone:
            self.compiled.ctypes(packed)
        else:
            self.parallel(self.compiled.address, ctypes.addressof(packed), torch.get_num_threads(), 0)
