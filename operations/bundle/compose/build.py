# SPDX-License-Identifier: Apache-2.0
"""scripts/build_images.sh: `docker compose build`, with labels that say what the images were built from."""

from __future__ import annotations

import os
import sys

from bundle.origin import origin
from bundle.paths import ROOT
from bundle.progress import say
from tool_errors import UsageError, run

USAGE = "usage: scripts/build_images.sh [SERVICE...], and what else `docker compose build` takes"


def build(words: list[str]) -> None:
    """Replace this process by compose. Raises UsageError where there is no docker."""
    if {"-h", "--help"} & set(words):
        print(USAGE)
        return
    found = origin()
    say(f"building {found.version} from {found.source}, commit {found.revision}")
    os.chdir(ROOT)
    command = ["docker", "compose", *(["--profile", "corpus"] if "corpus" in words else []), "build", *words]
    try:
        os.execvpe(command[0], command, {**os.environ, **found.build_arguments()})
    except OSError as error:
        raise UsageError(
            f"docker cannot be run ({error.strerror}); scripts/preflight.sh says how to install it"
        ) from error


if __name__ == "__main__":
    sys.exit(run(lambda: build(sys.argv[1:])))
