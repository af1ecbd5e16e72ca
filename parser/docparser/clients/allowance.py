# SPDX-License-Identifier: Apache-2.0
"""What a client may still use: its quotas against what it has used; and the metrics of clients."""

from __future__ import annotations

import collections
import contextlib
import threading
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter

from docparser.clients.key_ring import KeyRing
from docparser.clients.keys import AT_ONCE, RESOURCES, Key, Quota, shown_time
from docparser.clients.usage import UsageLedger, exceeded
from docparser.contract.service_answers import QuotaUse
from docparser.errors import DocumentTooLarge, QuotaExceeded

MOST_NAMES = 500  # clients beyond these share one series
ANONYMOUS = "anonymous"  # no key was needed, or none was accepted
OTHERS = "others"
RETRY_AT_ONCE_S = 5


class ClientMetrics:
    """Counts by the name of a client's key. The label has names of known keys only, so strangers make no series."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._names: set[str] = {ANONYMOUS}
        self._requests = Counter(
            "docparser_client_requests", "Requests by client and status.", ("client", "code"), registry=registry
        )
        self._used = Counter(
            "docparser_client_used",
            "What clients used: pages of opened documents, bytes of requests, jobs.",
            ("client", "resource"),
            registry=registry,
        )
        self._refused = Counter(
            "docparser_client_quota_refusals", "Refusals by quota.", ("client", "quota"), registry=registry
        )
        self._denied = Counter(
            "docparser_refused_requests", "Requests refused by who sent them.", ("reason",), registry=registry
        )
        for reason in ("host", "origin", "key_missing", "key_unknown", "key_expired"):
            self._denied.labels(reason)

    def request(self, name: str, status: int) -> None:
        self._requests.labels(self._bounded(name), str(status or 499)).inc()

    def used(self, name: str, resource: str, amount: int) -> None:
        if amount > 0:
            self._used.labels(self._bounded(name), resource).inc(amount)

    def refused(self, name: str, quota: str) -> None:
        self._refused.labels(self._bounded(name), quota).inc()

    def denied(self, reason: str) -> None:
        self._denied.labels(reason).inc()

    def _bounded(self, name: str) -> str:
        name = name or ANONYMOUS
        if name not in self._names and len(self._names) >= MOST_NAMES:
            return OTHERS
        self._names.add(name)
        return name


class Allowance:
    """Clients are named by their id; "" is everybody where no key is needed, who has no quotas.

    Methods block on the disk if the client has a quota.
    """

    def __init__(self, ring: KeyRing, ledger: UsageLedger, metrics: ClientMetrics) -> None:
        self._ring = ring
        self._ledger = ledger
        self._metrics = metrics
        self._lock = threading.Lock()
        self._at_once: collections.Counter[str] = collections.Counter()
        self._arriving: collections.Counter[str] = collections.Counter()  # bytes of requests that have not ended

    def name(self, client: str) -> str:
        key = self._ring.client(client) if client else None
        return key.name if key else client

    def has_quotas(self, client: str) -> bool:
        return bool(self._quotas(client))

    def enter(self, client: str) -> None:
        """Take a place of those at once, until ``leave``. Raises QuotaExceeded."""
        with self._lock:
            for quota in self._quotas(client, AT_ONCE):
                if self._at_once[client] >= quota.most:
                    self._metrics.refused(self.name(client), quota.name)
                    error = QuotaExceeded(
                        f"The quota {quota} of the key {self.name(client)!r} does not allow this: "
                        f"{self._at_once[client]} of its requests are being worked on; wait for one of them."
                    )
                    error.quota, error.limit, error.used = quota.name, quota.most, self._at_once[client]
                    error.retry_after_s = RETRY_AT_ONCE_S
                    raise error
            self._at_once[client] += 1

    def leave(self, client: str) -> None:
        with self._lock:
            self._at_once[client] -= 1
            if not self._at_once[client]:
                del self._at_once[client]

    def check(self, client: str, resource: str, amount: int = 1) -> None:
        """Raises QuotaExceeded if ``amount`` is more than what is left; counts nothing."""
        for quota in self._quotas(client, resource):
            used = self._ledger.used(client, quota) + (self._arriving[client] if resource == "bytes" else 0)
            if used + amount > quota.most:
                self._metrics.refused(self.name(client), quota.name)
                raise exceeded(quota, self.name(client), used, amount, self._ledger.now())

    def spend(self, client: str, resource: str, amount: int = 1, *, reference: str = "", force: bool = False) -> None:
        """Count ``amount``; with a ``reference`` only once. Raises QuotaExceeded unless the work is done already."""
        wanted = [(quota, amount) for quota in self._quotas(client, resource)]
        if wanted:
            try:
                self._ledger.spend(client, self.name(client), wanted, reference=reference, force=force)
            except QuotaExceeded as exc:
                self._metrics.refused(self.name(client), exc.quota)
                raise
        if resource != "requests":  # counted for everybody, with their status
            self._metrics.used(self.name(client), resource, amount)

    @contextlib.contextmanager
    def spending(self, client: str, resource: str) -> Iterator[None]:
        """``spend`` one, which is given back if the body raises. Raises QuotaExceeded."""
        self.spend(client, resource)
        try:
            yield
        except BaseException:
            self.give_back(client, resource)
            raise

    def give_back(self, client: str, resource: str) -> None:
        """What was spent one moment ago, and came to nothing."""
        if wanted := [(quota, -1) for quota in self._quotas(client, resource)]:
            self._ledger.spend(client, self.name(client), wanted, force=True)

    def spend_pages(self, client: str, count: int, *, reference: str = "") -> None:
        """Count a document's pages. Raises QuotaExceeded, and DocumentTooLarge if waiting would never help."""
        for quota in self._quotas(client, "pages"):
            if count > quota.most:
                self._metrics.refused(self.name(client), quota.name)
                raise DocumentTooLarge(
                    f"file: the document has {count} pages, and the key {self.name(client)!r} may have {quota.most} "
                    f"pages per {quota.period}"
                )
        self.spend(client, "pages", count, reference=reference)

    def arriving(self, client: str, amount: int) -> None:
        """Bytes that are announced or have come; with a negative amount, they are counted elsewhere or never came."""
        with self._lock:
            self._arriving[client] += amount

    def report(self, key: Key) -> list[QuotaUse]:
        """Each quota with what was used of it, and when it begins anew."""
        found: list[QuotaUse] = []
        for quota in key.quotas:
            used = self._ledger.used(key.id, quota) if quota.period else self._at_once[key.id]
            line: QuotaUse = {"name": quota.name, "limit": quota.most, "used": used}
            if quota.period:
                line["resets"] = shown_time(quota.window(self._ledger.now())[1])
            found.append(line)
        return found

    def close(self) -> None:
        self._ledger.close()

    def _quotas(self, client: str, resource: str = "") -> list[Quota]:
        assert not resource or resource in RESOURCES, resource
        key = self._ring.client(client) if client else None
        return [quota for quota in (key.quotas if key else ()) if not resource or quota.resource == resource]
