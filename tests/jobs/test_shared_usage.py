# SPDX-License-Identifier: Apache-2.0
"""Quotas that parsers on several machines count together, in PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from docparser.clients.keys import Quota
from docparser.clients.usage import SharedUsage, UsageLedger, ledger_of
from docparser.errors import QuotaExceeded
from docparser.postgres import schema
from docparser.postgres.database import PostgresDatabase
from docparser.settings import Settings
from tests.support.wait import wait_for

PAGES = Quota("pages", 10, "month")


@pytest.fixture
def ledgers(url: str) -> Iterator[list[UsageLedger]]:
    """Those of two parsers."""
    database = PostgresDatabase(url)
    with database.writing() as transaction:
        schema.upgrade(transaction)
    database.close()
    made = [ledger_of(Settings(database_url=url)) for _ in range(2)]
    yield made
    for ledger in made:
        ledger.close()


def test_parsers_count_together_and_no_further_than_the_quota(ledgers):
    def spend(number: int) -> bool:
        try:
            ledgers[number % 2].spend("id", "name", [(PAGES, 1)])
        except QuotaExceeded:
            return False
        return True

    with ThreadPoolExecutor(4) as threads:
        assert sum(threads.map(spend, range(30))) == PAGES.most
    assert [ledger.used("id", PAGES) for ledger in ledgers] == [10, 10] and ledgers[0].used("other", PAGES) == 0


def test_what_has_a_reference_counts_once_whichever_parser_counts_it(ledgers):
    for ledger in ledgers:
        ledger.spend("id", "name", [(PAGES, 7)], reference="job")
    assert ledgers[0].used("id", PAGES) == 7


def test_while_postgresql_is_away_each_counts_in_memory_and_adds_it_later(ledgers, postgres, caplog):
    assert isinstance(ledgers[0]._store, SharedUsage) and ledgers[0].known()
    ledgers[0].spend("id", "name", [(PAGES, 1)])
    postgres.kill()
    try:
        ledgers[0].spend("id", "name", [(PAGES, 2)])
        assert "quotas are counted in memory meanwhile" in caplog.text.lower()
        with pytest.raises(QuotaExceeded):
            ledgers[0].spend("id", "name", [(PAGES, 9)])
    finally:
        postgres.start()
    wait_for(lambda: ledgers[0].used("id", PAGES) == 3)
    ledgers[0].spend("id", "name", [(PAGES, 1)])
    wait_for(lambda: ledgers[1].used("id", PAGES) == 4)
