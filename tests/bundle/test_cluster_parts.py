# SPDX-License-Identifier: Apache-2.0
"""What the containers do for a cluster only: HAProxy in front of pods, their count, and weights for a volume."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from container import balancer, fetch_weights, metrics
from served_weights import placing
from served_weights.catalog import DEFAULT_FILE, Catalog
from served_weights.manifest import NAME, verify
from served_weights.settings import WeightSettings
from tests.support.system_packages import needs
from tool_errors import EnvironmentSetupError, UsageError, WeightsError

POD = {
    "VLM_PODS": "vlm-pods.ns.svc.cluster.local",
    "VLM_PORT": "8000",
    "VLM_MOST_PODS": "32",
    "VLM_MAX_NUM_SEQS": "128",
}
PAGE = (
    "# TYPE vlm_dies_missing gauge\nvlm_dies_missing 0.0\n"
    "# TYPE vlm_oom_kills_total counter\nvlm_oom_kills_total 0.0\n# TYPE vlm_replica_up gauge\n"
)


def test_pods_are_balanced_by_the_containers_own_file():
    """All of haproxy.cfg but the servers and the limit is the same, so requests are balanced and retried alike."""
    text = balancer.configuration(POD)
    own = balancer.of_replicas(balancer.TEMPLATE.read_text(), [8100], 16)
    differ = set(text.removesuffix(balancer.NAMES).splitlines()) ^ set(own.splitlines())
    assert {line.split()[0] for line in differ} == {"maxconn", "server", "server-template"}
    assert "server-template pod- 32 vlm-pods.ns.svc.cluster.local:8000 resolvers cluster" in text
    assert "maxconn 8192\n" in text and "\nresolvers cluster\n    parse-resolv-conf\n" in text


@needs("haproxy")
def test_haproxy_accepts_it(tmp_path: Path):
    path = tmp_path / "haproxy.cfg"
    path.write_text(balancer.configuration(POD))
    env = os.environ | {"RUN_DIR": str(tmp_path), "VLM_HOST": "127.0.0.1", "VLM_PORT": "8000", "METRICS_PORT": "8099"}
    done = subprocess.run(["haproxy", "-c", "-f", str(path)], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_replicas_of_all_pods_are_counted(monkeypatch: pytest.MonkeyPatch):
    """Two replicas in one pod, one of them down; one in the next; a third pod loads and does not answer."""
    pages = {
        "http://10.0.0.1:8000": PAGE + 'vlm_replica_up{replica="0"} 1.0\nvlm_replica_up{replica="1"} 0.0\n',
        "http://10.0.0.2:8000": PAGE.replace("0.0", "2.0") + 'vlm_replica_up{replica="0"} 1.0\n',
        "http://10.0.0.3:8000": None,
    }
    monkeypatch.setenv("VLM_PODS", "vlm-pods")
    monkeypatch.setattr(metrics, "pod_addresses", lambda name: [url.split("/")[2].split(":")[0] for url in pages])
    families = {
        url: None if page is None else list(metrics.text_string_to_metric_families(page)) for url, page in pages.items()
    }
    monkeypatch.setattr(metrics, "fetch", families.__getitem__)
    registry = metrics.CollectorRegistry()
    registry.register(metrics.Pods())
    lines = metrics.generate_latest(registry).decode().splitlines()
    # The lines that docparser.models.vlm_probe reads.
    assert [line for line in lines if line.startswith("vlm_")] == [
        "vlm_dies_missing 2.0",
        "vlm_oom_kills_total 2.0",
        'vlm_replica_up{replica="0"} 1.0',
        'vlm_replica_up{replica="1"} 0.0',
        'vlm_replica_up{replica="2"} 1.0',
        'vlm_replica_up{replica="3"} 0.0',
    ]


def test_no_pod_is_no_replica(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("VLM_PODS", "vlm-pods")
    monkeypatch.setattr(metrics, "pod_addresses", lambda name: [])
    assert [len(family.samples) for family in metrics.Pods().collect()] == [1, 1, 0]


def test_a_name_stands_for_its_addresses():
    assert metrics.pod_addresses("localhost") == ["127.0.0.1"]
    assert metrics.pod_addresses("absent.invalid") == []


# A simulated hub: `hf download REPOSITORY --local-dir FOLDER` writes a whole model and its own cache.
HF = """#!/bin/sh
test "$1 $3" = "download --local-dir" || exit 2
test -z "$SIMULATED_HUB_AWAY" || exit 1
mkdir -p "$4/PP-DocLayoutV2" "$4/.cache"
echo '{}' > "$4/config.json"
echo "{{ 'Assistant: ' }}" > "$4/chat_template.jinja"
printf '\\002\\000\\000\\000\\000\\000\\000\\000{}' > "$4/model.safetensors"
for name in inference.json inference.pdiparams inference.yml; do echo $name > "$4/PP-DocLayoutV2/$name"; done
"""


@pytest.fixture
def volume(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of models of the Job, whose environment has a simulated client of the hub."""
    client = tmp_path / "venv/vlm/bin/hf"
    client.parent.mkdir(parents=True)
    client.write_text(HF)
    client.chmod(0o755)
    for name, value in {"ENVS_DIR": tmp_path / "venv", "MODELS_DIR": tmp_path / "models", "HARDWARE": "cpu"}.items():
        monkeypatch.setenv(name, str(value))
    for name in ("MODELS_CONFIG", "LAYOUT_MODEL_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("VLM_MODEL", "PaddleOCR-VL")
    return tmp_path / "models"


def test_where_no_model_is_named_the_newest_is_fetched_unless_one_is_there(volume: Path):
    catalog = Catalog.load(DEFAULT_FILE)
    settings = WeightSettings.from_environment({"MODELS_DIR": str(volume), "HARDWARE": "cpu"})
    assert fetch_weights.chosen(settings, catalog).name == "PaddleOCR-VL-1.6"
    fetch_weights.main()
    assert fetch_weights.chosen(settings, catalog).name == "PaddleOCR-VL"


def test_weights_come_to_their_place_when_they_are_whole(
    volume: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("SIMULATED_HUB_AWAY", "1")
    with pytest.raises(EnvironmentSetupError, match="goes on at the next try"):
        fetch_weights.main()
    assert not (volume / "PaddleOCR-VL").exists()
    monkeypatch.delenv("SIMULATED_HUB_AWAY")
    fetch_weights.main()
    assert verify(volume / "PaddleOCR-VL") == 6 and [path.name for path in volume.iterdir()] == ["PaddleOCR-VL"]
    # A claim that was filled by hand: no hub is asked, and files that nobody listed are listed.
    monkeypatch.setenv("SIMULATED_HUB_AWAY", "1")
    (volume / "PaddleOCR-VL" / NAME).unlink()
    fetch_weights.main()
    assert verify(volume / "PaddleOCR-VL") == 6 and "is whole" in capfd.readouterr().out


def test_a_layout_model_that_was_begun_is_gone_on_with(tmp_path: Path):
    model, asked = Catalog.load(DEFAULT_FILE).models["PaddleOCR-VL-1.6"], list[tuple[str | None, str]]()

    def download(repository: str, folder: Path) -> None:
        asked.append((repository, folder.name))

    (inside := tmp_path / ".part/PP-DocLayoutV3").mkdir(parents=True)
    placing.gather(model, tmp_path / ".part", download)
    assert asked == [(model.repository, ".part"), (model.layout_repository, "PP-DocLayoutV3")]
    for name in ("inference.json", "inference.pdiparams", "inference.yml"):
        (inside / name).touch()
    placing.gather(model, tmp_path / ".part", download)
    assert asked[2:] == [(model.repository, ".part")], "a layout model that is there is not fetched again"


def test_weights_that_are_damaged_are_named_and_left(volume: Path):
    fetch_weights.main()
    path = volume / "PaddleOCR-VL/config.json"
    path.write_text("{ }")
    with pytest.raises(WeightsError, match=r"config\.json is damaged.*remove .*PaddleOCR-VL to fetch it"):
        fetch_weights.main()
    assert path.read_text() == "{ }"


def test_a_folder_cannot_be_fetched(volume: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("VLM_MODEL", "mine")
    with pytest.raises(UsageError, match="VLM_MODEL is 'mine'; expected one of PaddleOCR-VL,"):
        fetch_weights.main()
