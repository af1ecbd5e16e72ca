# SPDX-License-Identifier: Apache-2.0
"""The service's own code, which is not in the environment of the browser."""

from __future__ import annotations

import json
import subprocess
from typing import Any

from tests.support.parser_process import PYTHON
from tests.support.processes import child_environment


def by_service(code: str, given: Any = None) -> Any:
    """``answer`` of the code, which knows ``given``."""
    code = f"import json, sys\ngiven = json.load(sys.stdin)\n{code}\nprint(json.dumps(answer))"
    done = subprocess.run(
        [PYTHON, "-c", code],
        input=json.dumps(given),
        env=child_environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)
