#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Make Python environments from their locks: setup_env.sh [--cuda] [--no-install] vlm|parser|reference|tools ...
# ENVS_DIR moves them (default .venvs). TORCH_CPU_INDEX_URL names an index with CPU builds of torch (x86-64).
# CUDA's libraries stay away, and small ones take their place; with --cuda torch can use a GPU. As root it installs the
# system's libraries that are missing; --no-install forbids that.
#
# operations/bundle/environments/setup.py: leave out what is up to date, see that the system has the libraries that the
# rest needs, install uv, make the environment, install its locks and our packages, and stamp it as finished.
set -euo pipefail
# shellcheck source=scripts/lib/python.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/python.sh"
run_on_node environments.setup "$@"
