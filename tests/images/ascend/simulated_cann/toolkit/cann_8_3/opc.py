# SPDX-License-Identifier: Apache-2.0
"""Simulated: CANN's opc OPERATOR.py --soc_version=S --output=FOLDER, which calls the device compiler for an operator.

The source lies beside the operator's Python file, where upstream's own steps put it; options come from that file.
"""

import json
import pathlib
import subprocess
import sys

script = pathlib.Path(sys.argv[1])
options = dict(word.removeprefix("--").split("=", 1) for word in sys.argv[2:])
described = json.loads(script.read_text())
source = script.parent / f"{described['file']}.cpp"
if not source.is_file():
    sys.exit(f"simulated opc: {source} is missing")
output = pathlib.Path(options["output"]) / f"{described['type']}.o"
command = ["bisheng", "-c", f"--cce-soc-version={options['soc_version']}", *described["options"]]
# As in the Python files that CANN generates: the operator's own folder, and what upstream copies for all of them.
folders = ["-I", str(script.parent), "-I", str(script.parents[1] / "ascendc/common")]
sys.exit(subprocess.call([*command, *folders, "-o", str(output), str(source)]))
