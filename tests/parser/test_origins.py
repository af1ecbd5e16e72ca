# SPDX-License-Identifier: Apache-2.0
"""From which hosts and pages the service may be asked: foreign pages cannot write, foreign names get nothing."""

from __future__ import annotations

import socket

import pytest
from pydantic import ValidationError

from docparser.clients.origins import Origins
from docparser.settings import Settings

HERE = "127.0.0.1:8080"


def verdict(settings: Settings, method: str = "POST", host: str | None = HERE, **sent: str) -> int:
    """The status of a refusal, or 200. `sent`: Origin as `origin`, Sec-Fetch-Site as `site`."""
    names = {"origin": b"origin", "site": b"sec-fetch-site"}
    headers = [(names[name], value.encode()) for name, value in sent.items()]
    headers += [(b"host", host.encode("latin-1"))] if host is not None else []
    found = Origins(settings).check(method, headers)
    return found.status if found else 200


class TestHosts:
    @pytest.mark.parametrize(
        "host",
        [
            *(HERE, "127.0.0.1", "localhost:8080", "LOCALHOST", "ocr.localhost", "localhost."),
            *("[::1]:8080", "192.168.1.5:65535", "[fe80::1]", socket.gethostname(), "host.docker.internal:8080"),
        ],
    )
    @pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
    def test_addresses_and_the_machines_names(self, host, method):
        assert verdict(Settings(), method, host) == 200

    @pytest.mark.parametrize(
        "host",
        ["evil.example", "evil.example:8080", "127.0.0.1.evil.example", "localhost.evil.example", "other", "1.2"],
    )
    @pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
    def test_foreign_names(self, host, method):
        assert verdict(Settings(), method, host) == 421

    @pytest.mark.parametrize(
        "host",
        ["", "a b", "127.0.0.1/evil", "user@127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "é", "evil.example#", "[::1"],
    )
    def test_what_is_no_host(self, host):
        assert verdict(Settings(), "GET", host) == 400

    def test_two_hosts(self):
        headers = [(b"host", HERE.encode()), (b"host", b"127.0.0.1")]
        found = Origins(Settings()).check("GET", headers)
        assert found is not None and found.status == 400

    def test_http_1_0_has_none(self):
        assert verdict(Settings(), "GET", None) == 200

    def test_what_the_operator_names(self):
        settings = Settings(allowed_hosts="parser, *.corp.example", public_url="https://ocr.example.org:8443/base")
        for host in ("parser:8080", "a.corp.example", "b.a.corp.example:80", "ocr.example.org", "ocr.example.org:8443"):
            assert verdict(settings, "GET", host) == 200, host
        for host in ("corp.example", "xcorp.example", "example.org", "parser.evil.example"):
            assert verdict(settings, "GET", host) == 421, host
        assert verdict(Settings(allowed_hosts="*"), "GET", "evil.example") == 200

    def test_the_answer_says_what_to_do(self):
        found = Origins(Settings()).check("GET", [(b"host", b"ocr.example")])
        assert found is not None and "'ocr.example'" in found.words and "PARSER_ALLOWED_HOSTS" in found.words


class TestOrigins:
    @pytest.mark.parametrize(
        "sent",
        [
            {"origin": "https://evil.example"},
            {"origin": "null"},
            {"origin": "http://127.0.0.1:9000"},
            {"origin": "http://127.0.0.1"},
            {"site": "cross-site"},
            {"site": "same-site"},
            {"site": "same-site", "origin": "http://127.0.0.1:9000"},
            {"site": "cross-site", "origin": f"http://{HERE}"},
            {"site": "none", "origin": "https://evil.example"},
        ],
    )
    def test_foreign_pages_cannot_write(self, sent):
        assert {verdict(Settings(), method, **sent) for method in ("POST", "DELETE", "PUT", "PATCH")} == {403}
        assert verdict(Settings(), "GET", **sent) == 200, "a browser keeps the answer from such a page"

    @pytest.mark.parametrize(
        "sent",
        [
            {},  # the SDKs, curl
            {"origin": f"http://{HERE}"},
            {"origin": f"https://{HERE}"},  # a proxy took TLS away
            {"site": "same-origin", "origin": f"http://{HERE}"},
            {"site": "same-origin", "origin": "https://ocr.example.org"},  # a proxy wrote another Host
            {"site": "none"},
        ],
    )
    def test_own_pages_and_programs_can(self, sent):
        assert verdict(Settings(), **sent) == 200

    def test_behind_a_proxy_public_url_is_the_own_origin(self):
        settings = Settings(public_url="https://ocr.example.org/parser")
        assert verdict(settings, origin="https://ocr.example.org") == 200
        assert verdict(settings, origin="http://ocr.example.org") == 403
        assert verdict(settings, origin="https://ocr.example.org.evil.example") == 403

    def test_what_the_operator_allows(self):
        settings = Settings(allowed_origins="https://app.example.org")
        assert verdict(settings, origin="https://app.example.org", site="cross-site") == 200
        assert verdict(settings, origin="https://app.example.org:444", site="cross-site") == 403
        assert verdict(settings, site="cross-site") == 403


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("allowed_hosts", value) for value in ("http://a.example", "a.example:80", "a example", "*example")),
        *(("allowed_origins", value) for value in ("app.example", "https://app.example/", "https://*.example")),
    ],
)
def test_settings_that_mean_nothing_are_refused(field, value):
    with pytest.raises(ValidationError, match="expected names like"):
        Settings.model_validate({field: value})
