# SPDX-License-Identifier: Apache-2.0
"""scripts/status.sh and scripts/support_bundle.sh on a simulated engine: what they say, and that no secret gets out."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import tarfile
import time
from pathlib import Path

import pytest

from bundle import status as bundle_status
from bundle.archives import pack
from bundle.compose import project
from bundle.support import __main__ as support
from bundle.support import sources
from bundle.support.redact import MARK, Redactor, secrets
from npu_smi import Answer
from tests.support.paths import ROOT
from tool_errors import UsageError

KEY, DIGEST = "kY7-planted-key-in-plain", "a" * 64
SIGNATURE = "plantedsignature0123456789"
# Answers of docker by the words of the call; the real ones have these forms (docker 26.1, compose 2.26).
VERSIONS = "(bundle 0.3.0, commit 0123456789ab-dirty, vllm 0.11.1, soc ascend910_9391)"
DOCKER = """#!/bin/sh
case "$*" in
*"ps --all --format json"*)
  echo '{"ID":"1f","Service":"vlm","State":"running","Health":"healthy","Image":"paddleocr-vl/vlm-a3:0.3.0"}'
  echo '{"ID":"2f","Service":"parser","State":"'$STATE'","Health":"'$HEALTH'","Image":"paddleocr-vl/parser:0.3.0"}'
  echo '{"ID":"4f","Service":"vlm","State":"exited","Image":"x","Labels":"a=b,com.docker.compose.oneoff=True,c=d"}'
  if [ -n "$NEXT" ]; then echo '{"ID":"3f","Service":"vlm-next","State":"exited","Health":"","Image":"x"}'; fi ;;
"inspect 3f") echo '[{"RestartCount": 0, "State": {"ExitCode": 2, "OOMKilled": false}}]' ;;
"ps --all --filter label=com.docker.compose.project=$COMPOSE_PROJECT_NAME --format "*) echo "$FOLDERS" ;;
*"image inspect"*) echo '{"paddleocr-vl.vllm":"0.11.1","paddleocr-vl.soc":"ascend910_9391",
  "org.opencontainers.image.version":"0.3.0","org.opencontainers.image.created":"unknown",
  "org.opencontainers.image.revision":"0123456789abcdef0123456789abcdef01234567-dirty"}' ;;
"inspect 1f") echo '[{"RestartCount": 0, "State": {"ExitCode": 0, "OOMKilled": false}}]' ;;
"inspect 2f") echo "[{\\"RestartCount\\": $RESTARTS, \\"State\\": {\\"ExitCode\\": 2, \\"OOMKilled\\": false}}]" ;;
*"vlm /opt/venv/supervisor/bin/python -m cgroup"*) echo "$OOM_KILLS" ;;
*"-m cgroup"*) echo None ;;
"logs --tail 400 2f") echo "WARN exited"; echo "error: PARSER_WORKERS is 'four'; expected a number" >&2 ;;
*"container.status"*)
  cat "$REPLICAS" ;;
*"df -Pk"*)
  printf 'Filesystem 1024-blocks Used Available Capacity Mounted\\n/dev/x 104857600 0 52428800 50%% /var\\n' ;;
*"compose config"*) printf 'services:\\n  parser:\\n    environment:\\n      PARSER_API_KEYS: sha256:%s\\n' "$DIGEST" ;;
*"logs"*)
  printf 'vlm-1 | WARN exited: layout (exit status 1; not expected)\\n'
  printf 'parser-1 | GET /api/v2/ocr/results/a?signature=%s 200\\n' "$SIGNATURE"
  printf 'Authorization: Bearer %s\\n' "$KEY" ;;
