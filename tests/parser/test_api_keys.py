# SPDX-License-Identifier: Apache-2.0
"""Keys as operators write them down, the files they are in, and the command that makes them."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from docparser import api_keys, link_keys
from docparser.clients import key_ring
from docparser.clients.key_ring import KeyRing
from docparser.clients.keys import Key, Quota, digest, parse_entry, parse_quota, shown_time
from docparser.errors import NotReady
from docparser.settings import Settings

HASH = "sha256:" + "a1" * 32


@pytest.fixture(autouse=True)
def _no_keys_around(monkeypatch, tmp_path):
    monkeypatch.setenv("PARSER_DATA_DIR", str(tmp_path / "data"))
    for name in ("PARSER_API_KEYS", "PARSER_API_KEYS_FILE"):
        monkeypatch.delenv(name, raising=False)


class TestEntries:
    @pytest.mark.parametrize("remark", ["", " the billing department", "  # since 2025, pages=9/day", "\tA. B."])
    def test_entries_as_they_always_were(self, remark):
        key = parse_entry(HASH + remark)
        assert (key.digest, key.id, key.name, key.expires, key.quotas) == ("a1" * 32, "a1" * 8, "a1" * 8, None, ())

    def test_everything(self):
        key = parse_entry(
            f"{HASH} name=billing expires=2027-01-31 priority=bulk pages=1k/day bytes=5GiB/month connections=8 # A. B."
        )
        assert key.name == "billing" and key.expires == 1801353600 and key.priority == "bulk" and key.remark == "A. B."
        assert [str(quota) for quota in key.quotas] == ["pages=1000/day", "bytes=5368709120/month", "connections=8"]
        assert parse_entry(key.entry) == key

    @pytest.mark.parametrize(
        ("resource", "value", "most"),
        [
            *(("bytes", "1", 1), ("bytes", "2k", 2000), ("bytes", "3KB", 3000), ("bytes", "4KiB", 4096)),
            *(("bytes", "5M", 5_000_000), ("bytes", "6GB", 6_000_000_000), ("bytes", "7TiB", 7 << 40)),
            *(("jobs", "8k", 8000), ("jobs", "9M", 9_000_000)),
        ],
    )
    def test_amounts(self, resource, value, most):
        assert parse_quota(resource, f"{value}/day") == Quota(resource, most, "day")

    def test_a_key_has_expired_from_its_moment_on(self):
        key = Key("a" * 64, "b" * 16, "me", expires=100.0)
        assert [key.expired(now) for now in (99.9, 100.0)] == [False, True]

    @pytest.mark.parametrize(
        ("rest", "words"),
        [
            ("page=100/day", "'page=100/day' is not known"),
            ("name=a name=b", "twice"),
            ("pages=1/day pages=2/day", "twice"),
            ("billing pages=1/day", "comes after a comment"),
            ("name=a,b", "name="),
            ("name=" + "a" * 65, "name="),
            ("id=xyz", "id="),
            ("expires=tomorrow", "expires=tomorrow"),
            ("priority=urgent", "expected interactive or bulk"),
            ("pages=many/day", "pages=many/day"),
            ("pages=10", "expected a period"),
            ("pages=10/fortnight", "expected a period"),
            ("pages=5GiB/day", "pages=5GiB/day"),
            ("connections=8/day", "no period"),
            ("pages=-1/day", "pages=-1/day"),
        ],
    )
    def test_mistakes_are_named(self, rest, words):
        with pytest.raises(ValueError, match=re.escape(words)):
            parse_entry(f"{HASH} {rest}")

    def test_windows_are_those_of_the_calendar(self):
        moment = 1_804_075_200 + 3_723  # 2027-03-03T12:02:03Z
        lengths = {period: Quota("pages", 1, period).window(moment) for period in ("minute", "hour", "day", "month")}
        assert {period: end - begin for period, (begin, end) in lengths.items()} == {
            "minute": 60, "hour": 3600, "day": 86400, "month": 31 * 86400
        }  # fmt: skip
        assert all(begin <= moment < end for begin, end in lengths.values())
        december = 1_829_520_000  # 2027-12-23
        begin, end = parse_quota("pages", "1/month").window(december)
        assert (time.gmtime(begin)[:3], time.gmtime(end)[:3]) == ((2027, 12, 1), (2028, 1, 1))


class TestFiles:
    def write(self, path: Path, *lines: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{line}\n" for line in lines))

    def test_changes_count_without_a_restart(self, tmp_path):
        path = tmp_path / "keys"
        self.write(path, f"sha256:{digest('one')} name=first")
        ring = KeyRing(required_file=path)
        assert ring.find("one") and not ring.find("two")
        self.write(path, f"sha256:{digest('two')} name=second")
        ring.look()
        assert ring.find("two") and not ring.find("one")

    def test_files_are_watched_beside_the_event_loop_and_after_a_fault_too(self, tmp_path, monkeypatch, caplog):
        ring, stamp, faults = KeyRing(optional_file=tmp_path / "keys"), key_ring._stamp, [OSError("odd")]
        monkeypatch.setattr(key_ring, "LOOK_S", 0.0)

        def blocks(path: Path) -> key_ring.Stamp:
            asyncio.run(asyncio.sleep(0))  # refused in an event loop
            if faults:
                raise faults.pop()
            return stamp(path)

        async def watched() -> None:
            watch = asyncio.create_task(ring.watch())
            self.write(tmp_path / "keys", f"sha256:{digest('two')}")
            async with asyncio.timeout(60):
                while not ring.find("two"):
                    await asyncio.sleep(0.001)
            watch.cancel()

        monkeypatch.setattr(key_ring, "_stamp", blocks)
        asyncio.run(watched())
        assert [record.message for record in caplog.records] == ["the files of keys cannot be watched"]

    def test_a_mistake_changes_nothing_and_is_logged(self, tmp_path, caplog):
        path = tmp_path / "keys"
        self.write(path, f"sha256:{digest('one')}")
        ring = KeyRing(required_file=path)
        self.write(path, f"sha256:{digest('two')}", "my-secret-key")
        ring.look()
        ring.look()
        assert ring.find("one") and not ring.find("two")
        assert "line 2" in caplog.text and "my-secret-key" not in caplog.text
        assert len(caplog.records) == 1, "once, and not with each look"
        path.unlink()
        ring.look()
        assert ring.find("one"), "a file that is away changes nothing"

    def test_a_file_is_read_again_when_its_rights_are_mended(self, tmp_path, monkeypatch):
        path = tmp_path / "keys"
        self.write(path, f"sha256:{digest('one')}")
        ring = KeyRing(required_file=path)
        self.write(path, f"sha256:{digest('two')}")

        def refused(*_: object, **__: object) -> list[tuple[int, Key]]:
            raise NotReady("Permission denied")

        with monkeypatch.context() as without:
            without.setattr(key_ring, "read_file", refused)  # of root's file
            ring.look()
        path.chmod(0o604)
        ring.look()
        assert ring.find("two") and not ring.find("one")

    def test_an_emptied_file_opens_nothing(self, tmp_path):
        path = tmp_path / "keys"
        self.write(path, f"sha256:{digest('one')}")
        ring = KeyRing(required_file=path)
        self.write(path)
        ring.look()
        assert ring and not ring.find("one")

    @pytest.mark.parametrize("text", ["", "# sha256:0 revoked\n"])
    def test_an_emptied_file_opens_nothing_after_a_restart_either(self, text, tmp_path, caplog):
        (tmp_path / "api_keys").write_text(text)
        assert KeyRing.of(Settings(data_dir=tmp_path)), "the file of our own command"
        assert "nobody may ask" in caplog.text
        assert KeyRing.of(Settings(data_dir=tmp_path / "none", api_keys_file=tmp_path / "api_keys"))

    def test_a_volume_that_is_away_revokes_nothing(self, tmp_path, caplog):
        folder = tmp_path / "data"
        self.write(folder / "api_keys", f"sha256:{digest('one')}")
        ring = KeyRing.of(Settings(data_dir=folder))
        folder.rename(tmp_path / "unmounted")
        ring.look()
        assert ring.find("one") and f"{folder / 'api_keys'} cannot be read" in caplog.text
        (tmp_path / "unmounted").rename(folder)
        self.write(folder / "api_keys")
        ring.look()
        assert ring and not ring.find("one"), "an emptied file revokes"

    def test_the_first_key_closes_an_open_service(self, tmp_path):
        settings = Settings(data_dir=tmp_path)
        ring = KeyRing.of(settings)
        assert not ring
        self.write(tmp_path / "api_keys", f"sha256:{digest('one')}")
        ring.look()
        assert ring and ring.find("one")

    def test_one_name_is_one_client(self, tmp_path):
        path = tmp_path / "keys"
        self.write(path, f"sha256:{digest('one')} name=a", f"sha256:{digest('two')} name=a")
        with pytest.raises(NotReady, match="belongs to two clients"):
            KeyRing(required_file=path)
        self.write(path, f"sha256:{digest('one')} name=a", f"sha256:{digest('two')} name=a id={digest('one')[:16]}")
        ring = KeyRing(required_file=path)
        assert {key.id for sent in ("one", "two") if (key := ring.find(sent))} == {digest("one")[:16]}


def run(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "docparser.api_keys", *words]
    return subprocess.run(command, capture_output=True, text=True, env=dict(os.environ), check=False)


class TestCommand:
    """`capsys` reads what `main` prints; one test runs the command as a user does."""

    def test_as_a_user_runs_it(self, tmp_path):
        assert run("make", "--help").returncode == 0 and not (tmp_path / "data").exists(), "--help makes no key"
        made = run("make", "--name", "billing", "--expires", "30d", "--quota", "pages=1000/day")
        assert made.returncode == 0, made.stderr
        ring = KeyRing.of(Settings(data_dir=tmp_path / "data"))
        key = ring.find(made.stdout.strip())
        assert key and key.name == "billing" and key.expires and 29.9 < (key.expires - time.time()) / 86400 < 30.1
        assert (tmp_path / "data/api_keys").stat().st_mode & 0o777 == 0o600
        assert made.stdout.strip() not in (tmp_path / "data/api_keys").read_text()

    def test_an_entry_for_a_setting(self, capsys, tmp_path):
        assert api_keys.main(["make", "--print"]) == 0
        output = capsys.readouterr()
        key, entry = output.err.split()[-1], output.out.strip()
        assert entry == f"sha256:{digest(key)}" and len(key) > 40
        assert not (tmp_path / "data").exists()

    def make(self, capsys, *words: str) -> str:
        assert api_keys.main(["make", *words]) == 0
        return capsys.readouterr().out.strip()

    def test_the_first_key_makes_the_named_file(self, capsys, monkeypatch, tmp_path):
        monkeypatch.setenv("PARSER_API_KEYS_FILE", str(tmp_path / "keys"))
        key = self.make(capsys)
        assert KeyRing(required_file=tmp_path / "keys").find(key)
        monkeypatch.setenv("PARSER_API_KEYS_FILE", str(tmp_path / "nowhere"))
        assert api_keys.main(["--file", str(tmp_path / "others"), "list"]) == 2
        assert "nowhere cannot be read" in capsys.readouterr().err

    @pytest.mark.parametrize(("command", "word"), [(api_keys.main, "list"), (link_keys.main, "rotate")])
    def test_a_wrong_setting_is_named_and_no_secret_shown(self, command, word, capsys, monkeypatch):
        monkeypatch.setenv("PARSER_LOG_LEVEL", "INFO")
        monkeypatch.setenv("PARSER_DATABASE_URL", "postgresql://me:hunter2@x@host/db")
        assert command([word]) == 2
        address, level = capsys.readouterr().err.splitlines()
        assert "PARSER_LOG_LEVEL" in level and "got 'INFO'" in level
        assert "PARSER_DATABASE_URL" in address and "hunter2" not in address

    def test_rotation_keeps_the_client(self, capsys, tmp_path):
        old = self.make(capsys, "--name", "billing", "--quota", "pages=5/day", "--priority", "bulk")
        assert api_keys.main(["rotate", "billing", "--overlap", "2h"]) == 0
        new = capsys.readouterr().out.strip()
        ring = KeyRing.of(Settings(data_dir=tmp_path / "data"))
        before, after = ring.find(old), ring.find(new)
        assert before and after and (before.id, before.name, before.quotas) == (after.id, after.name, after.quotas)
        assert before.priority == after.priority == "bulk"
        assert after.expires is None and before.expires and before.expired(time.time() + 7201)
        assert not before.expired(time.time() + 7100)

    def test_a_rotated_key_ends_when_its_predecessor_would_have(self, capsys, tmp_path):
        old = self.make(capsys, "--name", "billing", "--expires", "2h")
        assert api_keys.main(["rotate", "billing", "--overlap", "7d"]) == 0
        output = capsys.readouterr()
        ring = KeyRing.of(Settings(data_dir=tmp_path / "data"))
        before, after = ring.find(old), ring.find(output.out.strip())
        assert before and after and before.expires == after.expires and after.expired(time.time() + 7201)
        ends = shown_time(before.expires or 0)
        assert f"ends at {ends}; this one expires at {ends}" in output.err
        assert api_keys.main(["rotate", "billing", "--expires", "30d"]) == 0
        newest = KeyRing.of(Settings(data_dir=tmp_path / "data")).find(capsys.readouterr().out.strip())
        assert newest and newest.expires and newest.expires > time.time() + 29 * 86400

    def test_a_client_that_was_ended_is_let_in_by_nobodys_mistake(self, capsys, tmp_path):
        self.make(capsys, "--name", "guest")
        assert api_keys.main(["expire", "guest"]) == 0
        kept = (tmp_path / "data/api_keys").read_text()
        capsys.readouterr()
        assert api_keys.main(["rotate", "guest"]) == 2
        assert "expected --expires" in capsys.readouterr().err and (tmp_path / "data/api_keys").read_text() == kept
        assert api_keys.main(["rotate", "guest", "--expires", "1d"]) == 0
        found = KeyRing.of(Settings(data_dir=tmp_path / "data")).find(capsys.readouterr().out.strip())
        assert found and not found.expired(time.time())

    def test_expiry_ends_all_keys_of_a_client_and_no_other(self, capsys, tmp_path):
        keys = [self.make(capsys, "--name", name) for name in ("billing", "search")]
        file = tmp_path / "data/api_keys"
        file.write_text("# who may ask\n\n" + file.read_text())
        assert api_keys.main(["expire", "billing"]) == 0
        found = [KeyRing.of(Settings(data_dir=tmp_path / "data")).find(key) for key in keys]
        assert [key is not None and key.expired(time.time() + 1) for key in found] == [True, False]
        assert file.read_text().startswith("# who may ask\n\n")
        capsys.readouterr()
        assert api_keys.main(["list"]) == 0
        first, second = capsys.readouterr().out.splitlines()
        assert "billing" in first and "expired at" in first and "search" in second and "  valid" in second

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (["make", "--name", "a b"], "--name 'a b'"),
            (["make", "--quota", "page=3/day"], "'page=3/day'"),
            (["make", "--quota", "pages=3"], "expected a period"),
            (["make", "--expires", "soon"], "expires=soon"),
            (["rotate", "nobody"], "no key of 'nobody'"),
            (["expire", "nobody"], "no key of 'nobody'"),
        ],
    )
    def test_mistakes_are_named_and_change_nothing(self, capsys, tmp_path, words, said):
        assert api_keys.main(words) == 2
        assert said in capsys.readouterr().err and not (tmp_path / "data/api_keys").exists()

    def test_a_name_is_given_once(self, capsys):
        self.make(capsys, "--name", "billing")
        assert api_keys.main(["make", "--name", "billing"]) == 2
        assert "rotate billing" in capsys.readouterr().err

    def test_a_file_with_a_mistake_is_not_written_over(self, capsys, tmp_path):
        (tmp_path / "keys").write_text("not an entry\n")
        assert api_keys.main(["--file", str(tmp_path / "keys"), "make"]) == 2
        assert (tmp_path / "keys").read_text() == "not an entry\n"

    def test_a_key_of_a_setting_is_changed_there(self, capsys, monkeypatch):
        monkeypatch.setenv("PARSER_API_KEYS", f"{HASH} name=billing")
        assert api_keys.main(["expire", "billing"]) == 2
        assert "PARSER_API_KEYS" in capsys.readouterr().err


def test_an_entry_is_read_as_it_was_written():
    key = Key("b2" * 32, "c3" * 8, "x", 1.8e9, (Quota("bytes", 7, "hour"),), "remark = here")
    assert parse_entry(key.entry) == key
