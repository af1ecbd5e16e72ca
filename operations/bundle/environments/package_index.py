# SPDX-License-Identifier: Apache-2.0
"""What the package index has: asked by our own requests, and by uv for the links of wheels."""

from __future__ import annotations

import html
import re
import ssl
import subprocess
import urllib.parse
import urllib.request
from pathlib import Path

from bundle.environments.uv import pip_command, registry_environment
from bundle.paths import ENVS_DIR

# This Python has pip.
BOOTSTRAP = ENVS_DIR / "bootstrap" / "bin" / "python"
# Of the last Python 3.11: a lock's entry may want a late one.
PYTHON = "3.11.20"
WHEEL = re.compile(r'url = "([^"]+\.whl)"[^\n]*?sha256 = "([0-9a-f]{64})"')


def index_url() -> str:
    """Address of the package index: what pip is configured for, or else pip's own default."""
    code = "from pip._internal.models.index import PyPI; print(PyPI.simple_url)"
    return (
        registry_environment().get("UV_DEFAULT_INDEX")
        or subprocess.run([str(BOOTSTRAP), "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    )


def index_opener() -> tuple[str, urllib.request.OpenerDirector]:
    """The index's address without its login, and what asks there as pip and uv do: with the login, which no other host
    gets, and by the site's certificates."""
    env, parts = registry_environment(), urllib.parse.urlsplit(index_url())
    login, _, place = parts.netloc.rpartition("@")
    logins = urllib.request.HTTPPasswordMgrWithPriorAuth()
    if login:
        user, password = map(urllib.parse.unquote, login.partition(":")[::2])
        logins.add_password(None, f"{parts.scheme}://{place}/", user, password, is_authenticated=True)
    context = ssl.create_default_context(cafile=env.get("SSL_CERT_FILE"))
    if {place, parts.hostname} & set(env.get("UV_INSECURE_HOST", "").split()):
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    handlers = urllib.request.HTTPBasicAuthHandler(logins), urllib.request.HTTPSHandler(context=context)
    return parts._replace(netloc=place).geturl(), urllib.request.build_opener(*handlers)


def with_login(url: str, indexes: list[str]) -> str:
    """The address with the login that one of the indexes has for its host; uv tells addresses without."""
    parts = urllib.parse.urlsplit(url)
    for index in indexes:
        login, _, place = urllib.parse.urlsplit(index).netloc.rpartition("@")
        if login and place == parts.netloc:
            return parts._replace(netloc=f"{login}@{place}").geturl()
    return url


def wheel_links(requirements: Path, platform: str) -> str:
    """A page for pip's `--find-links`: the wheels for `platform` (uv's name of it) of what the file names; empty where
    uv cannot tell.

    Why: pip weighs every file that the index has of a package. It takes 0.3 s of processor time for a package, uv a
    second for all.
    """
    words = ["compile", "--quiet", "--no-deps", "--only-binary", ":all:", "--format", "pylock.toml"]
    words += ["--python-version", PYTHON, "--python-platform", platform, str(requirements)]
    env, command = registry_environment(), pip_command(BOOTSTRAP, words)
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    indexes = [index_url(), *env.get("UV_INDEX", "").split()]
    return "".join(
        f'<a href="{html.escape(with_login(url, indexes))}#sha256={digest}">{url.rpartition("/")[2]}</a>\n'
        for url, digest in WHEEL.findall(done.stdout)
    )
