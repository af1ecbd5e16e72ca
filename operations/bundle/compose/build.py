# SPDX-License-Identifier: Apache-2.0
"""scripts/build_images.sh: `docker compose build`, with labels that say what the images were built from."""

from __future__ import annotations

import os
import sys

from bundle.origin import origin
from bundle.paths import ROOT
from bundle.progress import say


def main(words: list[str]) -> int:
    if {"-h", "--help"} & set(words):
        print(
            "usage: scripts/build_images.sh [what `docker compose build` takes]\n\n" + str(__doc__).partition(": ")[2]
        )
        return 0
    found = origin()
    say(f"building {found.version} from {found.source}, commit {found.revision}")
    os.chdir(ROOT)
    profiles = ["--profile", "corpus"] if "corpus" in words else []
    try:
        os.execvpe(
            "docker",
            ["docker", "compose", *profiles, "build", *words],
            {**os.environ, **found.build_arguments()},
        )
    except OSError as error:
        print(f"error: docker cannot be run ({error.strerror}); scripts/preflight.sh says how to install it")
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