"compose exec -T vlm tar"*) echo "container 1f is restarting" >&2; exit 1 ;;
"cp 1f:/var/lib/paddleocr-vl/ascend-log -") cd "$PLOG" && tar -cf - ascend-log ;;
"cp 3f:/var/lib/paddleocr-vl/ascend-log -") cd "$PLOG" && tar -cf - ascend-log ;;
*) echo "docker $*" ;;
esac
"""


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A simulated docker first in PATH, settings with planted secrets, a log of CANN; the answer of the replicas."""
    program = tmp_path / "bin/docker"
    program.parent.mkdir()
    program.write_text(DOCKER)
    program.chmod(0o755)
    (tmp_path / "plog/ascend-log/0").mkdir(parents=True)
    (tmp_path / "plog/ascend-log/0/plog-1.log").write_text(f"[ERROR] GE: failed\npassword={KEY}\n")
    keys = tmp_path / "keys"
    keys.write_text(f"# made by hand\nalice sha256:{DIGEST}\nfrom-the-key-file\n")
    for name, value in {
        "PATH": f"{program.parent}:{os.environ['PATH']}",
        "PLOG": str(tmp_path / "plog"),
        "REPLICAS": str(tmp_path / "replicas.json"),
        "DIGEST": DIGEST,
        "KEY": KEY,
        "SIGNATURE": SIGNATURE,
        "PARSER_API_KEY": KEY,
        "PARSER_API_KEYS": f"sha256:{DIGEST},sha256:{'b' * 64}",
        "PARSER_API_KEYS_FILE": str(keys),
        "PARSER_PORT": "9",  # nobody listens there
        "STATE": "running",
        "HEALTH": "healthy",
        "RESTARTS": "0",
        "OOM_KILLS": "0",
        "COMPOSE_PROJECT_NAME": "mine",
        "FOLDERS": str(ROOT),
    }.items():
        monkeypatch.setenv(name, value)
    write_replicas(tmp_path)
    return tmp_path


def write_replicas(folder: Path, down: int = 0, missing: str = "", layout: dict | None = None) -> None:
    found = [
        {"number": index, "port": 8100 + index, "die": index, "up": index >= down, "detail": ""} for index in range(16)
    ]
    told = {"configured": 16, "replicas": found, "missing": missing, "layout": layout}
    (folder / "replicas.json").write_text(json.dumps(told))


