# SPDX-License-Identifier: Apache-2.0
"""Become the layout server: python -m container.start_layout. On a die it needs the same folders as a replica
(container.folders): CANN writes into the working directory, which is read-only in the image, and its logs would
otherwise fill HOME's memory file system. Its thread pools are bounded as a replica's are.
"""

from __future__ import annotations

import os
from typing import NoReturn

import thread_pools
from container import folders


def main() -> NoReturn:
    pools = thread_pools.environment(os.environ, len(os.sched_getaffinity(0)))
    own = {**pools, **folders.make(os.environ, "layout")}
    os.chdir(own["ASCEND_WORK_PATH"])
    python = f"{os.environ['ENVS_DIR']}/vlm/bin/python"
    os.execve(python, [python, "-m", "layout_server"], {**os.environ, **own})


if __name__ == "__main__":
    main()
