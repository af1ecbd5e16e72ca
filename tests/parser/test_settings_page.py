# SPDX-License-Identifier: Apache-2.0
"""All settings of all services: the page and the schema are those of the code, and each deployment passes each."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

import declared_settings
from bundle.local_mode.settings import LocalSettings
from declared_settings.deployment import BUCKET
from declared_settings.kinds import Choice, Flag, Number
from declared_settings.services import HARDWARE_AND_WEIGHTS, LAYOUT, VLM_SERVER
from docparser.settings import Settings, variable
from docparser.settings.models import ModelSettings
from docparser.settings.pages import PageSettings
from docparser.settings.requests import RequestSettings
from tests.support import settings_page
from tests.support.kubernetes import compose_service
from tests.support.paths import ROOT

PARSER = {variable(field) for field in Settings.model_fields} | {setting.name for setting in BUCKET}
# What Compose itself reads, and no service.
COMPOSE = {"STACK", "ATLAS", "NPU_IDS", "ASCEND_GID", "VLM_MEM_LIMIT", "VLM_PIDS_LIMIT"} | {
    *("NPU_EXPORTER_IMAGE", "NPU_EXPORTER_PORT")
}
# Of the parser's settings, those that the VLM's launcher reads too.
SHARED = {"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_HEADERS", "OTEL_SERVICE_NAME"}
VLM = {setting.name for setting in (*HARDWARE_AND_WEIGHTS, *VLM_SERVER, *LAYOUT)} - COMPOSE | SHARED
CORPUS = {variable(field) for group in (ModelSettings, PageSettings, RequestSettings) for field in group.model_fields}
CORPUS |= {setting.name for setting in BUCKET}
SERVICES = {"parser": PARSER, "vlm": VLM, "corpus": CORPUS}
# Service -> what the image and compose.yaml fix: addresses and folders inside the container.
FIXED = {
    "parser": {
        *("VLM_URL", "MODELS_DIR", "PARSER_BIND", "PARSER_PORT", "PARSER_PUBLISHED_ADDRESS"),
        *("PARSER_DATA_DIR", "PARSER_CACHE_DIR", "PARSER_SPOOL_DIR"),
    },
    "vlm": {"MODELS_DIR", "LAYOUT_PORT"},
    "corpus": {"VLM_URL", "MODELS_DIR", "PARSER_CACHE_DIR", "PARSER_SPOOL_DIR"},
}
# Kubernetes fixes more: keys come from a Secret, names are the cluster's, the corpus has no dies.
FIXED_IN_CLUSTER = {
    "parser": FIXED["parser"] | {"PARSER_ALLOWED_HOSTS", "PARSER_API_KEYS_FILE"},
    "vlm": FIXED["vlm"],
    "corpus": FIXED["corpus"] | {"HARDWARE"},
}
# One lock and one replica, and nothing that a CPU refuses, whatever .env says for containers.
FIXED_LOCALLY = {"HARDWARE", "VLM_REPLICAS", "VLM_REPLICAS_PER_DIE", "VLM_GRAPH_MODE", "VLM_MEMORY_UTILIZATION"}


def passed_by_compose(service: str) -> set[str]:
    """Names that the service gets from the variable of that name, with its fragment for Ascend, which has more."""
    text = (ROOT / "compose.yaml").read_text()
    own = yaml.safe_load(text)["services"][service]["environment"]
    if service == "vlm":
        own |= yaml.safe_load((ROOT / "config/compose/ascend.yaml").read_text())["services"]["vlm"]["environment"]
    return {name for name, value in own.items() if re.search(rf"\$\{{{name}(:-[\w.]*)?\}}", str(value))}


@pytest.mark.parametrize("service", SERVICES)
def test_compose_passes_every_setting_that_the_images_do_not_fix(service: str):
    assert passed_by_compose(service) == SERVICES[service] - FIXED[service]
    # What is empty where nothing is said: the services read that as unset.
    assert set(compose_service("parser", "cpu")["environment"]) >= PARSER - {"MODELS_DIR"}


def test_compose_reads_what_no_service_does():
    files = [ROOT / "compose.yaml", *(ROOT / "config/compose").glob("**/*.yaml")]
    text = "".join(path.read_text() for path in files)
    assert {name for name in COMPOSE if f"${{{name}:-" not in text} == set()


def pod(service: str) -> dict[str, Any]:
    if service == "corpus":
        text = (ROOT / "deploy/kubernetes/components/corpus/ray.yaml").read_text()
        spec = next(one for one in yaml.safe_load_all(text) if one["kind"] == "RayCluster")["spec"]
        template: dict[str, Any] = spec["workerGroupSpecs"][0]["template"]
    else:
        text = (ROOT / f"deploy/kubernetes/base/{service}.yaml").read_text()
        template = next(one for one in yaml.safe_load_all(text) if one["kind"] == "Deployment")["spec"]["template"]
    found: dict[str, Any] = template["spec"]["containers"][0]
    return found


@pytest.mark.parametrize("service", SERVICES)
def test_a_cluster_passes_every_setting_by_a_configmap(service: str):
    container = pod(service)
    assert {"configMapRef": {"name": f"{service}-settings"}} in container["envFrom"]
    # A pod's own variables win over its ConfigMap.
    own = {entry["name"] for entry in container.get("env", ())}
    assert own & SERVICES[service] <= FIXED_IN_CLUSTER[service]


def sample(name: str) -> str:
    setting = declared_settings.DECLARED.get(name)
    if isinstance(setting, Number):
        return str(setting.least)
    if isinstance(setting, Flag):
        return "0"
    if isinstance(setting, Choice):
        return setting.values[0]
    return "/a/folder"


def test_local_mode_passes_every_setting():
    for name in sorted((PARSER | VLM) - FIXED_LOCALLY):
        value = sample(name)
        assert LocalSettings.of({name: value}).values[name] == value


def test_the_page_and_the_schema_are_those_of_the_code():
    """`python -m tests.support.settings_page` writes them."""
    for language, path in settings_page.PAGES.items():
        assert path.read_text() == settings_page.page(language), f"{path.name}: written by an older table"
    assert declared_settings.SCHEMA.read_text() == settings_page.schema()


def test_every_setting_is_on_the_page_once_and_has_a_chinese_meaning():
    shown = [row.name for *_, rows in settings_page.sections() for row in rows]
    assert sorted(shown) == sorted({*PARSER, *declared_settings.DECLARED})
    assert set(shown) == declared_settings.names()
    texts = {"introduction", "builds_note"}
    assert settings_page.chinese_table().keys() - texts == set(shown)


def test_defaults_of_the_table_are_those_of_the_parser():
    for field, info in Settings.model_fields.items():
        setting = declared_settings.DECLARED.get(variable(field))
        if setting and setting.name not in ("HARDWARE", "MODELS_DIR", "MODELS_CONFIG"):  # the scripts' are compose's
            assert setting.default == str(info.default or ""), setting.name


@pytest.mark.parametrize(
    "value", ["four", "0", "-1", "1", "2.5", "1e3", "nan", "true", "Off", "a.example", "s3://In/x"]
)
def test_what_the_schema_refuses_the_parser_refuses(value: str, monkeypatch: pytest.MonkeyPatch):
    """Containers and scripts/preflight.sh judge the parser's settings by the schema, without pydantic."""
    own = sorted({variable(field) for field in Settings.model_fields} - declared_settings.DECLARED.keys())
    refused = {error.name for error in declared_settings.wrong(dict.fromkeys(own, value))}
    for name in own:
        monkeypatch.setenv(name, value)
    with pytest.raises(ValidationError) as caught:
        Settings()
    assert refused <= {variable(str(error["loc"][0])) for error in caught.value.errors()}
    assert len(refused) > 5


def test_the_schema_is_json():
    found = json.loads(settings_page.schema())["properties"]["PARSER_RENDER_TIMEOUT_S"]
    assert found["exclusiveMinimum"] == 0 and found["maximum"] == 3600 and found["default"] == "20"
