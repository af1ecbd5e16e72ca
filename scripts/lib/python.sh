# SPDX-License-Identifier: Apache-2.0
# Sourced by the scripts: finds a Python and runs a module in it, mostly of operations/bundle.
# shellcheck shell=bash

# sudo on Red Hat's relatives leaves these folders out, where npu-smi is, and often docker and Python.
PATH="$PATH:/usr/local/sbin:/usr/local/bin"

# With it, cd prints its folder and may find another one.
unset CDPATH
ROOT="$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd)"

# The environments, their locks and what a developer runs are made for 3.11. What a node or a first try needs runs on any
# Python from 3.9 on, which openEuler 22.03 has; it says itself where it makes an environment and needs 3.11.
ENVIRONMENTS_PYTHON='sys.version_info[:2] == (3, 11)'
NODE_PYTHON='sys.version_info[:2] >= (3, 9)'

# find_python CONDITION: prints the first Python that meets it, or ends the script with status 2.
find_python() {
    local candidate wanted=3.11 remedy="scripts/setup_env.sh tools says which systems have it"
    if [[ "$1" == "$NODE_PYTHON" ]]; then
        wanted="3.9 or newer" remedy="apt-get install python3 python3-venv, or dnf install python3"
    fi
    for candidate in "${PYTHON:-}" python3.11 /usr/bin/python3.11 python3; do
        if [[ -n "$candidate" ]] && "$candidate" -c "import sys; sys.exit(not ($1))" >/dev/null 2>&1; then
            printf '%s\n' "$candidate"
            return
        fi
    done
    echo "error: Python $wanted was not found (found: $(python3 --version 2>&1 || echo none)): $remedy;" \
        "or set PYTHON to its path" >&2
    exit 2
}

# run_module NAME ARGS...: replaces this shell by `python -m bundle.NAME ARGS...`, so that signals reach Python itself.
run_module() {
    run_with "$ENVIRONMENTS_PYTHON" "bundle.$1" "${@:2}"
}

# run_on_node NAME ARGS...: the same on any Python from 3.9 on.
run_on_node() {
    run_with "$NODE_PYTHON" "bundle.$1" "${@:2}"
}

# run_with CONDITION MODULE ARGS...: any module.
run_with() {
    local python
    python="$(find_python "$1")"
    shift
    # The environments keep their bytecode whatever the caller's shell says. Without it each of vLLM's processes compiles
    # thousands of modules at every start.
    unset PYTHONDONTWRITEBYTECODE
    export PYTHONPATH="$ROOT/operations:$ROOT/common${PYTHONPATH:+:$PYTHONPATH}"
    exec "$python" -m "$@"
}
