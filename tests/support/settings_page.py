# SPDX-License-Identifier: Apache-2.0
"""``.venvs/parser/bin/python -m tests.support.settings_page`` writes docs/settings.md, its Chinese page and
common/declared_settings/settings.schema.json from the settings' own descriptions; tests hold them equal.

Chinese texts are in settings_zh.toml beside this file, keyed by name.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from annotated_types import Ge, Gt, Le, Lt
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined
from pydantic_settings import BaseSettings

import declared_settings
from declared_settings.deployment import BUCKET, BUILDS, CORPUS, LOCAL_MODE, PARSER_CONTAINER
from declared_settings.kinds import Choice, Flag, Number, Setting, Whole
from declared_settings.services import ADDRESSES, HARDWARE_AND_WEIGHTS, LAYOUT, VLM_SERVER
from docparser.settings import REPOSITORY, Settings, variable
from docparser.settings.jobs import CallbackSettings, JobSettings
from docparser.settings.models import ModelSettings
from docparser.settings.pages import PageSettings
from docparser.settings.requests import ClientSettings, RequestSettings, TraceSettings

ROOT = Path(__file__).resolve().parents[2]
PAGES = {"English": ROOT / "docs/settings.md", "Chinese": ROOT / "docs/zh-CN/settings.md"}
CHINESE = Path(__file__).parent / "settings_zh.toml"
UNITS = {"_s": "s", "_mib": "MiB", "_gib": "GiB", "_hours": "h", "_minutes": "min", "_pixels": "pixels"}
# What the images and compose.yaml fix for all.
BY_CONTAINERS = ("VLM_URL", "PARSER_DATA_DIR", "PARSER_CACHE_DIR", "PARSER_SPOOL_DIR", "PARSER_PUBLISHED_ADDRESS")
INTRODUCTION = """# Settings

[中文](zh-CN/settings.md)

<!-- Written by `python -m tests.support.settings_page` (CONTRIBUTING.md); change the descriptions in the code. -->

These are all settings of all services. Write them into `.env`, which is read as Compose reads it, or set them in the
environment, which wins; in Kubernetes into the ConfigMaps ([kubernetes.md](kubernetes.md)). An empty value is an unset
one. In `.env`, put a value with `$` or ` #`, such as a password, into single quotes. A wrong value stops the start. So
does an unknown name with one of our prefixes (`PARSER_`, `VLM_`, `LAYOUT_`, `CORPUS_`, `WATCHDOG_`) in Kubernetes and
without containers. Compose passes only names that it knows: a misspelt one in `.env` reaches no container.
`scripts/preflight.sh` finds both, `scripts/status.sh` unknown names.

