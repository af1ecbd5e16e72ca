# SPDX-License-Identifier: Apache-2.0
"""The parser starts, parses and draws without any network, in a namespace that has only a loopback."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import samples
from tests.support.namespaces import ISOLATED, works
from tests.support.processes import child_environment
from tests.support.wait import WAIT_S

# Runs inside the namespace, beside the service and the simulated VLM, which can only be reached there.
SCRIPT = """
import json, socket, sys
from pathlib import Path
from tests.support.namespaces import loopback_up
from tests.support.parser_process import running_service
from tests.support.simulated_vlm import SimulatedVlm
loopback_up()
folder, layout, file = Path(sys.argv[1]), sys.argv[2], sys.stdin.read()
try:
    socket.create_connection(("192.0.2.1", 80), timeout=1)
    sys.exit("there is a network")
except OSError:
    pass
settings = {"LAYOUT_MODEL_DIR": layout, "VLM_URL": SimulatedVlm().url, "HOME": str(folder / "home")}
with running_service(folder, **settings) as service:
    answer = service.parse(file, visualize=True, outputFormats=["docx"])
    print(json.dumps({"status": answer.status_code, "body": answer.json(), "log": service.log.read_text()}))
"""


@pytest.mark.skipif(not works(*ISOLATED, "true"), reason="network namespaces need unshare(1) and the right to use it")
def test_without_any_network(tmp_path: Path, layout_model: Path):
    ran = subprocess.run(
        [*ISOLATED, sys.executable, "-c", SCRIPT, str(tmp_path), str(layout_model)],
        input=samples.image(),
        text=True,
        capture_output=True,
        timeout=WAIT_S + 120,
        env=child_environment(PATH="/usr/bin:/bin", HOME=str(tmp_path / "home")),
    )
    assert ran.returncode == 0, ran.stderr
    answer = json.loads(ran.stdout)
    assert answer["status"] == 200, answer["body"]
    (entry,) = answer["body"]["result"]["layoutParsingResults"]
    assert entry["outputImages"]["layout_det_res"] and entry["exports"]["docx"]
    for word in ("Connecting to", "huggingface", "NameResolutionError", "Traceback"):
        assert word not in answer["log"], answer["log"]
