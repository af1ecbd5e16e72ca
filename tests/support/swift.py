# SPDX-License-Identifier: Apache-2.0
"""A real S3 server that can be killed: OpenStack Swift with its s3api, in the environment of the tests' S3 servers.

Four servers on loopback, as on one node of a cluster: accounts, containers, objects, and the proxy that clients ask.
Each object is a file in a temporary folder, with its metadata in extended attributes. So what was stored outlives them.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.parse
from collections.abc import Iterator
from functools import partial

from free_ports import free_port
from tests.support import s3
from tests.support.processes import child_environment
from tests.support.s3 import PYTHON, REGION, BucketServer
from tests.support.wait import wait_for

KEYS = {"AWS_ACCESS_KEY_ID": "test:tester", "AWS_SECRET_ACCESS_KEY": "testing", "AWS_DEFAULT_REGION": REGION}
NAMES_A_PAGE = 20  # of a listing; by default 1,000
STORES = ("account", "container", "object")
SECTIONS = {
    # Part of every file's place: they must not change while there are objects.
    "swift": """
        [swift-hash]
        swift_hash_path_prefix = tests
        swift_hash_path_suffix = tests
        [storage-policy:0]
        name = one
        default = yes
        """,
    "store": """
        [DEFAULT]
        bind_ip = 127.0.0.1
        bind_port = {port}
        workers = 0
        user = {user}
        swift_dir = {folder}/etc
        devices = {folder}/srv
        mount_check = false
        disable_fallocate = true
        log_level = WARNING
        [pipeline:main]
        pipeline = {name}-server
        [app:{name}-server]
        use = egg:swift#{name}
        """,
    "proxy": """
        [DEFAULT]
        bind_ip = 127.0.0.1
        bind_port = {port}
        workers = 0
        user = {user}
        swift_dir = {folder}/etc
        log_level = WARNING
        [pipeline:main]
        pipeline = catch_errors listing_formats s3api tempauth slo proxy-server
        [app:proxy-server]
        use = egg:swift#proxy
        error_suppression_interval = 1
        allow_account_management = true
        account_autocreate = true
        [filter:catch_errors]
        use = egg:swift#catch_errors
        [filter:listing_formats]
        use = egg:swift#listing_formats
        [filter:s3api]
        use = egg:swift#s3api
        s3_acl = no
        max_bucket_listing = {names}
        location = {region}
        [filter:tempauth]
        use = egg:swift#tempauth
        user_test_tester = testing .admin
        [filter:slo]
        use = egg:swift#slo
        """,
}
# Where everything lies: in one part, on one device, once.
RINGS = """
import sys
from swift.common.ring import RingBuilder
for name, port in (word.split("=") for word in sys.argv[2:]):
    builder = RingBuilder(part_power=0, replicas=1, min_part_hours=1)
    device = {"region": 1, "zone": 1, "ip": "127.0.0.1", "port": int(port), "device": "d1", "weight": 1.0}
    builder.add_dev(device)
    builder.rebalance()
    builder.get_ring().save(f"{sys.argv[1]}/{name}.ring.gz")
"""


def missing() -> str:
    """Why there can be no Swift here; "" if there can."""
    if s3.MISSING or not PYTHON.with_name("swift-proxy-server").exists():
        return "the environment s3 is missing; make it with: scripts/setup_env.sh s3"
    with tempfile.NamedTemporaryFile() as file:
        try:
            os.setxattr(file.name, "user.swift", b"x" * 1000)
        except OSError as error:
            return f"Swift needs extended attributes in {tempfile.gettempdir()}: {error.strerror}"
    return ""


class SwiftServer(BucketServer):
    """``kill`` is SIGKILL for all four servers; ``start`` brings them back with what was stored."""

    def __init__(self) -> None:
        super().__init__(KEYS)
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._ports = {name: free_port() for name in STORES}
        (self.folder / "etc").mkdir()
        (self.folder / "srv/d1").mkdir(parents=True)
        self._configure("swift", "swift")
        self._configure("proxy", "proxy", port=self.port)
        for name, port in self._ports.items():
            self._configure(name, "store", port=port)
        words = [f"{name}={port}" for name, port in self._ports.items()]
        made = subprocess.run([PYTHON, "-c", RINGS, self.folder / "etc", *words], capture_output=True, text=True)
        assert not made.returncode, made.stderr
        self.start()

    def start(self) -> None:
        # The proxy comes last: it does not ask a store for a while that failed it ten times.
        for names in (STORES, ("proxy",)):
            self._running |= {name: self._run(name) for name in names}
            for name in names:
                wait_for(partial(self._answers, name), what=f"Swift's {name} server")

    def kill(self) -> None:
        for process in self._running.values():
            process.kill()
        for process in self._running.values():
            process.wait()
        self._running = {}

    def start_if_killed(self) -> None:
        if not self._running:
            self.start()

    def end(self) -> None:
        self.kill()
        shutil.rmtree(self.folder)

    @contextlib.contextmanager
    def without(self, name: str) -> Iterator[None]:
        """Kill one of `STORES`; the others stay."""
        self._running[name].kill()
        self._running[name].wait()
        try:
            yield
        finally:
            self._running[name] = self._run(name)
            wait_for(partial(self._answers, name), what=f"Swift's {name} server")

    def leave_out(self, url: str, key: str) -> None:
        """Let no listing name an object below ``url``, as when Swift is killed between the object and its listing."""
        path = urllib.parse.quote(f"/d1/0/AUTH_test/{url.removeprefix('s3://')}/{key}")
        connection = http.client.HTTPConnection("127.0.0.1", self._ports["container"])
        connection.request("DELETE", path, headers={"X-Timestamp": f"{time.time():.5f}"})
        assert connection.getresponse().status == 204
        connection.close()

    def _configure(self, name: str, section: str, **values: object) -> None:
        user = pwd.getpwuid(os.geteuid()).pw_name
        text = SECTIONS[section].format(
            name=name, user=user, folder=self.folder, region=REGION, names=NAMES_A_PAGE, **values
        )
        (self.folder / f"etc/{name}.conf").write_text("\n".join(line.strip() for line in text.splitlines()))

    def _run(self, name: str) -> subprocess.Popen[bytes]:
        with (self.folder / "log").open("ab") as log:
            return subprocess.Popen(
                [PYTHON, PYTHON.with_name(f"swift-{name}-server"), self.folder / f"etc/{name}.conf", "verbose"],
                env=child_environment(),
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _answers(self, name: str) -> bool:
        assert all(process.poll() is None for process in self._running.values()), (self.folder / "log").read_text()
        address = ("127.0.0.1", self._ports.get(name, self.port))
        with contextlib.suppress(OSError), socket.create_connection(address, timeout=1):
            return True
        return False