Without containers a relative path begins in the checkout. In containers a path is one inside them, and these are fixed:
{fixed}.
"""
HEADS = {
    "English": "| setting | default | values | meaning |\n|---|---|---|---|",
    "Chinese": "| 设置 | 默认 | 取值 | 含义 |\n|---|---|---|---|",
}
BUILDS_NOTE = (
    "Secrets and proxies leave nothing in an image layer. `docker compose build --build-arg HTTPS_PROXY ...`\n"
    "passes `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY` of your shell to the steps of the build; Docker itself needs\n"
    "[more](install.md#behind-a-proxy).\n"
)
NAME = re.compile(r"(?<![`\w/=$.])[A-Z][A-Z0-9]*_[A-Z0-9_]+(?![`\w=])")


@dataclass(frozen=True)
class Row:
    """One setting, as the page and the schema show it."""

    name: str
    default: str
    bounds: str
    meaning: str
    schema: dict[str, Any]


def of_table(setting: Setting) -> Row:
    schema: dict[str, Any] = {"type": "string"}
    if isinstance(setting, Number):
        kind = "integer" if isinstance(setting, Whole) else "number"
        schema = {"type": kind, "minimum": setting.least, "maximum": setting.most}
    elif isinstance(setting, Flag):
        schema = {"enum": ["0", "1"]}
    elif isinstance(setting, Choice):
        schema = {"enum": list(setting.values)}
    elif setting.form:
        schema["format"] = setting.form
    shown = setting.shown or (f"`{setting.default}`" if setting.default else "")
    return Row(setting.name, shown, setting.bounds, setting.meaning, schema)


def of_field(field: str, info: FieldInfo) -> Row:
    """Raises ValueError for a field without a description."""
    if not info.description:
        raise ValueError(f"{field}: expected Field(description=...)")
    name = variable(field)
    unit = next((unit for end, unit in UNITS.items() if field.endswith(end)), "")
    low: list[str] = []
    schema: dict[str, Any] = {"type": "string"}
    if info.annotation in (int, float):
        schema = {"type": "integer" if info.annotation is int else "number"}
    keys: dict[type, tuple[str, str, str]] = {
        Ge: ("ge", "from", "minimum"),
        Gt: ("gt", "above", "exclusiveMinimum"),
        Le: ("le", "to", "maximum"),
        Lt: ("lt", "below", "exclusiveMaximum"),
    }
    bounds = ""
    for entry in info.metadata:
        for kind, (attribute, word, key) in keys.items():
            if isinstance(entry, kind):
                value = getattr(entry, attribute)
                low.append(f"{word} {value:,}")
                schema[key] = value
        if pattern := getattr(entry, "pattern", None):
            schema["pattern"] = pattern
            if words := re.fullmatch(r"\^\(([a-z|]+)\)\$", pattern):
                bounds = ", ".join(f"`{word}`" for word in words[1].split("|"))
    if isinstance(info.json_schema_extra, dict):
        schema |= info.json_schema_extra
    if not info.repr:
        schema["writeOnly"] = True
    if info.annotation is bool:
        bounds, schema = "1 or 0", {"enum": ["0", "1"]}
    return Row(name, _default(info), bounds or " ".join([*low, unit] if low else []).strip(), info.description, schema)


def _default(info: FieldInfo) -> str:
    value = info.default
    if value is PydanticUndefined or value in (None, ""):
        return ""
    if isinstance(value, bool):
        return f"`{int(value)}`"
    if isinstance(value, Path) and value.is_relative_to(REPOSITORY):
        value = value.relative_to(REPOSITORY)
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return f"`{text}`"


def fields(group: type[BaseSettings], *, but: Iterable[str] = ()) -> list[Row]:
    """The fields that this group itself has, without those of the table and those that are named."""
    own = [name for name in group.__annotations__ if name in Settings.model_fields]
    names = [name for name in own if variable(name) not in declared_settings.DECLARED and name not in set(but)]
    return [of_field(name, Settings.model_fields[name]) for name in names]


def some(*names: str) -> list[Row]:
    return [of_field(name, Settings.model_fields[name]) for name in names]


def sections() -> list[tuple[str, str, list[Row]]]:
    """English title, Chinese title, and rows, as people look for them."""
    weights = ("pipeline_config", "strict_model", "selftest")
    reading = ("confidence", "doubtful_below", "small_print", "line_pixels", "text_layer")
    layout = ("layout_engine", "layout_url", "layout_timeout_s")
    rows = {
        group: list(map(of_table, table))
        for group, table in {
            "weights": HARDWARE_AND_WEIGHTS,
            "vlm": VLM_SERVER,
            "layout": LAYOUT,
            "addresses": ADDRESSES,
            "container": PARSER_CONTAINER,
            "bucket": BUCKET,
            "corpus": CORPUS,
            "builds": BUILDS,
            "local": LOCAL_MODE,
        }.items()
    }
    own = [name for name in Settings.__annotations__ if variable(name) not in declared_settings.DECLARED]
    return [
        ("Hardware and weights", "硬件与权重", [*rows["weights"], *some(*weights)]),
        ("VLM server", "VLM 服务", rows["vlm"]),
        ("Layout model and layout server", "版面模型与版面服务", [*some(*layout), *rows["layout"]]),
        (
            "Who may ask the parser",
            "谁可以访问解析服务",
            [*rows["addresses"], *fields(ClientSettings), *some("public_url")],
        ),
        ("Limits of requests and connections", "请求与连接的上限", fields(RequestSettings)),
        ("Work on pages", "页面处理", [*some(*reading), *fields(PageSettings), *rows["container"], *some(*own)]),
        (
            "Calls of the VLM server",
            "对 VLM 服务的调用",
            fields(ModelSettings, but=(*weights, *reading, *layout)),
        ),
        ("Jobs and their storage", "任务与存储", [*fields(JobSettings, but=["public_url"]), *rows["bucket"]]),
        ("Callbacks", "回调", fields(CallbackSettings)),
        ("Traces", "链路追踪", fields(TraceSettings)),
        ("Corpora", "语料", rows["corpus"]),
        ("Image builds", "构建镜像", rows["builds"]),
        ("Local mode, without containers", "本地模式（不用容器）", rows["local"]),
    ]


def english(text: str) -> str:
    """Links for files of docs/, code for names of settings, and bars that do not end a cell."""
    text = re.sub(r"(?<![\w`])docs/([\w/.-]+\.md)(#[\w-]+)?", lambda m: f"[{m[1]}]({m[1]}{m[2] or ''})", text)
    text = re.sub(r"(?<![\w`])config/([\w/.-]+\.md)", r"[config/\1](../config/\1)", text)
    return NAME.sub(lambda match: f"`{match[0]}`", text).replace("|", "\\|")


def words_in_chinese(text: str) -> str:
    """Words of the column of values."""
    for found, put in ((r"\babove (\S+)", r"大于 \1"), (r"\bfrom (\S+)", r"不小于 \1"), (r"\bbelow (\S+)", r"小于 \1")):
        text = re.sub(found, put, text)
    text = re.sub(r"(大于|不小于) (\S+?),? to (\S+)", r"\1 \2，不大于 \3", text)
    for found, put in {
        " pages": " 页",
        " pixels": " 像素",
        " patches": " 个图块",
        " million 像素": " 百万像素",
    }.items():
        text = text.replace(found, put)
    return text.replace(" to ", " 到 ").replace("1 or 0", "1 或 0").replace(", 小于", "，小于")


def chinese_table() -> dict[str, Any]:
    """Name -> ``meaning``, and ``default`` where that is in words; and the page's other texts."""
    return tomllib.loads(CHINESE.read_text(encoding="utf-8"))


