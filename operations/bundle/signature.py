# SPDX-License-Identifier: Apache-2.0
"""Signatures of files by a site's own key, made and checked by `ssh-keygen`, which every node has. No network.

`FILE.sig` lies beside FILE. Who may sign stands in a file of signers (ALLOWED SIGNERS in ssh-keygen's manual): a line
`NAME KEY` for each.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import IO

from bundle.progress import last_line
from tool_errors import EnvironmentSetupError, UsageError

# A signature made for anything else, such as a git commit, is none for a release.
NAMESPACE = "paddleocr-vl"


def beside(path: Path) -> Path:
    """Where the signature of a file lies."""
    return path.with_name(f"{path.name}.sig")


def ssh_keygen(*words: str, stdin: IO[bytes] | None = None) -> subprocess.CompletedProcess[str]:
    """Run `ssh-keygen -Y WORDS`. Raises EnvironmentSetupError where there is none."""
    try:
        return subprocess.run(["ssh-keygen", "-Y", *words], stdin=stdin, capture_output=True, text=True, check=False)
    except OSError as error:
        raise EnvironmentSetupError(
            f"ssh-keygen cannot be run ({error.strerror}); install OpenSSH 8.2 or newer"
        ) from error


def sign(path: Path, key: Path) -> Path:
    """Sign a file with a private key, or with a public one whose private half an agent holds; returns the signature.

    Raises UsageError for a key that cannot be used.
    """
    beside(path).unlink(missing_ok=True)
    answer = ssh_keygen("sign", "-f", str(key), "-n", NAMESPACE, str(path))
    if answer.returncode:
        said = last_line(answer.stderr, answer.stdout)
        raise UsageError(f"--sign {key}: expected a key that ssh-keygen can sign with; it says: {said}")
    return beside(path)


def verify(path: Path, signers: Path) -> str:
    """Return the name of who signed a file. Raises UsageError where nobody in `signers` did, or the file changed."""
    signature = beside(path)
    for needed in (path, signature, signers):
        if not needed.is_file():
            raise UsageError(f"--signers: {needed} is not there; {path.name} is not used without its signature")
    found = ssh_keygen("find-principals", "-s", str(signature), "-f", str(signers))
    if found.returncode or not found.stdout.strip():
        raise UsageError(f"no signer in {signers} made the signature {signature}; {path.name} was refused")
    name = found.stdout.splitlines()[0].strip()
    with path.open("rb") as stream:
        words = ("verify", "-f", str(signers), "-I", name, "-n", NAMESPACE, "-s", str(signature))
        answer = ssh_keygen(*words, stdin=stream)
    if answer.returncode:
        said = last_line(answer.stderr, answer.stdout)
        raise UsageError(f"{path} is not what {name} signed ({said}); it is not used. Copy it again")
    return name
