# SPDX-License-Identifier: Apache-2.0
"""How vLLM reads a word of its command line, and which words this bundle decides itself.

vLLM's own parser says it too, but it takes ten seconds to load, at each start of each replica
(tests/npu/vllm_ascend/test_serving_config.py compares the two).
"""

from __future__ import annotations

from collections.abc import Sequence

# A name that ends with a hyphen stands for all names that begin so.
# Words that would take the place of VLM_GRAPH_MODE, which becomes a --compilation-config: vLLM takes the last one, and
# does not add them up.
GRAPH_WORDS = ("--compilation-config", "-cc", "-O", "--enforce-eager")
# HAProxy asks each replica by HTTP at its own port, and a replica on Ascend sees one die. With these words vLLM would
# end, or not be found, again and again. A file of `--config` can hold any of them.
PLACE_WORDS = ("--host", "--port", "--uds", "--headless", "--grpc", "--ssl-keyfile", "--ssl-certfile", "--config")
PARALLEL_WORDS = (
    *("--tensor-parallel-size", "-tp", "--pipeline-parallel-size", "-pp", "--data-parallel-", "-dp"),
    *("--prefill-context-parallel-size", "-pcp", "--decode-context-parallel-size", "-dcp"),
    *("--nnodes", "-n", "--node-rank", "-r"),
)


def means(word: str, names: Sequence[str]) -> bool:
    """Whether `word` of a command line is one of the options `names`, as argparse reads it in vLLM.

    `_` counts as `-`, and a beginning as the whole name: one that several options share is nothing that vLLM serves
    with. A value may follow behind `=`, a key behind `.`, and after a short name at once: `-tp2`.
    """
    name = word.replace(".", "=").partition("=")[0].replace("_", "-")
    if not name.startswith("-") or not name.strip("-"):
        return False
    return any(
        whole.startswith(name) or ((not whole.startswith("--") or whole.endswith("-")) and name.startswith(whole))
        for whole in names
    )