def page(language: str) -> str:
    """The whole page. Raises KeyError for a setting without a Chinese meaning."""
    own = chinese_table() if language == "Chinese" else {}
    between = "、" if language == "Chinese" else ", "
    fixed = between.join(f"`{name}`" for name in BY_CONTAINERS)
    parts = [(own["introduction"] if own else INTRODUCTION).format(fixed=fixed)]
    for title, zh_title, rows in sections():
        lines = [f"## {zh_title if language == 'Chinese' else title}", "", HEADS[language]]
        for row in rows:
            if language == "Chinese":
                told = own[row.name]
                cells = (
                    told.get("default", row.default),
                    words_in_chinese(row.bounds),
                    told["meaning"].replace("|", "\\|"),
                )
            else:
                cells = (english(row.default), row.bounds, english(row.meaning))
            lines.append(re.sub(r"\| +(?=\|)", "| ", f"| `{row.name}` | {' | '.join(cells)} |"))
        parts.append("\n".join(lines) + "\n")
        if title == "Image builds":
            parts.append(own["builds_note"] if own else BUILDS_NOTE)
    return "\n".join(parts)


def schema() -> str:
    """JSON Schema of the settings as one object, a line each, for editors and Kubernetes values; our services read the
    names."""
    found = {
        row.name: {
            "description": row.meaning,
            **({"default": row.default.strip("`")} if row.default else {}),
            **row.schema,
        }
        for *_, rows in sections()
        for row in rows
    }
    lines = [f"  {json.dumps(name)}: {json.dumps(entry, ensure_ascii=False)}" for name, entry in sorted(found.items())]
    return """{
 "$schema": "https://json-schema.org/draft/2020-12/schema",
 "title": "Settings of the PaddleOCR-VL bundle",
 "type": "object",
 "properties": {
PROPERTIES
 }
}
""".replace("PROPERTIES", ",\n".join(lines))


def main() -> None:
    declared_settings.SCHEMA.write_text(schema(), encoding="utf-8")
    for language, path in PAGES.items():
        path.write_text(page(language), encoding="utf-8")


if __name__ == "__main__":
    main()
