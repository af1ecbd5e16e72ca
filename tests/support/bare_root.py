# SPDX-License-Identifier: Apache-2.0
"""A minimal Debian in a folder, in which a command runs as on a machine that has nothing else (chroot).

It is Debian bookworm's smallest variant with what README names: bash, Python 3.11 with venv, and git and certificates
for the clone. It is made once in a folder of the caller's and copied for each `BareRoot`. Where packages of Debian and
of Python come from, this machine's own configuration says; it is handed in at run time.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from tests.support.engine.packages import KEYRING, archive
from tests.support.paths import ROOT

RELEASE = "bookworm"
# The last two are what apt takes for python3.11-venv's virtual needs, which debootstrap cannot find.
PACKAGES = ("python3.11", "python3.11-venv", "ca-certificates", "git", "python3-distutils", "python3-lib2to3")
USER = 1000
HOME = "/home/plain"
DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
PIP_SETTINGS = ("index-url", "extra-index-url", "find-links", "trusted-host", "no-index", "default-timeout")
CERTIFICATES = Path("/etc/ssl/certs/ca-certificates.crt")
CLONE_NEWNS = 0x20000  # linux/sched.h


class BareRootError(Exception):
    """This machine cannot make or enter a bare root; the message says why."""


@dataclass(frozen=True)
class Ran:
    """A command that ran: its exit status, output and time."""

    status: int
    stdout: str
    stderr: str
    seconds: float


def why_not() -> str:
    """Why there can be no bare root here; empty where there can."""
    if os.geteuid():
        return "a bare root needs root, for chroot and mounts"
    for program, package in (("debootstrap", "debootstrap"), ("mount", "mount"), ("chroot", "coreutils")):
        if shutil.which(program) is None:
            return f"{program} is missing; apt-get install {package}"
    if not Path(KEYRING).is_file():
        return f"{KEYRING} is missing; a bare root is made on Debian only"
    probe = subprocess.run(
        ["unshare", "--mount", "mount", "--bind", "/usr", "/mnt"], capture_output=True, text=True, check=False
    )
    return f"mounts are not allowed here ({probe.stderr.strip()})" if probe.returncode else ""


def pip_environment() -> dict[str, str]:
    """This machine's package indexes as pip's variables."""
    command = [sys.executable, "-m", "pip", "config", "list"]
    listed = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    found: dict[str, str] = {}
    for line in sorted(listed.splitlines(), key=lambda line: line.startswith(":env:")):
        key, _, value = line.partition("=")
        name = key.rpartition(".")[2]
        if name in PIP_SETTINGS:
            found[f"PIP_{name.upper().replace('-', '_')}"] = " ".join(value.strip("'\"").replace("\\n", " ").split())
    return found


def local_folders(settings: dict[str, str]) -> list[Path]:
    """The folders of this machine that its package indexes name."""
    words = (word for value in settings.values() for word in value.split())
    places = (Path(unquote(urlsplit(word).path) if word.startswith("file:") else word) for word in words)
    # An index lists its files relative to itself, so the folder above it counts too.
    folders = {place.parent if place.name == "simple" else place for place in places if place.is_absolute()}
    return sorted(folder for folder in folders if folder.is_dir())


def make_base(folder: Path) -> Path:
    """The root that others are copied from. Raises BareRootError with debootstrap's last line."""
    base = folder / f"{RELEASE}-base"
    if (folder / "made").is_file():
        return base
    shutil.rmtree(base, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    command = ["debootstrap", "--variant=minbase", f"--keyring={KEYRING}", f"--include={','.join(PACKAGES)}"]
    made = subprocess.run([*command, RELEASE, base, archive()], capture_output=True, text=True, check=False)
    if made.returncode:
        raise BareRootError(f"debootstrap: {(made.stdout + made.stderr).strip()[-500:]}")
    (folder / "made").touch()
    return base


@functools.cache
def own_mounts() -> None:
    """From now on what this process mounts is seen by it and its children alone, and goes with them, however they end:
    who cleans up after a killed run must not meet the machine's own folders in a root. Raises OSError."""
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNS):
        raise OSError(ctypes.get_errno(), "unshare(CLONE_NEWNS)")
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)


