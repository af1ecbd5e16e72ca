# SPDX-License-Identifier: Apache-2.0
# Sourced by the scripts: runs a module of scripts/bundle under Python 3.11.
# shellcheck shell=bash

ROOT="$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd)"

# What the environments and their locks are made for, and what preflight and its like run on too: openEuler 22.03 has 3.9.
ENVIRONMENTS_PYTHON='sys.version_info[:2] == (3, 11)'
NODE_PYTHON='sys.version_info[:2] >= (3, 9)'

# find_python CONDITION: the first Python that meets it.
find_python() {
    local candidate
    for candidate in "${PYTHON:-}" python3.11 /usr/bin/python3.11 python3; do
        if [[ -n "$candidate" ]] && "$candidate" -c "import sys; sys.exit(not ($1))" >/dev/null 2>&1; then
            printf '%s\n' "$candidate"
            return
        fi
    done
    echo "error: Python 3.11 was not found (found: $(python3 --version 2>&1 || echo none)). Install it," \
        "e.g. apt-get install python3.11 python3.11-venv, or set PYTHON to its path." >&2
    exit 2
}

# run_module NAME ARGS...: replaces this shell, so that signals reach Python itself.
run_module() {
    run_with "$ENVIRONMENTS_PYTHON" "$@"
}

# The same for what a node needs that only runs the containers.
run_on_node() {
    run_with "$NODE_PYTHON" "$@"
}

run_with() {
    local python
    python="$(find_python "$1")"
    shift
    # The environments keep their bytecode whatever the caller's shell says: without it each of vLLM's processes
    # compiles thousands of modules anew at every start.
    unset PYTHONDONTWRITEBYTECODE
    export PYTHONPATH="$ROOT/scripts${PYTHONPATH:+:$PYTHONPATH}"
    exec "$python" -m "bundle.$1" "${@:2}"
}