def status(*words: str) -> tuple[int, list[dict]]:
    command = [str(ROOT / "scripts/status.sh"), "--json", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    return done.returncode, json.loads(done.stdout)


def line(lines: list[dict], name: str) -> dict:
    return next(entry for entry in lines if entry["name"] == name)


@pytest.mark.server
def test_what_no_waiting_changes_is_not_waited_for(monkeypatch: pytest.MonkeyPatch):
    """A die that was left out on purpose costs the upgrade of a node no half hour."""
    replica = {"number": 0, "die": 0, "up": False}
    found = {"configured": 1, "replicas": [replica], "missing": "5"}
    looks: list[bundle_status.Line] = []

    def look() -> list[bundle_status.Line]:
        looks.append(bundle_status.replicas("replicas", "vlm-next", found))
        replica["up"] = len(looks) > 1
        return looks[-1:]

    monkeypatch.setattr(bundle_status, "look", look)
    monkeypatch.setattr(bundle_status, "PAUSE_SECONDS", 0.01)
    (line,) = bundle_status.wait_for_all(60)
    assert len(looks) == 3 and line.well is False and "1 of 1 up; left out at the last start: die 5" in line.text


def test_status_counts_the_replicas(node: Path):
    (smi := node / "bin/npu-smi").write_text(f"#!/bin/sh\ncat {ROOT}/tests/data/npu-smi/a3.txt\n")
    smi.chmod(0o755)
    code, lines = status()
    assert line(lines, "dies")["text"] == "3 of 16 have the Health OK" and line(lines, "dies")["well"] is None
    assert line(lines, "replicas") == {"name": "replicas", "text": "16 of 16 up", "well": True, "lasting": False}
    assert VERSIONS in line(lines, "vlm")["text"] and line(lines, "vlm")["well"]
    assert line(lines, "disk")["text"] == "50 of 100 GiB free for jobs and results"
    # The parser's port is closed: that is what is wrong, and it is said.
    assert code == 1 and not line(lines, "service")["well"] and "refused" in line(lines, "service")["text"]
    assert "layout" not in {entry["name"] for entry in lines}
    write_replicas(node, down=1, missing="7", layout=LAYOUT)
    code, lines = status()
    assert line(lines, "layout") == {"name": "layout", "text": LAYOUT_UP, "well": True, "lasting": False}
    said = line(lines, "replicas")
    assert not said["well"]
    assert said["text"] == "15 of 16 up; down or loading: 0 (die 0); left out at the last start: die 7"


def test_containers_of_another_folder_are_named(node: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(bundle_status, "VALUES", {"COMPOSE_PROJECT_NAME": "mine"})
    assert bundle_status.folder() is None
    monkeypatch.setenv("FOLDERS", f"/opt/first\n{ROOT}")
    assert bundle_status.folder() == bundle_status.Line(
        "folder", "containers were made in /opt/first, by the settings there"
    )


def test_a_half_that_nobody_took_is_no_whole_node(node: Path):
    """`scripts/upgrade.sh start` was broken off: the replicas of the other half wait, and all that are asked are up."""
    told = json.loads((node / "replicas.json").read_text())
    (node / "replicas.json").write_text(json.dumps({**told, "half": "first"}))
    code, lines = status()
    said = line(lines, "halves")
    assert code == 1 and said["well"] is False and said["lasting"] and line(lines, "replicas")["well"]
    assert said["text"] == "some dies serve nobody: there is no vlm-next; scripts/upgrade.sh back gives vlm all dies"


@pytest.mark.parametrize(
    ("name", "values", "said"),
    [
        ("vlm", {"OOM_KILLS": "3"}, "; out of memory 3 times since its start: raise VLM_MEM_LIMIT"),
        ("parser", {}, VERSIONS),
        ("parser", {"RESTARTS": "2"}, "; restarted 2 times"),
        (
            "parser",
            {"RESTARTS": "8", "STATE": "restarting", "HEALTH": ""},
            "; restarted 8 times; ended with status 2; its log: error: PARSER_WORKERS is 'four'; expected a number",
        ),
        (
            "parser",
            {"RESTARTS": "8", "HEALTH": "starting"},
            "; restarted 8 times; its log: error: PARSER_WORKERS is 'four'; expected a number",
        ),
    ],
)
def test_what_a_container_went_through(
    node: Path, monkeypatch: pytest.MonkeyPatch, name: str, values: dict[str, str], said: str
):
    for key, value in values.items():
        monkeypatch.setenv(key, value)
    row = project.containers()[name]
    assert bundle_status.container(name, row).text.endswith(said)


@pytest.mark.parametrize(
    ("healths", "text", "well"),
    [
        (("OK", "OK", "OK"), "3 of 3 have the Health OK", True),
        (("OK", "Warning", "OK"), "2 of 3 have the Health OK; die 1 Warning", None),
        (("OK", "Warning", "Critical"), "1 of 3 have the Health OK; die 1 Warning; die 2 Critical", False),
    ],
)
def test_the_health_of_the_dies(healths: tuple[str, ...], text: str, well: bool | None):
    """In a recorded table of three dies, with other Healths."""
    head, *rows = (ROOT / "tests/data/npu-smi/a3.txt").read_text().split("| OK  ")
    table = head + "".join(f"| {health:<4}{row}" for health, row in zip(healths, rows, strict=True))
    assert bundle_status.dies([0, 1, 2], Answer(0, table)) == bundle_status.Line("dies", text, well, well is False)
    others = bundle_status.dies([0], Answer(0, table))
    assert others.text == "1 of 1 have the Health OK" and others.well


def test_no_verdict_where_it_is_not_known_which_card_is_which(monkeypatch: pytest.MonkeyPatch):
    text = (ROOT / "tests/data/npu-smi/a2-pcie.txt").read_text()
    monkeypatch.setattr("npu_smi.ask", lambda *words: Answer(1, ""))
    said = bundle_status.dies([0, 1, 2, 3], Answer(0, text))
    assert said.well is None and said.text.startswith("unknown: which /dev/davinciN is which NPU of 1, 2, 4, 5 is not")


def test_no_verdict_where_npu_smi_does_not_answer():
    text = (ROOT / "tests/data/npu-smi/fails-8005.txt").read_text()
    said = bundle_status.dies([0], Answer(1, text))
    assert said.well is None
    assert said.text.startswith(
        "unknown: the driver does not let this process in (-8005); run npu-smi info on the node"
    )


LAYOUT = {"up": True, "ended": False, "device": "npu:3", "batch": 4, "waiting": 2, "detail": ""}
LAYOUT_UP, URL = "up on npu:3: 2 pages wait, 4 at once", "http://vlm:8001"


@pytest.mark.parametrize(
    ("own", "ready", "text", "well"),
    [
        (None, {}, None, None),
        (None, {"layout": {"ready": True}}, None, None),
        (LAYOUT, {"layout": {"server": {"url": URL, "used": True}}}, f"{LAYOUT_UP}; the parser uses {URL}", True),
        (
            LAYOUT,
            {"layout": {"server": {"url": URL, "used": False, "because": "HTTP 409: another model"}}},
            f"{LAYOUT_UP}; the parser's CPU stands in: HTTP 409: another model",
            False,
        ),
        (LAYOUT, {"layout": {}}, f"{LAYOUT_UP}; the parser does not ask it: LAYOUT_URL is not set", False),
        (
            LAYOUT | {"up": False, "batch": None, "waiting": None, "detail": "Connection refused"},
            {},
            "down or loading, for npu:3: Connection refused",
            False,
        ),
        (
            LAYOUT | {"up": False, "ended": True, "batch": None, "waiting": None, "detail": "Connection refused"},
            {},
            "ended, and is not started again, for npu:3: Connection refused",
            False,
        ),
        (None, {"layout": {"server": {"url": URL, "used": True}}}, f"the parser uses {URL}", True),
    ],
)
def test_the_layout_server_as_both_sides_see_it(own: dict | None, ready: dict, text: str | None, well: bool | None):
    lasting = "not started again" in (text or "")
    expected = None if text is None else bundle_status.Line("layout", text, well, lasting)
    assert bundle_status.layout(own, ready) == expected


@pytest.mark.server
def test_waiting_for_all_gives_up_with_the_last_look(node: Path):
    write_replicas(node, down=3)
    code, lines = status("--wait-all", "0")
    assert code == 1 and line(lines, "replicas")["text"].startswith("13 of 16 up")


@pytest.mark.server
def test_a_bundle_that_does_not_run_is_not_waited_for(node: Path):
    (node / "bin/docker").write_text("#!/bin/sh\nexit 0\n")
    began = time.monotonic()
    command = [str(ROOT / "scripts/status.sh"), "--wait-all", "300"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 4 and "docker compose up -d starts it" in done.stderr
    assert "vlm       BAD no container" in done.stdout and time.monotonic() - began < 60


@pytest.mark.server
def test_status_names_settings_that_reach_no_container(node: Path, monkeypatch: pytest.MonkeyPatch):
    """And the bundle's ports are those of its containers: none meets another."""
    for name, value in {"PARSER_TEXTLAYER": "off", "PARSER_PORT": "8000", "LAYOUT_SERVER": "1"}.items():
        monkeypatch.setenv(name, value)
    code, lines = status()
    assert code == 1 and line(lines, "service")["text"].startswith("http://127.0.0.1:8000: ")
    assert line(lines, "settings")["text"] == "PARSER_TEXTLAYER: unknown; did you mean PARSER_TEXT_LAYER?"


def test_status_without_an_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    program = tmp_path / "docker"
    program.write_text("#!/bin/sh\necho 'Cannot connect to the Docker daemon' >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    done = subprocess.run([ROOT / "scripts/status.sh"], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 4 and done.stderr == "error: docker compose ps: Cannot connect to the Docker daemon\n"


@pytest.mark.server
def test_no_planted_secret_is_in_the_archive(node: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("NEXT", "1")
    out = node / "support.tar.gz"
    command = [str(ROOT / "scripts/support_bundle.sh"), "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    assert out.stat().st_mode & 0o777 == 0o600
    with tarfile.open(out) as archive:
        files = {
            member.name.partition("/")[2]: archive.extractfile(member).read().decode()  # type: ignore[union-attr]  # a regular file
            for member in archive
        }
    everything = "".join(files.values())
    for secret in (KEY, DIGEST, "b" * 64, SIGNATURE, "from-the-key-file"):
        assert secret not in everything, f"{secret} is in the archive"
    assert everything.count(MARK) >= 5
    # What helps is still there.
    assert (
        # Of containers in which nothing can be run, too.
        "[ERROR] GE: failed" in files["plog/0/plog-1.log"]
        and "[ERROR] GE: failed" in files["plog-next/0/plog-1.log"]
        and "GET /api/v2/ocr/results/a" in files["logs/parser.log"]
        and "WARN exited" in files["logs/vlm-next.log"]
    )
    assert files["logs/layout.log"] == "vlm-1 | WARN exited: layout (exit status 1; not expected)\n"
    assert "container.layout" in files["vlm/layout.txt"]
    assert json.loads(files["status.json"].partition("\nexit status")[0])
    assert {"preflight.json", "compose/config.yaml", "host/system.txt", "npu/info.txt", "CONTENTS.txt"} <= set(files)
    assert set(files["CONTENTS.txt"].split()) >= {f"{name}:" for name in files if name != "CONTENTS.txt"}


def test_only_the_archives_own_file_is_said_to_be_out(tmp_path: Path):
    with pytest.raises(PermissionError, match=r"/a/b"), pack(tmp_path / "a.tar.gz", "a"):
        raise PermissionError(errno.EACCES, "Permission denied", "/a/b")
    with pytest.raises(UsageError, match=f"--out {tmp_path}: is a folder"), pack(tmp_path, "a"):
        pytest.fail("nothing is collected for an archive that has no place")
    assert not list(tmp_path.iterdir())


def test_what_every_linux_has_is_asked_with_words_that_work():
    by_name = {source.name: source.command for source in sources.sources([3])}
    for name, found in (("system.txt", "Linux"), ("memory.txt", "MemTotal"), ("processor.txt", ""), ("disk.txt", "/")):
        command = by_name[f"host/{name}"]
        # A bare root has no /sys, which lscpu reads.
        if shutil.which(command[0]) and (command[0] != "lscpu" or Path("/sys/devices/system/cpu").exists()):
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert done.returncode == 0 and found in done.stdout, command
    kinds = {
        f"npu/3-{kind}.txt": ("npu-smi", "info", "-t", kind, "-i", "3")
        for kind in ("health", "ecc", "temp", "device-share")
    }
    assert kinds.items() <= by_name.items() and by_name["npu/info.txt"] == ("npu-smi", "info")


def test_what_a_command_printed_before_it_took_too_long_is_kept(monkeypatch: pytest.MonkeyPatch):
    def hangs(*_: object, **__: object) -> None:
        raise subprocess.TimeoutExpired("npu-smi info", 60, output=b"| NPU 0 | OK |\n")

    monkeypatch.setattr(support.subprocess, "run", hangs)
    said = support.output(sources.Source("npu/info.txt", "dies", ("npu-smi", "info")))
    assert said == "| NPU 0 | OK |\n\nCommand 'npu-smi info' timed out after 60 seconds\n"


def test_every_setting_of_the_shell_is_collected(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """They win over .env. And what only looks like one of ours: a slip of the keyboard."""
    own = {"STACK": "0.23.0", "PUBLIC_URL": "https://a", "WATCHDOG_FAILURES": "9", "VLM_REPLICA": "2"}
    monkeypatch.setattr(support, "ENV_FILE", tmp_path / "absent")
    monkeypatch.setattr(os, "environ", {**own, "EDITOR": "vi"})
    name, _, text = next(support.collect())
    assert name == "settings/shell.txt"
    assert text.splitlines() == [f"{setting}={own[setting]}" for setting in sorted(own)]


def test_an_archive_that_cannot_be_written(tmp_path: Path):
    command = [str(ROOT / "scripts/support_bundle.sh"), "--out", str(tmp_path / "missing/a.tar.gz")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2 and "missing/a.tar.gz: No such file" in done.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("https://user:pw123456@proxy.example/x", f"https://{MARK}proxy.example/x"),
        ("Authorization: Bearer abc.def-123456", f"Authorization: {MARK} {MARK}"),
        ('{"api_key": "s3cr3t-value", "n": 1}', f'{{"api_key": "{MARK}", "n": 1}}'),
        ("S3_SECRET_ACCESS_KEY=wJalrXUtnFEMI", f"S3_SECRET_ACCESS_KEY={MARK}"),
        ("prompt_tokens_total 17.0", "prompt_tokens_total 17.0"),
        ("the key was refused", "the key was refused"),
        ("-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----\nafter", f"{MARK}\nafter"),
        ("vllm serve --api-key s3cr3t-value --port 8000", f"vllm serve --api-key {MARK} --port 8000"),
        ("['--api-key', 's3cr3t-value', '--port']", f"['--api-key', '{MARK}', '--port']"),
        ("vllm serve --api-key s3cr3t an0ther --port 8000", f"vllm serve --api-key {MARK} --port 8000"),
        ("vllm serve --api-key=s3cr3t an0ther --port 8000", f"vllm serve --api-key={MARK} --port 8000"),
        ("['--api-key', 's3cr3t', 'an0ther', '--port']", f"['--api-key', '{MARK}', '--port']"),
        (
            "non-default args: {'api_key': ['s3cr3t', 'an0ther'], 'port': 8000}",
            f"non-default args: {{'api_key': {MARK}, 'port': 8000}}",
        ),
        ('{"api_key": [\n  "s3cr3t"\n ], "n": 1}', f'{{"api_key": {MARK}, "n": 1}}'),
        ("x=known-secret;", f"x={MARK};"),
        ("postgresql://me:a/b@c-d@host/jobs", f"postgresql://{MARK}host/jobs"),
        ("signed with whsec_c2VjcmV0IG9mIGE= twice", f"signed with {MARK} twice"),
        ("key AKIAIOSFODNN7EXAMPLE of", f"key {MARK} of"),
        (
            "GET /api/v2/ocr/results/j-1/1795000000-0a1b2c/result.jsonl",
            f"GET /api/v2/ocr/results/j-1/{MARK}/result.jsonl",
        ),
        ("http://host:8000/v1 and me@example.org", "http://host:8000/v1 and me@example.org"),
        ("known-secret, known-secret-and-more", f"{MARK}, {MARK}"),
        ("API_TOKEN=123456, TOKENS=1a", f"API_TOKEN={MARK}, TOKENS={MARK}"),
        ("{'api_tokens': 'abcdef', 'tokenizer_key': 'a'}", f"{{'api_tokens': '{MARK}', 'tokenizer_key': '{MARK}'}}"),
        ("vllm serve --api_key s3cr3t --hf-token 12345678", f"vllm serve --api_key {MARK} --hf-token {MARK}"),
        *(
            (said, said)
            for said in (
                "VLM_ARGS=--max-num-batched-tokens 16384 --tokenizer /models/x --max_tokens=5",
                "'max_num_batched_tokens': 16384; with max_num_batched_tokens=2048. eos_token_id=2",
                "tokenizer='/models/x', skip_tokenizer_init=False, tokenizer_mode=auto",
                json.dumps({"tokens_per_second": {"1": 12.3}, "keys": [1, 2], "prompt_tokens": 5}),
                json.dumps({"tokens_per_second": {"1": 12.3}, "keys": [1, 2], "token_ids": []}, indent=1),
            )
        ),
    ],
)
def test_what_is_taken_out_of_a_text(text: str, clean: str):
    assert Redactor(secrets({"MY_TOKEN": "known-secret", "A_KEY": "known-secret-and-more"}))(text) == clean


@pytest.mark.parametrize("password", ["with a blank", "a/b@c:d", "plain-one"])
def test_a_password_in_an_address_is_known_wherever_it_stands(password: str):
    found = secrets({"PARSER_DATABASE_URL": f"postgresql://me:{password}@host/jobs", "OTHER_URL": f"x://{password}@y"})
    assert password not in Redactor(found)(f'FATAL: "{password}" was refused; see "postgresql://me:{password}@host"')


def test_headers_for_a_collector_are_a_secret():
    assert secrets({"OTEL_EXPORTER_OTLP_HEADERS": "x-team=planted-words", "OTEL_SERVICE_NAME": "shown-name"}) == [
        "x-team=planted-words"
    ]


def test_short_values_and_paths_are_no_secrets():
    assert secrets({"A_KEY": "on", "KEY_FILE": "/run/secrets/keys", "PORT": "8080-something"}) == []
