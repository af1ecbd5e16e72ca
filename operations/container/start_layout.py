# SPDX-License-Identifier: Apache-2.0
"""Become the layout server: python -m container.start_layout. On a die it needs what a replica needs of folders
(container.folders): CANN writes into the working directory, which in the image is read-only, and its logs elsewhere
would fill the memory file system of HOME.
"""

from __future__ import annotations

import os
from typing import NoReturn

from container import folders


def main() -> NoReturn:
    own = folders.make(os.environ, "layout")
    os.chdir(own["ASCEND_WORK_PATH"])
    python = f"{os.environ['ENVS_DIR']}/vlm/bin/python"
    os.execve(python, [python, "-m", "layout_server"], {**os.environ, **own})


if __name__ == "__main__":
    main()
