# SPDX-License-Identifier: Apache-2.0
"""VLM_ARGS: how vLLM reads its words, and which of them this bundle decides itself.

vLLM's own parser says it too, but it takes ten seconds to load, at each start of each replica
(tests/npu/vllm_ascend/test_serving_config.py compares the two).
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from tool_errors import UsageError

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


def words(env: Mapping[str, str], on_dies: bool) -> tuple[str, ...]:
    """VLM_ARGS as words, for replicas on dies or on CPUs. Raises UsageError for a quote that is open, and for words
    that the bundle or VLM_GRAPH_MODE decides."""
    try:
        found = tuple(shlex.split(env.get("VLM_ARGS") or ""))
    except ValueError as error:
        raise UsageError(
            f"VLM_ARGS is {env['VLM_ARGS']!r}: {error}; expected arguments of `vllm serve`, quoted as in a shell"
        ) from error
    fixed = PLACE_WORDS + (PARALLEL_WORDS if on_dies else ())
    if taken := [word for word in found if means(word, fixed)]:
        raise UsageError(
            f"VLM_ARGS has {taken[0]!r}; expected no address, no dies and no file of arguments: the bundle gives "
            "each replica its own port and one die. Remove it; VLM_REPLICAS sets the number of replicas"
        )
    mode = env.get("VLM_GRAPH_MODE") if on_dies else ""
    if mode and (taken := [word for word in found if means(word, GRAPH_WORDS)]):
        raise UsageError(
            f"VLM_GRAPH_MODE is {mode!r}, but VLM_ARGS has {taken[0]!r}, which takes its place; leave "
            'VLM_GRAPH_MODE empty and say "cudagraph_mode" in VLM_ARGS'
        )
    return found


def means(word: str, names: Sequence[str]) -> bool:
    """Whether `word` of a command line is one of the options `names`, as argparse reads it in vLLM.

    `_` counts as `-`, and a beginning as the whole name: one that several options share is nothing that vLLM serves
    with. A value may follow behind `=`, a key behind `.`, and after a short name at once: `-tp2`.
    """
    name = word.replace(".", "=").partition("=")[0].replace("_", "-")
    if not name.startswith("-") or not name.strip("-"):
        return False
    return any(
        full.startswith(name) or ((not full.startswith("--") or full.endswith("-")) and name.startswith(full))
        for full in names
    )
