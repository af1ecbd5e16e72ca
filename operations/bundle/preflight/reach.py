# SPDX-License-Identifier: Apache-2.0
"""Who can reach the parser: its port, its address, its keys."""

from __future__ import annotations

import errno
import json
import re
from collections.abc import Iterator

import declared_settings
from bundle.compose import project
from bundle.compose.images import PARSER
from bundle.preflight.machine import AS_ROOT, Finding, Machine, dotted, passed
from env_values import WrongValue, open_to

# Before it a machine on the same switch that sets a route to a container reaches a port published on loopback too
# (moby#45610).
TIGHT_ENGINE = (28, 0)
MOUNT = "/var/lib/paddleocr-vl"
# The parser reads what may follow the hash: docparser/clients/keys.py.
KEY = re.compile(r"sha256:[0-9a-f]{64}(\s|$)")


def is_ours(machine: Machine) -> bool:
    """Tell whether this project's parser runs; then it is the one that listens."""
    rows = machine.run("docker", "compose", "ps", "--format", "json", "parser") or ""
    return any(json.loads(line).get("State") == "running" for line in rows.splitlines() if line.startswith("{"))


def check_port(machine: Machine) -> Iterator[Finding]:
    try:
        host = declared_settings.text(machine.values, "PARSER_BIND")
        port = declared_settings.port(machine.values, "PARSER_PORT")
    except WrongValue:
        return  # host.check_settings says it
    if ":" in host and not host.startswith("["):
        yield Finding(
            "FAIL", "port", f"PARSER_BIND is {host}", "brackets around an IPv6 address", f"PARSER_BIND=[{host}] in .env"
        )
        return
    error = machine.port_trouble(host, port)
    if error is None:
        yield passed("port", f"{port} on {host} is free")
    elif error.errno in (errno.EADDRINUSE, errno.EACCES) and is_ours(machine):
        yield passed("port", f"{port} on {host} is our parser's")
    elif error.errno == errno.EACCES:
        said = f"this user may not listen on {port}, so whether it is free on {host} is not known"
        yield Finding("WARN", "port", said, "a user who may, to check it", AS_ROOT)
    elif error.errno != errno.EADDRINUSE:
        yield Finding(
            "FAIL",
            "port",
            f"nobody can listen on {host} here ({error.strerror})",
            "an address of this node, or 0.0.0.0 for all",
            "ip address shows this node's; set PARSER_BIND in .env",
        )
    else:
        yield Finding(
            "FAIL",
            "port",
            f"{port} on {host} is taken",
            "a free port",
            f"ss -ltnp 'sport = :{port}' shows who listens; end that, or set PARSER_PORT in .env",
        )


def kept_keys(machine: Machine, volume: str) -> int:
    """Return how many keys the parser's own command has put into its volume; 0 also if there is no volume, image or
    engine."""
    if not machine.run("docker", "volume", "inspect", volume):
        return 0
    # `run` would ask a registry for an image that is not there, and run what it got.
    words = ("docker", "run", "--rm", "--pull", "never", "--network", "none", "-v", f"{volume}:{MOUNT}:ro")
    program = ("--entrypoint", "python", PARSER, "-m", "docparser.api_keys")
    listed = machine.run(*words, *program, "--file", f"{MOUNT}/data/api_keys", "list")
    return len((listed or "").splitlines())


def check_keys(machine: Machine) -> Iterator[Finding]:
    """Check what the parser checks when it starts: that entries of keys are well formed, and that there are keys if
    others can reach it."""
    volume = f"{project.name(machine.values)}_parser-state"
    entries = [entry.strip() for entry in machine.setting("PARSER_API_KEYS").split(",") if entry.strip()]
    file, off = machine.setting("PARSER_API_KEYS_FILE"), machine.setting("PARSER_AUTH") == "off"
    host = machine.setting("PARSER_BIND")
    origins = {origin.strip() for origin in machine.setting("PARSER_ALLOWED_ORIGINS").split(",")}
    others = open_to(host, machine.setting("PUBLIC_URL"), origins)
    engine = project.version(machine.run("docker", "version", "--format", "{{.Server.Version}}") or "")
    leaks = () < engine < TIGHT_ENGINE
    make = "docker compose run --rm --no-deps parser python -m docparser.api_keys make --name NAME makes one"
    wrong = [number for number, entry in enumerate(entries, 1) if not KEY.match(entry)]
    said = "not asked for (PARSER_AUTH=off)" if off else f"{len(entries)} in PARSER_API_KEYS" if entries else ""
    if wrong:
        # The entry itself may be a key in plain text, so it is not shown.
        yield Finding("FAIL", "keys", f"PARSER_API_KEYS: entry {wrong[0]} is no hash", "sha256:<64 hex digits>", make)
    elif said or file:
        yield passed("keys", said or f"in {file}")
    elif (others or leaks) and (kept := kept_keys(machine, volume)):
        yield passed("keys", f"{kept} in the volume {volume}")
    elif others:
        yield Finding(
            "FAIL",
            "keys",
            f"the parser would be open to {others}, and there are no keys",
            "keys where other machines or web pages reach the parser",
            f"{make}; or PARSER_AUTH=off behind a proxy that asks for keys",
        )
    elif leaks:
        yield Finding(
            "WARN",
            "keys",
            f"there are none, and Docker {dotted(engine)} lets neighbours on the same switch reach a port on {host}",
            f"a key, or Docker {dotted(TIGHT_ENGINE)} or newer",
            f"{make}; or update Docker",
        )
    else:
        yield passed("keys", f"none needed, only {host} is open")


CHECKS = (check_port, check_keys)