class BareRoot:
    """A copy of the bare root in `folder`. Use it as a context: at the end its processes and mounts are gone, and the
    folder too.
    """

    def __init__(self, folder: Path, cache: Path) -> None:
        self.folder = folder
        self._cache = cache
        self._mounts: list[Path] = []
        self._pip = pip_environment()

    def __enter__(self) -> BareRoot:
        own_mounts()
        base = make_base(self._cache)
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        # A real copy: what a command changes in place must not change the base.
        subprocess.run(["cp", "-a", base, self.folder], check=True)
        try:
            self._prepare()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _prepare(self) -> None:
        etc = self.folder / "etc"
        shutil.copyfile("/etc/resolv.conf", etc / "resolv.conf")
        shutil.copyfile("/etc/hosts", etc / "hosts")
        if CERTIFICATES.is_file():
            shutil.copyfile(CERTIFICATES, self.folder / "etc/ssl/certs/ca-certificates.crt")
        for name in ("apt.conf", "apt.conf.d"):
            source = Path("/etc/apt") / name
            if source.is_dir():
                shutil.copytree(source, etc / "apt" / name, dirs_exist_ok=True)
            elif source.is_file():
                shutil.copyfile(source, etc / "apt" / name)
        self._mount("-t", "proc", "proc", "/proc")
        self._mount("-t", "tmpfs", "-o", "mode=755,size=1m", "tmpfs", "/dev")
        for name in DEVICES:
            (self.folder / "dev" / name).touch()
            self._mount("--bind", f"/dev/{name}", f"/dev/{name}")
        for name, target in {"fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"}.items():
            (self.folder / "dev" / name).symlink_to(target)
        self._mount("-t", "tmpfs", "-o", "mode=1777,size=2g", "tmpfs", "/dev/shm")
        for folder in local_folders(self._pip):
            self._mount("--rbind", str(folder), str(folder), "-o", "ro")
        self.run(f"useradd --uid {USER} --create-home --home-dir {HOME} plain", cwd="/", check=True)

    def _mount(self, *words: str) -> None:
        options = list(words)
        target = self.folder / next(word for word in reversed(words) if word.startswith("/")).lstrip("/")
        if not target.exists():
            target.mkdir(parents=True)
        options[max(index for index, word in enumerate(words) if word.startswith("/"))] = str(target)
        subprocess.run(["mount", *options], check=True, capture_output=True)
        self._mounts.append(target)

    def clone(self, where: str, *, user: int = 0) -> None:
        """Clone this checkout's commits, with what is changed in it, to an absolute path of the root."""
        target = self.folder / where.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", str(ROOT), str(target)], check=True)
        changed = subprocess.check_output(["git", "diff", "HEAD", "--binary"], cwd=ROOT)
        if changed:
            subprocess.run(["git", "apply", "--index"], input=changed, cwd=target, check=True)
        if user:
            subprocess.run(["chown", "-R", f"{user}:{user}", str(target)], check=True)

    def run(
        self, command: str, *, user: int = 0, cwd: str = "/root", timeout: float = 600, check: bool = False, **env: str
    ) -> Ran:
        """Run a line of bash in the root, in an empty environment but for `env` and this machine's package indexes.

        Raises subprocess.TimeoutExpired, and CalledProcessError where `check` asks for it.
        """
        settings = {
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": HOME if user else "/root",
            "LANG": "C.UTF-8",
            "PIP_CERT": str(CERTIFICATES),
            "SSL_CERT_FILE": str(CERTIFICATES),
            **self._pip,
            **env,
        }
        words = [
            "chroot",
            f"--userspec={user}:{user}",
            str(self.folder),
            "/bin/bash",
            "-c",
            'cd "$0" && eval "$1"',
            cwd,
        ]
        began = time.monotonic()
        with subprocess.Popen(
            [*words, command],
            env=settings,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        ) as process:
            try:
                stdout, stderr = process.communicate(timeout=timeout)
            except BaseException:
                os.killpg(process.pid, signal.SIGKILL)
                raise
        ran = Ran(process.returncode, stdout, stderr, time.monotonic() - began)
        if check and ran.status:
            raise subprocess.CalledProcessError(ran.status, command, ran.stdout, ran.stderr)
        return ran

    def used(self) -> int:
        """Bytes that the root takes on its file system, without what is mounted in it."""
        listed = subprocess.run(
            ["du", "--summarize", "--block-size=1", "--one-file-system", *self._excluded(), str(self.folder)],
            capture_output=True,
            text=True,
            check=False,
        )
        return int(listed.stdout.split()[0])

    def _excluded(self) -> list[str]:
        return [f"--exclude={mount}" for mount in self._mounts]

    def processes(self) -> list[int]:
        """The processes that run in the root."""
        found = []
        for place in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                root = os.readlink(place / "root")
                if root == str(self.folder) or root.startswith(f"{self.folder}/"):
                    found.append(int(place.name))
        return found

    def __exit__(self, *_: object) -> None:
        deadline = time.monotonic() + 10
        while (left := self.processes()) and time.monotonic() < deadline:
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.1)
        for mount in reversed(self._mounts):
            subprocess.run(["umount", "--recursive", str(mount)], check=True, capture_output=True)
        self._mounts.clear()
        # Nothing of the machine is below it any more; --one-file-system for the case that something is.
        subprocess.run(["rm", "-rf", "--one-file-system", str(self.folder)], check=True)
