# SPDX-License-Identifier: Apache-2.0
"""What the launcher's arguments become on Ascend: vLLM's own parser and the real NPUPlatform.check_and_update_config.

The command line is the one that an operator's settings lead to; the weights are a config.json with the published sizes.
What a graph of these sizes costs on a die, and whether it can be captured, needs a die.
"""

from __future__ import annotations

import importlib
import shlex
from pathlib import Path
from typing import Any

import pytest

from declared_settings.vlm_args import PARALLEL_WORDS, PLACE_WORDS, means
from tests.npu.vllm_ascend.conftest import NEW, WORKER
from vlm_server import die_memory

# vLLM's sizes for 128 requests at once: up to as many, or twice as many, in steps of 8.
SIZES = [1, 2, 4, *range(8, 129 if NEW else 257, 8)]
# Both kinds: steps of single tokens whole, others in pieces.
BOTH = ("FULL_AND_PIECEWISE" if NEW else "PIECEWISE", True)
# VLM_GRAPH_MODE -> mode of the graphs, and whether vLLM compiles the model (for graphs, without inductor).
GRAPHS = {
    "": BOTH,
    "none": ("NONE", False),
    "piecewise": ("PIECEWISE", True),
    "full": ("FULL", True),
    "full_decode_only": ("FULL_DECODE_ONLY", True),
    # vllm-ascend of stack 0.11.1 captures no two kinds at once.
    "full_and_piecewise": BOTH,
}


def graphs(config: Any) -> tuple[str, bool]:
    compilation = config.compilation_config
    return compilation.cudagraph_mode.name, compilation.mode.name == "VLLM_COMPILE"


def test_our_defaults(engine_config):
    from vllm.v1.executor.abstract import Executor

    config = engine_config()
    assert graphs(config) == GRAPHS[""] and config.compilation_config.use_inductor is False
    assert sorted(config.compilation_config.cudagraph_capture_sizes) == SIZES
    assert config.compilation_config.custom_ops == ["all"]
    assert config.parallel_config.worker_cls == WORKER
    assert Executor.get_class(config).__name__ == "OneProcess"
    assert (config.cache_config.block_size, config.cache_config.num_gpu_blocks_override) == (128, 4096)
    assert config.cache_config.gpu_memory_utilization == 0.8 and not config.cache_config.enable_prefix_caching
    scheduler = config.scheduler_config
    assert (scheduler.max_num_seqs, scheduler.max_num_batched_tokens) == (128, 16384)
    assert scheduler.enable_chunked_prefill and config.model_config.max_model_len == 16384
    assert str(config.model_config.dtype) == "torch.bfloat16" and config.model_config.uses_mrope
    assert config.model_config.architecture == "PaddleOCRVLForConditionalGeneration"


@pytest.mark.parametrize(
    "words",
    [
        "",
        """--additional-config '{"refresh": true}'""",
        """--additional_config='{"refresh": true}'""",
        "--additional-config.refresh=true",
        "--additional-config.refresh true",
    ],
)
def test_cores_and_logs_are_the_launchers(engine_config, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: str):
    """Left to itself, 0.23.0 binds the process once more, and writes files without an end below HOME. What VLM_ARGS
    say besides is taken too."""
    logger = importlib.import_module("vllm_ascend.logger") if NEW else None
    if logger:
        monkeypatch.setattr(logger, "_LOG_DIR", str(tmp_path / "home"))
        monkeypatch.setattr(logger, "_file_logging_configured", False)
    config = engine_config(ASCEND_PROCESS_LOG_PATH=str(tmp_path / "logs"), VLM_ARGS=words)
    assert config.additional_config.get("refresh") == (True if words else None)
    assert importlib.import_module("vllm_ascend.ascend_config").get_ascend_config().enable_cpu_binding is False
    assert bool(list(tmp_path.glob("logs/*.log"))) is NEW and not (tmp_path / "home").exists()


@pytest.mark.parametrize("mode", GRAPHS)
def test_graph_modes(engine_config, mode: str):
    config = engine_config(VLM_GRAPH_MODE=mode)
    assert graphs(config) == GRAPHS[mode]
    if mode != "none":
        assert sorted(config.compilation_config.cudagraph_capture_sizes) == SIZES


