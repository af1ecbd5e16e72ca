# SPDX-License-Identifier: Apache-2.0
"""Files that a site gives to its system's own programs pass those programs' checks: units, and the proxy of the guide.

promtool's part is in test_alerts.py, HAProxy's in test_pods_behind_haproxy.py, Compose's in tests/images.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.support.docs import all_blocks, guide
from tests.support.paths import ROOT
from tests.support.system_packages import found, needs

UNITS = sorted(ROOT.glob("config/systemd/*"))
PROXIES = [block for page in guide() for block in all_blocks(page) if block.language == "nginx"]


@needs("systemd")
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_systemd_takes_the_unit(tmp_path: Path, unit: Path):
    """Docker, which this machine may lack, is a program that is always there, and a unit that does nothing."""
    (tmp_path / "docker.service").write_text("[Service]\nExecStart=/bin/true\n")
    copy = tmp_path / unit.name
    copy.write_text(unit.read_text())
    # systemd 243 of openEuler 20.03 and Kylin V10 refuses this pair, which newer ones take.
    assert not ("Type=oneshot" in unit.read_text() and "\nRestart=" in unit.read_text())
    done = subprocess.run(["systemd-analyze", "verify", copy], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and unit.name not in done.stderr, done.stderr
    # The folder that they are relative to is the unit's WorkingDirectory.
    for script in re.findall(r"\bscripts/[\w.]+", unit.read_text()):
        assert (ROOT / script).is_file()


@needs("nginx-light", "openssl")
def test_nginx_takes_the_proxy_of_the_guide(tmp_path: Path):
    made = (
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=x -keyout ocr.key -out ocr.pem"
    )
    subprocess.run(made.split(), cwd=tmp_path, capture_output=True, check=True)
    assert PROXIES
    for block in PROXIES:
        # Port 443 is for root alone.
        server = block.text.replace("/etc/ssl/", f"{tmp_path}/").replace("listen 443", "listen 127.0.0.1:8443")
        conf = tmp_path / "nginx.conf"
        places = "".join(f"{name}_temp_path {tmp_path}/{name};\n" for name in ("client_body", "proxy", "fastcgi"))
        places += f"uwsgi_temp_path {tmp_path}/uwsgi;\nscgi_temp_path {tmp_path}/scgi;\naccess_log off;\n"
        conf.write_text(f"pid {tmp_path}/pid;\nevents {{}}\nhttp {{\n{places}{server}}}\n")
        program = found("/usr/sbin/nginx")
        assert program
        words = (program, "-t", "-q", "-e", "stderr", "-c", str(conf))
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
