# SPDX-License-Identifier: Apache-2.0
"""Settings of containers, buckets, image builds, and of local mode."""

from __future__ import annotations

from .kinds import Port, Setting, Whole

PARSER_CONTAINER = (
    Setting(
        "PARSER_MEM_LIMIT",
        "",
        "Memory limit of the parser container: 9 GiB, of which PARSER_MAX_BODIES_MIB is 1, and 1 GiB for each "
        "worker. 13g are enough for 4 workers, 41g for 32; with less the parser starts fewer.",
        shown="13g, Ascend 41g",
    ),
)
BUCKET = (
    Setting("AWS_ENDPOINT_URL_S3", "", "The S3 server's address, unless it is AWS; no proxy is asked for it."),
    Setting("AWS_DEFAULT_REGION", "", "The bucket's region."),
    Setting("AWS_ACCESS_KEY_ID", "", "The name of the bucket's key."),
    Setting("AWS_SECRET_ACCESS_KEY", "", "The key."),
    Setting("AWS_SESSION_TOKEN", "", "For temporary keys only."),
    Setting(
        "AWS_CA_BUNDLE", "", "A file below `/var/lib/paddleocr-vl` with the certificate of the S3 server's issuer."
    ),
)
CORPUS = (
    Setting(
        "CORPUS_DIR",
        "./corpus",
        "The folder that the container of `docker compose --profile corpus` reads and writes (docs/corpus.md).",
    ),
    Setting(
        "CORPUS_MEM_LIMIT",
        "48g",
        "Its memory limit: 1 GiB for each reader with the published layout model, 2 for each renderer at its bound. It "
        "starts a reader for each core, and no more than one for each 1.5 GiB.",
    ),
)
BUILDS = (
    Setting(
        "CANN_IMAGE",
        "",
        "Base image of the VLM on Ascend; `Dockerfile.ascend` names the openEuler one.",
        shown="CANN 8.3.RC2 for ATLAS, Ubuntu 22.04",
    ),
    Setting("CANN_DIGEST", "", "Its digest, `sha256:...`."),
    Whole(
        "MAX_JOBS",
        "",
        "Compilers at once while vllm-ascend's kernels are built, where the build machine has many cores and little "
        "memory.",
        least=1,
        shown="upstream's choice: one or two for each core",
    ),
    Setting("BASE_IMAGE", "debian:bookworm-slim", "Base image of the parser, and of the VLM on CPU."),
    Setting("BASE_DIGEST", "", "Its digest, `sha256:...`."),
    Setting("WHEELS_DIR", "", "Folder of wheels from `scripts/fetch_wheels.sh`, instead of a package index."),
    Setting(
        "LAYOUT_MODEL_SOURCE",
        "",
        "Absolute path of a folder that holds `PP-DocLayoutV2/` (or `PP-DocLayoutV3/`, for 1.5 and 1.6); the "
        "parser's image then carries that model.",
    ),
    Setting(
        "VLLM_ASCEND_SOURCE",
        "",
        "Absolute path of vllm-ascend's sources at the stack's commit, if git cannot reach them.",
        shown="git, at a full commit",
    ),
    Setting(
        "VLLM_ASCEND_IMAGE",
        "",
        "Upstream's compiled image of the stack's version and kind; the build takes its kernels and compiles nothing.",
    ),
    Setting(
        "CATLASS_SOURCE",
        "",
        "Absolute path of the catlass sources (stack 0.23.0). Without VLLM_ASCEND_SOURCE, git still fetches them as a "
        "submodule.",
        shown="git, at a full commit",
    ),
    Setting(
        "TORCH_CPU_INDEX_URL",
        "",
        "Index with CPU builds of torch, x86-64; saves 1 GB more (docs/decisions/0406-no-cuda.md).",
    ),
    Setting(
        "BUNDLE_REVISION", "unknown", "The commit that the images' labels name; `scripts/build_images.sh` asks git."
    ),
    Setting(
        "BUNDLE_SOURCE",
        "unknown",
        "Where that commit can be fetched; `scripts/build_images.sh` takes git's remote `origin`.",
    ),
    Setting(
        "BUNDLE_CREATED",
        "unknown",
        "When they were built, like 2026-01-31T12:00:00Z; `scripts/build_images.sh` takes the clock.",
    ),
    Setting("BUILD_NETWORK", "default", "Network of the build steps."),
    Setting("CA_BUNDLE", "", "Secret: file with the certificates of a site's proxy or mirror."),
    Setting("PIP_CONF", "", "Secret: pip's configuration, with the site's index."),
    Setting(
        "APT_SOURCES",
        "",
        "Secret: the site's sources for apt, as lines `deb ...`; each image takes the lines that name its "
        "release (on Ascend `jammy` for the VLM, `bookworm` for the parser) in place of its own sources, so name "
        "all suites. Without `CA_BUNDLE` they must be http: the base images have no certificates yet, and apt checks "
        "signatures.",
    ),
)
LOCAL_MODE = (
    Setting("VLM_HOST", "127.0.0.1", "Address of the VLM server."),
    Port("VLM_PORT", "8000", "Its port."),
    Whole(
        "READY_TIMEOUT",
        "900",
        "Seconds that `scripts/run_demo.sh` waits for the services.",
        least=0,
        most=10**6,
        unit="s",
    ),
    Setting("ENVS_DIR", ".venvs", "Python environments."),
    Setting("RUN_DIR", ".run", "Logs and process ids."),
)
