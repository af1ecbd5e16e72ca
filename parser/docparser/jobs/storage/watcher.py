# SPDX-License-Identifier: Apache-2.0
"""Whether the job store can be used: what watches it has one answer for readiness, submissions and log."""

from __future__ import annotations

import abc
import logging
import threading

from docparser.errors import DataDirFull, StorageUnavailable

log = logging.getLogger(__name__)


class Watcher(abc.ABC):
    """``look`` blocks on the disk; call it regularly, from one thread at a time. Any thread may read ``trouble``."""

    def __init__(self, place: str) -> None:
        """``place``: what cannot be used, in words, where an error does not say it."""
        self._place = place
        self._looking = threading.Lock()
        self.trouble = ""

    @abc.abstractmethod
    def close(self) -> None: ...

    def check(self) -> None:
        """Raises StorageUnavailable while there is trouble, also of a kind that `look` has not seen yet. Cheap."""
        if self.trouble:
            raise StorageUnavailable(self.trouble)

    def words(self) -> str:
        """The same as words; "" if there is no trouble."""
        try:
            self.check()
        except StorageUnavailable as exc:
            return str(exc)
        return ""

    def look(self) -> None:
        """Compare what is there with what was opened; mend it, or set ``trouble``."""
        with self._looking:
            try:
                self._look()
            except (StorageUnavailable, DataDirFull) as exc:
                self._set(str(exc))
            except OSError as exc:
                self._set(f"{self._place} cannot be used ({exc}).")
            else:
                self._set("")

    @abc.abstractmethod
    def _look(self) -> None: ...

    def _set(self, trouble: str) -> None:
        if trouble != self.trouble:
            log.error("%s Jobs wait.", trouble) if trouble else log.warning("the job database can be used again")
        self.trouble = trouble
