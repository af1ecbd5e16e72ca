# SPDX-License-Identifier: Apache-2.0
"""Texts of .env by chance, and what Compose makes of them: tests compare bundle.envfile with it."""

from __future__ import annotations

import json
import random
import subprocess
from collections.abc import Mapping
from pathlib import Path

from bundle import envfile
from tool_errors import UsageError

ENVIRONMENT = {"HOME": "/users/operator", "SET": "from the shell", "EMPTY": ""}
NAMES = ("A", "B", "C_1", *ENVIRONMENT)
NAME = ("A", "B", "C_1", "UNSET", *ENVIRONMENT)
WORDS = ("x", "two words", "models", "/", "#", " ", "\t", ".", ":", "=", "é", "0", "-", "+", "?", "}", "{", "$", " #")
QUOTED = ("\\n", "\\t", "\\\\", "\\$", "\\x", "\\0101", "\\'", '\\"', "\n", "$$")
STATEMENTS = ("", "# a comment", "  # another", "A", "  B  ", "export C_1", "UNSET", "A B", "A!=1", "\t")
SHOWN = ", ".join(f'{name}: "${{{name}-(unset)}}"' for name in NAMES)
COMPOSE = f"services: {{s: {{image: x, environment: {{{SHOWN}}}}}}}"


def variable(chance: random.Random, depth: int = 0) -> str:
    name = chance.choice(NAME)
    kind = chance.randrange(5)
    if kind == 0:
        return f"${name}"
    if kind == 1 or depth > 2:
        return f"${{{name}}}"
    # Until 2026 Compose also read the word that it does not take, and ended where that was required or broken.
    sign = chance.choice((":-", "-", ":+", "+", *(() if depth else (":?", "?"))))
    return f"${{{name}{sign}{value(chance, depth + 1)}}}"


def value(chance: random.Random, depth: int = 0) -> str:
    parts = [
        variable(chance, depth) if chance.random() < 0.35 else chance.choice(WORDS[:-3] if depth else WORDS)
        for _ in range(chance.randrange(4))
    ]
    return "".join(parts)


def statement(chance: random.Random) -> str:
    if chance.random() < 0.15:
        return chance.choice(STATEMENTS)
    text = value(chance)
    if quote := chance.choice(("", "", "'", '"')):
        text = "".join(
            part if chance.random() < 0.7 else chance.choice(QUOTED) for part in (text[:3], text[3:], "", "")
        )
        end = "" if chance.random() < 0.05 else quote
        text = f"{quote}{text}{end}" + chance.choice(("", "", " ", " # after", "#", " B=2"))
    name = chance.choice(("A", "B", "C_1"))
    return (
        chance.choice(("", "", "", " ", "export ", "export\t"))
        + name
        + chance.choice(("=", "=", " = ", "= ", ": "))
        + text
    )


def some(seed: int) -> str:
    """A text that ends with a newline. Where none ends it, Compose drops a name alone without a word."""
    chance = random.Random(seed)
    lines = [statement(chance) for _ in range(chance.randrange(1, 6))]
    return chance.choice(("\n", "\n", "\r\n")).join(lines) + "\n"


def ours(text: str) -> dict[str, str] | None:
    """What each of NAMES is for our scripts; None where the file is refused."""
    try:
        values = {**envfile.parse(text, ENVIRONMENT), **ENVIRONMENT}
    except UsageError:
        return None
    return {name: values.get(name, "(unset)") for name in NAMES}


def composes(program: str, text: str, folder: Path, outer: Mapping[str, str]) -> dict[str, str] | None:
    """The same for Compose. ``program`` is its plugin; ``outer`` is what the program itself needs."""
    (folder / "compose.yaml").write_text(COMPOSE)
    (folder / "some.env").write_text(text, newline="")
    words = [program, "-f", "compose.yaml", "-p", "texts", "--env-file", "some.env", "config", "--format", "json"]
    env = {**outer, **ENVIRONMENT}
    done = subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        assert (
            "some.env" in done.stderr
            or "variable" in done.stderr
            or "template" in done.stderr
            or "setenv" in done.stderr
        ), done.stderr
        return None
    found = json.loads(done.stdout)["services"]["s"]["environment"]
    return {name: found[name].replace("$$", "$") for name in NAMES}
