#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Parse images and PDFs to Markdown on stdout: run_demo.sh PATH... [--out DIR] [--mode auto|docker|local] [--down]
#
# The procedure is run_demo in operations/bundle/demo/__main__.py. Its steps, with modules of operations/bundle:
#   1. read the command line, choose docker or local, check the inputs   demo/mode.py demo/inputs.py
#   2. local: environments, a full decode of the inputs, the weights     demo/prepare.py
#      docker: build the images that are missing                         compose/containers.py
#   3. start what is not running, wait until it is ready                 local_mode/services.py compose/containers.py
#   4. parse each document: Markdown to stdout, files to --out           parser_client.py demo/outputs.py
#   5. say how to stop; after an error or Ctrl-C stop what it started
set -euo pipefail
# shellcheck source=scripts/lib/python.sh
source "$(dirname -- "${BASH_SOURCE[0]}")/lib/python.sh"
run_on_node demo "$@"
