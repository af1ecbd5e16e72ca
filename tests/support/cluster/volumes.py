# SPDX-License-Identifier: Apache-2.0
"""What a pod's volumes are on the node, as the kubelet makes them: for the group fsGroup, open to it."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.support.kubernetes import Facts

SIZES = {"Mi": 20, "Gi": 30}


def size(text: str) -> int:
    """`64Mi` in bytes."""
    found = re.fullmatch(r"(\d+)(Mi|Gi)", text)
    assert found, f"{text!r}: expected a size like 64Mi or 2Gi"
    return int(found[1]) << SIZES[found[2]]


class Volumes:
    """The volumes of one pod; `sources` has a source for the engine's --volume by volume name.

    `claims` and `secrets` are the cluster's: folders by claim, and texts by Secret and key.
    """

    def __init__(
        self,
        spec: Facts,
        folder: Path,
        pod: str,
        docker: Callable[..., Any],
        claims: Mapping[str, Path],
        secrets: Mapping[str, Mapping[str, str]],
    ) -> None:
        self._docker, self._folder, self._pod = docker, folder, pod
        self._group = spec["securityContext"]["fsGroup"]
        self._in_memory: list[str] = []
        self.sources: dict[str, str] = {}
        self._read_only: set[str] = set()
        for volume in spec.get("volumes", ()):
            name = volume["name"]
            (kind,) = volume.keys() - {"name"}
            given = volume[kind]
            if kind == "emptyDir":
                self.sources[name] = self._memory(name, given) if given.get("medium") else self._disk(name)
            elif kind == "persistentVolumeClaim":
                self.sources[name] = str(claims[given["claimName"]])
                if given.get("readOnly"):
                    self._read_only.add(name)
                else:
                    self._give(claims[given["claimName"]])
            elif kind == "secret":
                self.sources[name] = self._secret(name, secrets[given["secretName"]], given["defaultMode"])
                self._read_only.add(name)
            else:
                raise AssertionError(f"volume {name} of {pod}: {kind} is not known here")

    def words(self, container: Facts) -> list[str]:
        """The container's mounts for `docker run`."""
        found = []
        for mount in container.get("volumeMounts", ()):
            assert mount.keys() <= {"name", "mountPath", "readOnly"}, mount
            read_only = mount.get("readOnly", False)
            assert read_only or mount["name"] not in self._read_only, f"{mount}: the volume is read-only"
            source = self.sources[mount["name"]]
            # The engine would give a volume the owner and mode that the image's folder there has.
            mode = ("ro" if read_only else "rw") + (",nocopy" if source in self._in_memory else "")
            found += ["--volume", f"{source}:{mount['mountPath']}:{mode}"]
        return found

    def keep(self) -> list[str]:
        """Mounts for the container that lives as long as the pod: volumes in memory live while somebody has them."""
        return [word for name in self._in_memory for word in ("--volume", f"{name}:/kept/{name}")]

    def remove(self) -> None:
        for name in self._in_memory:
            self._docker("volume", "rm", "--force", name, check=False)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _memory(self, name: str, given: Facts) -> str:
        found = f"{self._pod}-{name}"
        options = f"size={size(given['sizeLimit'])},mode=2777,gid={self._group}"
        driver = ("--driver", "local", "--opt", "type=tmpfs", "--opt", "device=tmpfs", "--opt", f"o={options}")
        self._docker("volume", "create", *driver, found)
        self._in_memory.append(found)
        return found

    def _disk(self, name: str) -> str:
        path = self._folder / name
        path.mkdir(parents=True)
        self._give(path, 0o2777)
        return str(path)

    def _give(self, path: Path, mode: int = 0o2770) -> None:
        os.chown(path, 0, self._group)
        path.chmod(mode)

    def _secret(self, name: str, texts: Mapping[str, str], mode: int) -> str:
        """Files behind links, as the kubelet lays them out so that it can change all of them at once."""
        path = self._folder / name
        (path / "..now").mkdir(parents=True)
        (path / "..data").symlink_to("..now")
        for key, text in texts.items():
            file = path / "..now" / key
            file.write_text(text)
            file.chmod(mode | 0o040)  # fsGroup reads
            os.chown(file, 0, self._group)
            (path / key).symlink_to(f"..data/{key}")
        for folder in (path, path / "..now"):
            self._give(folder, 0o2755)
        return str(path)
