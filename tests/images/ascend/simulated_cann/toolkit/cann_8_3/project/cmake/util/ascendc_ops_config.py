# SPDX-License-Identifier: Apache-2.0
"""Simulated: list the compiled operators: -p FOLDER -s CHIP"""

import json
import pathlib
import sys

folder = pathlib.Path(sys.argv[sys.argv.index("-p") + 1])
compiled = sorted(str(path.relative_to(folder)) for path in folder.rglob("*.o"))
(folder / "binary_info_config.json").write_text(json.dumps(compiled))
