# SPDX-License-Identifier: Apache-2.0
"""The sizes of the library thread pools in a VLM server or a layout server (decision 0413).

OpenMP, OpenBLAS, OpenCV and Rust's Rayon start one thread for each core that they see. On an A3 server that is 640, in
each of 32 processes, and then the last threads hit the container's `pids_limit`.
"""

from __future__ import annotations

from collections.abc import Mapping

from declared_settings import whole

POOLS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS", "OPENCV_FOR_THREADS_NUM")
# Those that PyTorch computes with on a CPU.
COMPUTING = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")
# With the model on a die, the host decodes and resizes crops; more threads than these wait for each other.
MOST_ON_ASCEND = 8


def environment(env: Mapping[str, str], cores: int) -> dict[str, str]:
    """Variables of the thread pools for a server that runs on so many cores. Raises WrongValue.

    VLM_THREADS wins. On CPU, where the model computes with OpenMP's threads, the launcher chooses their number
    (config/models.yaml) unless the environment holds one; more than there are cores is never used. MKL's number stays
    unset there: it follows OpenMP's, and PyTorch takes MKL's for its own threads where it is set.
    """
    if env.get("VLM_THREADS"):
        return dict.fromkeys(POOLS, str(whole(env, "VLM_THREADS")))
    if env.get("HARDWARE") == "ascend":
        return dict.fromkeys(POOLS, str(min(cores, MOST_ON_ASCEND)))
    own = {name: str(cores) for name in POOLS if name not in COMPUTING}
    for name in COMPUTING:
        given = env.get(name) or ""
        if given.isdigit() and int(given) > cores:
            own[name] = str(cores)
    return own
