# SPDX-License-Identifier: Apache-2.0
"""What clients have used, the audit log's targets, keys of addresses, and logs that nobody can forge."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import sqlite3
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from docparser import logs
from docparser.clients.allowance import Allowance, ClientMetrics
from docparser.clients.audit import AuditLog, Caller, caller
from docparser.clients.key_ring import KeyRing
from docparser.clients.keys import Quota, digest
from docparser.clients.usage import SqliteUsage, UsageLedger
from docparser.errors import DocumentTooLarge, LinkRefused, NotReady, QuotaExceeded
from docparser.jobs.links import STEP_S, LinkKeys, Links
from docparser.jobs.storage import data_folder
from docparser.jobs.storage.data_folder import FolderFiles

PAGES = Quota("pages", 10, "month")
JOBS = Quota("jobs", 2, "month")


@pytest.fixture
def store(tmp_path) -> SqliteUsage:
    return SqliteUsage(tmp_path / "usage.sqlite3")


@pytest.fixture
def ledger(store):
    ledger = UsageLedger(store)
    yield ledger
    ledger.close()


class TestUsage:
    def test_counts_until_the_quota_and_no_further(self, ledger):
        ledger.spend("a", "A", [(PAGES, 7)])
        with pytest.raises(
            QuotaExceeded, match=r"pages=10/month of the key 'A'.*3 of 10 pages.*4 are needed"
        ) as caught:
            ledger.spend("a", "A", [(PAGES, 4)])
        assert (caught.value.quota, caught.value.limit, caught.value.used) == ("pages/month", 10, 7)
        _, ends = PAGES.window(time.time())
        assert abs(caught.value.retry_after_s - (ends - time.time())) < 3
        ledger.spend("a", "A", [(PAGES, 3)])
        ledger.spend("b", "B", [(PAGES, 10)])
        assert (ledger.used("a", PAGES), ledger.used("b", PAGES)) == (10, 10)

    def test_all_or_none(self, ledger):
        ledger.spend("a", "A", [(JOBS, 2)])
        with pytest.raises(QuotaExceeded, match="jobs"):
            ledger.spend("a", "A", [(PAGES, 1), (JOBS, 1)])
        assert ledger.used("a", PAGES) == 0

    def test_what_has_a_reference_counts_once(self, ledger, tmp_path):
        for _ in range(3):
            ledger.spend("a", "A", [(PAGES, 4)], reference="job-1")
        UsageLedger(SqliteUsage(tmp_path / "usage.sqlite3")).spend(
            "a", "A", [(PAGES, 4)], reference="job-1"
        )  # another process
        ledger.spend("b", "B", [(PAGES, 1)], reference="job-1")
        assert (ledger.used("a", PAGES), ledger.used("b", PAGES)) == (4, 1)
        with pytest.raises(QuotaExceeded):
            ledger.spend("a", "A", [(PAGES, 7)], reference="job-2")
        ledger.spend("a", "A", [(PAGES, 6)], reference="job-2")  # the refused call did not use up the reference
        assert ledger.used("a", PAGES) == 10

    def test_a_new_period_begins_at_nothing(self, ledger, store, monkeypatch):
        quota = Quota("pages", 10, "day")
        ledger.spend("a", "A", [(quota, 10)], reference="job-1")
        tomorrow = quota.window(time.time())[1] + 3605  # it looks for them once an hour
        monkeypatch.setattr("docparser.clients.usage.time.time", lambda: tomorrow)
        assert ledger.used("a", quota) == 0
        ledger.spend("a", "A", [(quota, 10)], reference="job-2")
        for table in ("used", "charged"):
            rows = sqlite3.connect(store.path).execute(f"SELECT count(*) FROM {table}").fetchone()
            assert rows == (1,), f"{table}: those of periods that are over are removed"

    def test_threads_do_not_spend_the_same_twice(self, ledger, tmp_path, caplog):
        refused = []
        ledgers = [UsageLedger(SqliteUsage(tmp_path / "usage.sqlite3")) for _ in range(4)]

        def spend(own: UsageLedger) -> None:
            for _ in range(5):
                try:
                    own.spend("a", "A", [(PAGES, 1)])
                except QuotaExceeded:
                    refused.append(1)

        # Some share one, as the threads of a service do.
        threads = [threading.Thread(target=spend, args=(own,)) for own in ledgers * 2]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (ledger.used("a", PAGES), len(refused)) == (10, 30)
        assert "cannot be used" not in caplog.text
        for own in ledgers:
            own.close()

    def test_a_damaged_file_is_set_aside_and_the_service_goes_on(self, ledger, store, caplog):
        store.path.write_bytes(b"no database at all" * 100)
        ledger.spend("a", "A", [(PAGES, 4)])
        assert store.path.with_name("usage.sqlite3.damaged").exists() and "cannot be used" in caplog.text
        with pytest.raises(QuotaExceeded):
            ledger.spend("a", "A", [(PAGES, 7)])
        ledger.spend("a", "A", [(PAGES, 4)])
        assert ledger.used("a", PAGES) == 8, "what was counted in memory is written with the next"
        with pytest.raises(QuotaExceeded):
            ledger.spend("a", "A", [(PAGES, 4)])

    def test_a_folder_that_cannot_be_written_stops_nobody_but_who_is_over(self, tmp_path):
        ledger = UsageLedger(SqliteUsage(tmp_path / "missing/usage.sqlite3"))
        ledger.spend("a", "A", [(PAGES, 9)])
        with pytest.raises(QuotaExceeded):
            ledger.spend("a", "A", [(PAGES, 2)])
        assert ledger.used("a", PAGES) == 9
        ledger.spend("a", "A", [(PAGES, 1)])
        ledger.spend("a", "A", [(PAGES, 5)], force=True)
        assert ledger.used("a", PAGES) == 15, "work that is done counts in any case"

    @pytest.fixture
    def away(self, store, monkeypatch):
        """Within it, the store cannot be used."""

        def failing(*_: object) -> None:
            raise sqlite3.OperationalError("disk I/O error")

        @contextlib.contextmanager
        def away() -> Iterator[None]:
            with monkeypatch.context() as fault:
                fault.setattr(store, "_open", failing)
                yield

        return away

    def test_what_has_a_reference_counts_once_while_the_store_is_away_and_afterwards(self, ledger, away, tmp_path):
        ledger.spend("a", "A", [(PAGES, 1)], reference="job-1")
        with away():
            for _ in range(2):
                ledger.spend("a", "A", [(PAGES, 3)], reference="job-2")
            assert ledger.used("a", PAGES) == 3
            ledger.spend("a", "A", [(PAGES, 1)], reference="job-1")  # nobody can know here that it was counted
        ledger.spend("a", "A", [(PAGES, 3)], reference="job-2")
        assert ledger.used("a", PAGES) == 4
        assert UsageLedger(SqliteUsage(tmp_path / "usage.sqlite3")).used("a", PAGES) == 4, "it is saved"

    def test_a_repeated_reference_loses_nothing_that_was_counted_in_memory(self, ledger, away):
        ledger.spend("a", "A", [(PAGES, 1)], reference="job-1")
        with away():
            ledger.spend("a", "A", [(PAGES, 3), (JOBS, 1)])
        ledger.spend("a", "A", [(PAGES, 1)], reference="job-1")
        assert (ledger.used("a", PAGES), ledger.used("a", JOBS)) == (4, 1)

    def test_a_refusal_names_what_was_counted_in_memory_too(self, ledger, away):
        ledger.spend("a", "A", [(PAGES, 1)])
        with away():
            ledger.spend("a", "A", [(PAGES, 5)])
        with pytest.raises(QuotaExceeded, match=r"4 of 10 pages.*5 are needed") as caught:
            ledger.spend("a", "A", [(PAGES, 5)])
        assert caught.value.used == 6


class TestAllowance:
    def allowance(self, ledger: UsageLedger, entry: str) -> tuple[Allowance, str, CollectorRegistry]:
        registry = CollectorRegistry()
        ring = KeyRing(f"sha256:{digest('key')} name=me {entry}")
        return Allowance(ring, ledger, ClientMetrics(registry)), digest("key")[:16], registry

    def test_more_pages_than_the_whole_quota_are_too_large(self, ledger):
        allowance, me, registry = self.allowance(ledger, "pages=5/day pages=50/month")
        with pytest.raises(DocumentTooLarge, match="6 pages, and the key 'me' may have 5 pages per day"):
            allowance.spend_pages(me, 6)
        allowance.spend_pages(me, 5)
        with pytest.raises(QuotaExceeded, match="pages=5/day"):
            allowance.spend_pages(me, 1)
        assert b'docparser_client_quota_refusals_total{client="me",quota="pages/day"} 2.0' in generate_latest(registry)

    def test_bytes_under_way_count(self, ledger):
        allowance, me, _ = self.allowance(ledger, "bytes=100/day")
        allowance.arriving(me, 80)
        with pytest.raises(QuotaExceeded):
            allowance.check(me, "bytes", 30)
        allowance.check(me, "bytes", 20)
        allowance.arriving(me, -80)
        allowance.check(me, "bytes", 100)
        with pytest.raises(QuotaExceeded):
            allowance.check(me, "bytes", 101)

    def test_so_many_requests_at_once_and_what_a_report_says(self, ledger):
        allowance, me, registry = self.allowance(ledger, "connections=2 jobs=5/day")
        for _ in range(2):
            allowance.enter(me)
        with pytest.raises(QuotaExceeded, match="2 of its requests are being worked on") as caught:
            allowance.enter(me)
        assert (caught.value.quota, caught.value.limit, caught.value.used) == ("connections", 2, 2)
        allowance.leave(me)
        allowance.spend(me, "jobs", 3)
        key = allowance._ring.client(me)
        assert key is not None
        connections, jobs = allowance.report(key)
        assert connections == {"name": "connections", "limit": 2, "used": 1}
        tomorrow = time.strftime("%Y-%m-%dT00:00:00Z", time.gmtime(Quota("jobs", 5, "day").window(time.time())[1]))
        assert jobs == {"name": "jobs/day", "limit": 5, "used": 3, "resets": tomorrow}
        text = generate_latest(registry)
        assert b'docparser_client_quota_refusals_total{client="me",quota="connections"} 1.0' in text
        assert b'docparser_client_used_total{client="me",resource="jobs"} 3.0' in text

    def test_a_failed_insertion_gives_the_job_back(self, ledger):
        allowance, me, _ = self.allowance(ledger, "jobs=1/day")
        for _ in range(3):
            with pytest.raises(OSError), allowance.spending(me, "jobs"):
                raise OSError
        with allowance.spending(me, "jobs"):
            pass
        with pytest.raises(QuotaExceeded):
            allowance.check(me, "jobs")

    def test_who_has_no_quota_costs_no_file(self, ledger, store):
        allowance, me, _ = self.allowance(ledger, "")
        allowance.spend_pages(me, 1000)
        allowance.spend_pages("", 1000)
        allowance.check("", "bytes", 10**12)
        assert not store.path.exists()

    def test_labels_are_bounded(self, monkeypatch):
        monkeypatch.setattr("docparser.clients.allowance.MOST_NAMES", 3)
        registry = CollectorRegistry()
        metrics = ClientMetrics(registry)
        for number in range(10):
            metrics.request(f"client-{number}", 200)
        text = generate_latest(registry).decode()
        assert 'client="client-1"' in text and 'client="client-9"' not in text
        assert 'docparser_client_requests_total{client="others",code="200"} 8.0' in text


class TestAudit:
    def test_a_file_that_cannot_be_written_stops_the_start(self, tmp_path):
        with pytest.raises(NotReady, match="PARSER_AUDIT_LOG"):
            AuditLog(str(tmp_path / "missing/audit.jsonl"))

    def test_standard_output(self, monkeypatch):
        stream = io.StringIO()
        monkeypatch.setattr(sys, "stdout", stream)
        token = caller.set(Caller("me", "a" * 16, "10.0.0.1"))
        AuditLog("stdout").record("job.purged", job="7", bytes=None)
        caller.reset(token)
        line = json.loads(stream.getvalue())
        assert line["logger"] == "docparser.audit" and line["event"] == "job.purged" and line["client"] == "me"
        assert (line["address"], line["job"], "bytes" in line) == ("10.0.0.1", "7", False)

    def test_of_a_flood_of_refusals_twenty_a_second_are_written_and_the_rest_is_counted(self, tmp_path, monkeypatch):
        seconds = [7.0] * 25 + [8.5] * 2
        monkeypatch.setattr("docparser.clients.audit.time.monotonic", lambda: seconds.pop(0))
        audit = AuditLog(str(tmp_path / "audit"))
        for _ in range(27):
            audit.refusal("key_unknown", path="/parse")
        audit.close()
        lines = [json.loads(line) for line in (tmp_path / "audit").read_text().splitlines()]
        assert [line.get("left_out") for line in lines] == [None] * 20 + [5, None]
        assert {(line["reason"], line["path"]) for line in lines} == {("key_unknown", "/parse")}
        assert (tmp_path / "audit").stat().st_mode & 0o777 == 0o600

    def test_off(self, capsys, caplog):
        AuditLog("off").record("job.purged")
        assert capsys.readouterr() == ("", "") and not caplog.records

    def test_a_full_disk_loses_the_line_and_says_so(self, tmp_path, caplog):
        audit = AuditLog("/dev/full")
        audit.record("job.purged", job="7")
        assert "a line is lost" in caplog.text and "job.purged" in caplog.text

    def test_a_file_that_cannot_be_made_anew_loses_lines_until_it_can(self, tmp_path, caplog):
        folder = tmp_path / "logs"
        folder.mkdir()
        audit = AuditLog(str(folder / "audit"))
        folder.rename(tmp_path / "moved")
        for _ in range(2):
            audit.record("job.purged", job="7")
        assert caplog.text.count("a line is lost") == 2
        folder.mkdir()
        audit.record("job.purged", job="8")
        audit.close()
        assert [json.loads(line)["job"] for line in (folder / "audit").read_text().splitlines()] == ["8"]


class TestLinkKeys:
    def test_addresses_that_are_out_work_until_they_expire(self, tmp_path, monkeypatch):
        links = Links(FolderFiles(tmp_path), 3600)
        old = links.path("a" * 32, "result.jsonl").split("/")[6]
        keys = LinkKeys(FolderFiles(tmp_path))
        first = keys.newest()
        keys.rotate(3600 + STEP_S)
        links.check("a" * 32, old)
        new = links.path("a" * 32, "result.jsonl").split("/")[6]
        assert new != old and keys.newest() != first
        Links(FolderFiles(tmp_path), 3600).check("a" * 32, new)  # another process
        keys.rotate(3600 + STEP_S)
        for permission in (old, new):
            links.check("a" * 32, permission)
        assert keys.forget() == 2
        for permission in (old, new):
            with pytest.raises(LinkRefused, match="did not make this address"):
                links.check("a" * 32, permission)

    def test_the_name_of_a_new_key_is_flushed_to_the_disk_as_its_content_is(self, tmp_path, monkeypatch):
        flushed: list[Path] = []
        monkeypatch.setattr(data_folder, "flush_folder", flushed.append)
        files = FolderFiles(tmp_path)
        assert files.create("a", b"1") and not files.create("a", b"2")
        files.replace("a", b"3")
        assert flushed == [tmp_path] * 3 and files.names("") == ["a"], "the second time for whoever made it first"

    def test_a_retired_key_makes_no_new_address(self, tmp_path):
        thief = Links(FolderFiles(tmp_path / "copy"), 3600 * 24 * 365) if (tmp_path / "copy").mkdir() is None else None
        assert thief is not None
        (tmp_path / "links.key").write_bytes((tmp_path / "copy/links.key").read_bytes())
        links = Links(FolderFiles(tmp_path), 3600)
        LinkKeys(FolderFiles(tmp_path)).rotate(3600 + STEP_S)
        forged = thief.path("a" * 32, "result.jsonl").split("/")[6]
        with pytest.raises(LinkRefused, match="did not make this address"):
            links.check("a" * 32, forged)

    def test_a_key_of_earlier_versions_goes_on_signing(self, tmp_path):
        (tmp_path / "links.key").write_bytes(b"k" * 32)
        Links(FolderFiles(tmp_path), 3600)
        assert LinkKeys(FolderFiles(tmp_path)).newest() == b"k" * 32

    def test_retired_keys_are_removed_when_their_time_is_over(self, tmp_path, monkeypatch):
        keys = LinkKeys(FolderFiles(tmp_path))
        keys.rotate(10)
        later = time.time() + 20
        monkeypatch.setattr("docparser.jobs.links.time.time", lambda: later)
        assert len(keys.all()) == 1
        keys.rotate(10)
        assert len(list(tmp_path.iterdir())) == 2, "the newest, and the one that was retired now"
        assert all(path.stat().st_mode & 0o777 == 0o600 for path in tmp_path.iterdir())


NASTY = "a\nb\r\x1b[31m\x00\x7f\x85\u2028\u202e\u2066\u200f\ufeff\ud800\U000e0041"


def formatted(formatter: logging.Formatter, *, failed: bool = False) -> str:
    error = None
    if failed:
        try:
            raise ValueError(NASTY)
        except ValueError:
            error = sys.exc_info()
    record = logging.LogRecord("docparser.access", logging.INFO, __file__, 1, "GET %s", (NASTY,), error)
    record.fields = {"event": NASTY}
    return formatter.format(record)


class TestLogs:
    @pytest.mark.parametrize("failed", [False, True])
    def test_text_cannot_be_forged(self, failed):
        first, *rest = formatted(logs.TextFormatter(), failed=failed).split("\n")
        escaped = (
            "a\\u000ab\\u000d\\u001b[31m\\u0000\\u007f\\u0085\\u2028\\u202e\\u2066\\u200f\\ufeff\\ud800\\udb40\\udc41"
        )
        assert f"GET {escaped} " in first
        assert bool(rest) == failed and all(line.startswith("  | ") for line in rest)
        text = "".join([first, *rest])
        assert text.encode() and all(character.isprintable() for character in text)

    def test_json_is_one_line_that_means_the_same(self):
        line = formatted(logs.JsonFormatter(), failed=True)
        assert line.encode() and all(character.isprintable() for character in line)
        fields = json.loads(line)
        assert fields["message"] == f"GET {NASTY}" and fields["event"] == NASTY

    def test_what_people_write_stays_readable(self):
        assert logs.one_line("Bücher 文档 😀 \\n") == "Bücher 文档 😀 \\n"
