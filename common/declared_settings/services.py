# SPDX-License-Identifier: Apache-2.0
"""Settings of the weights, the VLM's container, the layout server in it, and where the parser listens."""

from __future__ import annotations

import atlas
import stacks

from .kinds import Choice, Flag, Number, Port, Setting, Whole

HARDWARE_AND_WEIGHTS = (
    Choice(
        "HARDWARE",
        "ascend",
        "`ascend` or `cpu`: selects the VLM's Dockerfile and its fragment in `config/compose`; the parser's "
        "image is the same for both.",
        values=("cpu", "ascend"),
    ),
    Choice(
        "STACK",
        stacks.DEFAULT.key,
        "Pinned versions, a file of `config/stacks`, in local mode too. On aarch64 a CPU cannot run 0.11.1, whose "
        "CPU wheel of vLLM needs glibc 2.38 there.",
        values=tuple(stacks.STACKS),
    ),
    Choice(
        "ATLAS",
        atlas.DEFAULT.key,
        "The kind of the node's dies: `a3`, `a2`, or `310p` with stack 0.23.0. It chooses the base image, the kernels, "
        "the dies files and the number format; `common/atlas.py` has the table.",
        values=atlas.KEYS,
    ),
    Setting(
        "NPU_IDS",
        "",
        "Dies to use. Empty: all dies of a node of this kind. `present`: those that `select_npus.sh` "
        "(docs/mend.md#a-die-is-missing) found at its last run.",
    ),
    Whole("ASCEND_GID", "1000", "Number of the group of the device files, `HwHiAiUser`.", least=0),
    Setting(
        "MODELS_DIR", "./models", "Weights, mounted read-only; everyone must be able to read them (`chmod -R a+rX`)."
    ),
    Setting(
        "VLM_MODEL",
        "",
        "A model of `config/models.yaml`, or a folder under MODELS_DIR. Empty: the newest PaddleOCR-VL that "
        "is there; without one, on CPU the demo weights.",
    ),
    Setting(
        "LAYOUT_MODEL_DIR",
        "",
        "The layout model; in containers a folder below `/models`; without effect for a VLM that reads whole pages.",
    ),
    Setting(
        "MODELS_CONFIG",
        "config/models.yaml",
        "The models and their arguments, for the VLM server and the parser; in containers a file inside them: "
        "`/models/own.yaml` is `own.yaml` in MODELS_DIR.",
    ),
)
MOST_REPLICAS = 64  # in a container
VLM_SERVER = (
    Whole(
        "VLM_REPLICAS",
        "",
        "How many dies to use; empty: all of NPU_IDS. On CPU: how many sets of cores; empty: 1. Local mode has one "
        "replica.",
        least=1,
        most=MOST_REPLICAS,
    ),
    Whole(
        "VLM_REPLICAS_PER_DIE",
        "1",
        "Replicas on each die (on CPU: on each set of cores); on a die they divide its cache and its number of "
        "requests at once, also that of VLM_ARGS. The launcher refuses more replicas than fit into the memory. "
        f"A container has at most {MOST_REPLICAS} replicas, on all 16 dies of an A3 {MOST_REPLICAS // 16} each.",
        least=1,
        most=8,
    ),
    Setting(
        "VLM_CORES",
        "auto",
        "Cores of the replicas: `auto` (near the die where `npu-smi info -t topo` names them, otherwise the die's part "
        "of a whole server's cores), `none`, or a list for each die of `NPU_IDS`, like `0-39;40-79`.",
        form="cores",
    ),
    Whole(
        "VLM_THREADS",
        "",
        "Threads of each library's pool in a replica and the layout server; empty: on Ascend its cores, at most 8; on "
        "CPU its cores, of which vLLM leaves one free from four on.",
        least=1,
        most=1024,
    ),
    Setting(
        "VLM_ARGS", "", "Further arguments of `vllm serve`, written as in a shell; they win over `config/models.yaml`."
    ),
    Choice(
        "VLM_GRAPH_MODE",
        "",
        "Ascend: `none` or `piecewise`. Stack 0.11.1 treats `full_and_piecewise` as `piecewise` and refuses `full` "
        "and `full_decode_only`. Stack 0.23.0 accepts all; its default is `full_and_piecewise`. Acceptance measures "
        "which is fastest (docs/check.md#the-first-hour-on-a-node).",
        values=("none", "piecewise", "full", "full_decode_only", "full_and_piecewise"),
        shown="of STACK",
    ),
    Choice(
        "VLM_PRECISION",
        "auto",
        "CPU: `auto` is bfloat16 if the processor multiplies it, otherwise float32; `int8` computes the linear layers "
        "of PaddleOCR-VL in 8-bit integers, converted while the weights load "
        "(docs/install.md#8-bit-integers-on-a-cpu).",
        values=("auto", "bfloat16", "int8"),
    ),
    Flag("VLM_ENFORCE_EAGER", "", "1: no graph mode. A 310P never has one.", does="no graph mode"),
    Setting(
        "VLM_MEMORY_UTILIZATION",
        "",
        "Ascend: share of a die's memory that vLLM plans with, all replicas of the die together; the vision "
        "tower works in the rest.",
        shown="0.8",
        allowed="above 0, below 1",
        form="share",
    ),
    Whole(
        "VLM_PATCHES_PER_PASS",
        "",
        "Patches that go through the vision tower at once; fewer take less memory.",
        least=1,
        unit="patches",
        shown="from the cache or memory there is",
    ),
    Whole(
        "VLM_MEGAPIXELS_IN_FLIGHT",
        "200",
        "Millions of pixels of decoded images that a replica's API server holds at once; a pixel takes 8 "
        "bytes at most. Requests beyond it wait 30 s and then get 503, and the parser sends them again; an A0 "
        "page at 300 dpi has 139.",
        least=1,
        most=999_999,
        unit="million pixels",
    ),
    Setting(
        "VLM_MEDIA_HOSTS",
        "",
        "Hosts, separated by blanks. The VLM server fetches images and videos of chat requests from them by http(s): "
        "no redirects, 64 MB and 30 s at most. It refuses addresses of other hosts. In compose it needs "
        "[a network](secure.md#the-vlm-servers-own-port) for it.",
        shown="none",
        form="media hosts",
    ),
    Choice(
        "VLM_ATTENTION",
        "",
        "Attention of the vision tower, for diagnosis.",
        values=("cpu-bf16", "flash", "npu-fusion", "npu-atb", "npu-atb-310p", "sdpa"),
        shown="the plugin's own choice",
    ),
    Number("WATCHDOG_INTERVAL_S", "10", "Seconds between two probes of the replicas.", least=0.01, most=3600, unit="s"),
    Number("WATCHDOG_TIMEOUT_S", "30", "Seconds that a probe may take.", least=0.01, most=3600, unit="s"),
    Whole(
        "WATCHDOG_FAILURES",
        "3",
        "The watchdog kills a replica after so many failed probes in a row without any work done.",
        least=1,
        most=1000,
    ),
    Whole(
        "ASCEND_LOG_MIB",
        "1024",
        "Most MiB for CANN's logs and the files of working directories; the oldest are removed.",
        least=0,
        most=10**6,
        unit="MiB",
    ),
    Setting("VLM_MEM_LIMIT", "", "Memory limit of the VLM container, all replicas together.", shown="12g, Ascend 128g"),
    Whole(
        "VLM_PIDS_LIMIT",
        "8192",
        "Threads and processes of the VLM container; `compose.yaml` has the arithmetic.",
        least=1,
    ),
    Setting(
        "NPU_EXPORTER_IMAGE",
        "npu-exporter:v7.3.0",
        "Image of npu-exporter (config/grafana/README.md), which starts only with its profile.",
    ),
    Port("NPU_EXPORTER_PORT", "8082", "Port on loopback at which npu-exporter is published."),
)
LAYOUT = (
    Flag(
        "LAYOUT_SERVER",
        "",
        "1: a layout server (docs/layout-server.md) beside the VLM's replicas.",
        does="a layout server beside the VLM's",
    ),
    Setting(
        "LAYOUT_DEVICE",
        "cpu",
        "Its device: `cpu`, `npu`, or one die like `npu:3`, counted among the container's dies.",
        allowed="`cpu`, `npu`, `npu:N`",
        form="layout device",
    ),
    Port("LAYOUT_PORT", "8001", "Local mode: the port that it listens on."),
    Whole("LAYOUT_BATCH", "4", "Pages of one call at most.", least=1, most=32, unit="pages"),
    Whole(
        "LAYOUT_WAIT_MS", "4", "How long a page waits for other pages of the same call.", least=0, most=1000, unit="ms"
    ),
    Whole(
        "LAYOUT_QUEUE",
        "128",
        "Pages that wait at the layout server at most; the parser's CPU takes those beyond.",
        least=1,
        most=4096,
        unit="pages",
    ),
    Number(
        "LAYOUT_MEMORY_SHARE",
        "0.06",
        "Largest share of its die's memory that it uses; all replicas get so much less of theirs.",
        least=0.01,
        most=1,
    ),
)
ADDRESSES = (
    Setting(
        "PARSER_BIND",
        "127.0.0.1",
        "Address at which the parser is published; an IPv6 address in brackets, like `[::]` for all.",
        form="address",
    ),
    Port("PARSER_PORT", "8080", "Port at which the parser is published."),
)
