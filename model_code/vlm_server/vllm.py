# SPDX-License-Identifier: Apache-2.0
"""`vllm serve`, which starts faster so: python -m vlm_server.vllm serve MODEL ... (docs/decisions/0103).

The imports of vLLM make objects that stay. Python's collector of garbage looks through them again and again, and finds
none. The engine's process runs this file too, as multiprocessing's `spawn` does with the main module; of vLLM's own
program it would import what only the command line needs.
"""

from __future__ import annotations

import gc
import importlib.util
import sys

# New objects before Python looks for garbage; its own number is 700. Once it has started, vLLM leaves all that is there
# out of the looking.
gc.set_threshold(50_000)

if __name__ == "__main__":
    if importlib.util.find_spec("vllm") is None:
        print(f"error: vLLM is missing in {sys.prefix}; run scripts/setup_env.sh vlm", file=sys.stderr)
        sys.exit(2)
    from vllm.entrypoints.cli.main import main

    sys.argv[0] = "vllm"
    sys.exit(main())
