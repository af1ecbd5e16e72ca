# SPDX-License-Identifier: Apache-2.0
"""The component shared-queue: several parsers, none of which keeps anything that another one needs."""

from __future__ import annotations

import pytest

from tests.support.kubernetes import one, pods, rendered
from tests.support.paths import ROOT

WITH = ("ha", "cpu, all")
GUIDE = (ROOT / "docs/kubernetes.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", WITH)
def test_parsers_keep_nothing_on_a_volume(name: str):
    objects = rendered(name)
    assert not [item for item in objects if item["metadata"]["name"] == "parser-state"]
    claims = [volume for volume in pods(objects)["parser"]["volumes"] if "persistentVolumeClaim" in volume]
    assert [volume["name"] for volume in claims] == ["models"]
    (state,) = [volume for volume in pods(objects)["parser"]["volumes"] if volume["name"] == "state"]
    assert state == {"name": "state", "emptyDir": {"sizeLimit": "20Gi"}}


@pytest.mark.parametrize("name", WITH)
def test_three_parsers_serve_while_one_is_replaced_or_drained(name: str):
    parser = one(rendered(name), "Deployment", "parser")["spec"]
    assert parser["replicas"] == 3
    assert parser["strategy"] == {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    assert one(rendered(name), "PodDisruptionBudget", "parser")["spec"]["maxUnavailable"] == 1
    (spread,) = parser["template"]["spec"]["topologySpreadConstraints"]
    assert spread["labelSelector"] == parser["selector"]


@pytest.mark.parametrize("name", WITH)
def test_a_parser_that_ends_gets_no_more_requests(name: str):
    """tests/images/nodes shows it with real containers. A Service that publishes what is not ready would go on."""
    assert one(rendered(name), "Service", "parser")["spec"]["publishNotReadyAddresses"] is False
    (container,) = pods(rendered(name))["parser"]["containers"]
    pause = int(container["lifecycle"]["preStop"]["exec"]["command"][1])
    (stop,) = [int(entry["value"]) for entry in container["env"] if entry["name"] == "PARSER_STOP_SECONDS"]
    assert 0 < pause and pause + stop < pods(rendered(name))["parser"]["terminationGracePeriodSeconds"]
    assert container["startupProbe"]["httpGet"]["path"] == "/health/ready"
    assert container["readinessProbe"]["httpGet"]["path"] == "/health", "the VLM away must not take the API away"


@pytest.mark.parametrize("name", WITH)
def test_where_the_queue_is_comes_from_a_secret_that_the_guide_makes(name: str):
    (container,) = pods(rendered(name))["parser"]["containers"]
    sources = [next(iter(source)) for source in container["envFrom"]]
    assert sources == ["configMapRef", "secretRef"]
    assert container["envFrom"][1]["secretRef"]["name"] == "parser-queue"
    assert "create secret generic parser-queue" in GUIDE
    for setting in ("PARSER_DATABASE_URL", "PARSER_STORAGE_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        assert f"--from-literal={setting}=" in GUIDE
        assert setting not in [entry["name"] for entry in container["env"]], "the Secret's would be hidden"


def test_without_it_there_is_one_parser_with_its_volume():
    assert one(rendered("ascend"), "Deployment", "parser")["spec"]["replicas"] == 1
    assert one(rendered("ascend"), "PersistentVolumeClaim", "parser-state")