def test_without_graphs(engine_config):
    config = engine_config(VLM_ENFORCE_EAGER="1")
    assert graphs(config) == ("NONE", False) and not config.compilation_config.cudagraph_capture_sizes


@pytest.mark.parametrize("requests", [1, 100, 512])
def test_the_launcher_counts_the_sizes(engine_config, requests: int):
    mode = "full_and_piecewise" if NEW else ""
    config = engine_config(VLM_ARGS=f"--max-num-seqs {requests}", VLM_GRAPH_MODE=mode)
    counted = die_memory.sizes(requests if NEW else 2 * requests)
    assert len(config.compilation_config.cudagraph_capture_sizes) == counted


def test_the_launcher_reads_words_as_vllms_parser(platform):
    """Each option of `vllm serve`, and each beginning that is taken for one of those that the bundle decides."""
    from vllm.entrypoints.cli.serve import ServeSubcommand
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    parser = ServeSubcommand().subparser_init(FlexibleArgumentParser().add_subparsers())
    decided = {"host", "port", "uds", "headless", "grpc", "ssl_keyfile", "ssl_certfile", "config", "nnodes"}
    decided |= {"node_rank", "tensor_parallel_size", "pipeline_parallel_size", "prefill_context_parallel_size"}
    decided |= {"decode_context_parallel_size"}
    options = {name: action.dest for name, action in parser._option_string_actions.items()}
    for name, dest in options.items():
        taken = (dest in decided or dest.startswith("data_parallel_")) and not name.startswith("--no-")
        assert means(name, (*PLACE_WORDS, *PARALLEL_WORDS)) is taken, name
        for beginning in (name[:end] for end in range(2, len(name)) if taken):
            if beginning not in options and len(parser._get_option_tuples(beginning)) == 1:
                assert means(beginning, (*PLACE_WORDS, *PARALLEL_WORDS)), beginning
    assert {"host", "nnodes", "tensor_parallel_size", "config"} <= {*options.values()}


def test_several_replicas_share_a_die(engine_config):
    """Blocks and requests are divided; the share of the memory where a worker counts its own alone. All replicas
    together keep within the 1800 graphs that a die has streams for: 19 pieces of each size, and one of the whole."""
    for replicas in range(1, 9):
        config = engine_config(VLM_REPLICAS_PER_DIE=str(replicas))
        cache = config.cache_config
        share = 0.8 / replicas if NEW else 0.8
        assert cache.num_gpu_blocks_override == 4096 // replicas
        assert share - 1e-4 < cache.gpu_memory_utilization <= share
        assert config.scheduler_config.max_num_seqs == 128 // replicas
        assert len(config.compilation_config.cudagraph_capture_sizes) * (20 if NEW else 19) * replicas <= 1800


def test_capture_sizes_follow_the_requests_at_once(engine_config):
    config = engine_config(VLM_ARGS="--max-num-seqs 16")
    assert sorted(config.compilation_config.cudagraph_capture_sizes) == (
        [1, 2, 4, 8, 16] if NEW else [1, 2, 4, 8, 16, 24, 32]
    )


@pytest.mark.parametrize(
    ("words", "size"),
    [
        ("--block-size 64", 128),
        ("--no-enable-chunked-prefill --block-size 64", 64),
        ("--no-enable-chunked-prefill --enable-prefix-caching --block-size 64", 128),
    ],
)
def test_the_platform_keeps_its_block_size(engine_config, words: str, size: int):
    config = engine_config(VLM_ARGS=words)
    assert config.cache_config.block_size == size
    assert config.scheduler_config.enable_chunked_prefill is not words.startswith("--no-enable-chunked-prefill")
    command = shlex.split(f"--no-enable-prefix-caching {words}")
    assert die_memory.tokens_of_a_block(command) == size


def test_chosen_sizes_keep_the_chosen_mode(engine_config):
    config = engine_config(VLM_GRAPH_MODE="full_decode_only", VLM_ARGS="--cudagraph-capture-sizes 1 8 32")
    assert graphs(config) == ("FULL_DECODE_ONLY", True)
    assert sorted(config.compilation_config.cudagraph_capture_sizes) == [1, 8, 32]
