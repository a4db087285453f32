"""Owns the settings file: finds it, overlays the environment, resolves secrets and hands out sections.

The only module that reads the environment. Each service describes its own section in its own `settings.py`;
this one knows the section names and the two sections that everybody needs, `log` and `telemetry`.

    HOOKLAKE_HOME              where data and hooklake.yaml live; default .hooklake in the working directory
    HOOKLAKE_SETTINGS          the settings file, if it is another than that of the home; a worker keeps its children's so
    HOOKLAKE_FAILPOINT         where a fault test stops this process; see failpoints.py
    HOOKLAKE_LOG__URL=...      overrides log.url, and so on for every setting; other HOOKLAKE_ names are refused
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, SettingsError

from infra.log_address import EMBEDDED, why_no_address
from infra.wrong_settings import did_you_mean, explain, one_line
from schemas.errors import ConfigError
from schemas.event import NAME_PATTERN, is_name

FILE_NAME = "hooklake.yaml"
LEAST_SECRET_BYTES = 16
PREFIX = "HOOKLAKE_"
SETTINGS_VARIABLE = f"{PREFIX}SETTINGS"
NO_SETTINGS = (f"{PREFIX}HOME", SETTINGS_VARIABLE, f"{PREFIX}FAILPOINT")
"""Variables of ours that override nothing in the file."""

CAP_PATTERN = r"^([1-9][0-9]?%|[1-9][0-9]{0,5}[KMG]iB)$"

Section = TypeVar("Section", bound=BaseModel)


class Strict(BaseModel):
    """The base of every section: unknown keys are refused, values do not change after loading."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def _size(cap: str) -> tuple[str, int]:
    """What a cap is measured in, and how much; amounts compare in KiB."""
    return ("%", int(cap[:-1])) if cap.endswith("%") else ("KiB", int(cap[:-3]) * 1024 ** "KMG".index(cap[-3]))


class LogSettings(Strict):
    """Where the streams live and what "accepted" means there."""

    url: str = Field(
        "embedded",
        description="`embedded`, or a server's address: `redis://host:6379/0`, `unix:///path`, `rediss://...?ssl_ca_certs=FILE` for TLS, "
        "`redis+sentinel://host:26379,host:26380/NAME` for the primary that sentinels call NAME, "
        "`redis+cluster://host:7000,host:7001/0` for a cluster.",
    )
    shards: int = Field(4, ge=1, le=1024, description="Fixed in the log at first start; another number is refused later.")
    durability: Literal["fsync", "replicated", "relaxed"] = Field(
        "fsync",
        description="`fsync` demands `appendfsync always`; `replicated` also waits until replicas have an event before it is accepted; "
        "`relaxed` accepts a server that may lose the last second.",
    )
    replicas: int = Field(1, ge=1, le=16, description="How many of them, where the log is `replicated`.")
    prefix: str = Field("hooklake:", pattern=r"^[a-z0-9][a-z0-9_:-]*$", description="Starts every key of this log.")
    timeout_ms: int = Field(5000, ge=100, description="How long a call may take before the log counts as unavailable.")
    soft_cap: str = Field(
        "60%",
        pattern=CAP_PATTERN,
        description="Above it, events that are archived are taken off the log although a group has not settled them: a share of the "
        "server's `maxmemory` (of half its machine's memory if it has none), or an amount, `2GiB`.",
    )
    hard_cap: str = Field("80%", pattern=CAP_PATTERN, description="Above it nothing more is accepted; a share or an amount, as `soft_cap`.")
    window: str = Field("80h", pattern=r"^[1-9][0-9]*h$", description="How long a delivery id is remembered as seen.")

    @model_validator(mode="after")
    def _caps_are_in_order(self) -> LogSettings:
        soft, hard = (_size(cap) for cap in (self.soft_cap, self.hard_cap))
        if soft[0] == hard[0] and soft[1] >= hard[1]:
            raise ValueError(
                f"soft_cap={self.soft_cap} is not below hard_cap={self.hard_cap}, so nothing would make room before events are refused"
            )
        return self

    @field_validator("url")
    @classmethod
    def _is_an_address(cls, url: str) -> str:
        if reason := why_no_address(url):
            raise ValueError(reason)
        return url

    @model_validator(mode="after")
    def _has_replicas_if_it_waits_for_them(self) -> LogSettings:
        if self.durability == "replicated" and self.url == EMBEDDED:
            raise ValueError(
                "durability is replicated, and the embedded server has no replicas: set url to a server that has, or durability to fsync"
            )
        return self


class TelemetrySettings(Strict):
    """What a process tells the outside about itself."""

    traces: str = Field(
        "off", pattern=r"^(off|file:.+|https?://.+)$", description="`off`, `file:traces.jsonl` under the home, or an OTLP/HTTP address."
    )
    ops_host: str = Field("127.0.0.1", min_length=1, description="Where the ops ports listen: metrics and health, without authentication.")
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="The least level that is logged.")

    @field_validator("traces", mode="before")
    @classmethod
    def _off_is_a_word(cls, traces: object) -> object:
        # YAML reads `off` without quotes as false.
        return "off" if traces is False else traces


class SettingsFile(BaseSettings):
    """The file as it stands: section names are checked here, their contents by their owners."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, env_nested_delimiter="__", extra="allow")

    log: dict[str, Any] = {}
    tenants: dict[str, Any] = {}
    ingest: dict[str, Any] = {}
    groups: dict[str, Any] = {}
    dead_letters: dict[str, Any] = {}
    archive: dict[str, Any] = {}
    telemetry: dict[str, Any] = {}

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],  # noqa: ARG003 - the library's signature
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return env_settings, init_settings


@dataclass(frozen=True, slots=True)
class Settings:
    """The loaded file; `section` validates one part of it."""

    home: Path
    file: SettingsFile

    @property
    def log(self) -> LogSettings:
        return self.section("log", LogSettings)

    @property
    def telemetry(self) -> TelemetrySettings:
        return self.section("telemetry", TelemetrySettings)

    def section(self, name: str, model: type[Section]) -> Section:
        """Raises ConfigError, one sentence, when the section does not fit its model."""
        return validate(getattr(self.file, name), model, at=name)

    def named_sections(self, name: str, model: type[Section]) -> dict[str, Section]:
        """A section that maps names to models, such as `groups`."""
        found: dict[str, Section] = {}
        for key, value in getattr(self.file, name).items():
            check_name(key, at=name)
            found[key] = validate(value, model, at=f"{name}.{key}")
        return found

    def under_home(self, path: str) -> Path:
        return self.home / path


def home_directory() -> Path:
    return Path(os.environ.get(f"{PREFIX}HOME") or ".hooklake").absolute()


def settings_path(home: Path) -> Path:
    return Path(os.environ.get(SETTINGS_VARIABLE) or home / FILE_NAME).absolute()


def load_settings(home: Path | None = None, *, path: Path | None = None) -> Settings:
    """Reads the file of `home`, or that at `path`; raises ConfigError when there is none or it is not what we describe."""
    home = (home or home_directory()).absolute()
    return Settings(home=home, file=_read_file(path or settings_path(home)))


def _read_file(path: Path) -> SettingsFile:
    try:
        text = path.read_text(encoding="utf-8")
        content = yaml.safe_load(text)
    except FileNotFoundError as error:
        raise ConfigError(f"{path} does not exist, so there is nothing to run: write one with `hooklake init`") from error
    except OSError as error:
        raise ConfigError(f"{path} cannot be read ({error.strerror}), so there is nothing to run: give us the right to read it") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not YAML, so no setting in it counts: {one_line(error)}") from error
    if content is None:
        content = {}
    if not isinstance(content, dict):
        raise ConfigError(f"{path} must be a mapping of sections, not a {type(content).__name__}; nothing was read from it")
    known = list(SettingsFile.model_fields)
    for key in content:
        if key not in known:
            raise ConfigError(f"{key} is not a section of {path.name}{did_you_mean(str(key), known)}; nothing would read it")
    refuse_unknown_variables(os.environ, secrets_named_in=text)
    empty_sections_dropped = {key: value for key, value in content.items() if value is not None}
    try:
        return SettingsFile(**empty_sections_dropped)
    except ValidationError as error:
        raise ConfigError(explain(error, model=SettingsFile, at="")) from error
    except SettingsError as error:
        named = re.search(r'field "(\w+)"', str(error))
        variable = PREFIX + (named[1].upper() if named else "...")
        raise ConfigError(
            f"{variable} is no JSON object, so no setting of it counts; override single ones: {variable}__NAME=..."
        ) from error


def refuse_unknown_variables(environment: Iterable[str], *, secrets_named_in: str) -> None:
    """Raises ConfigError for a variable that looks like a setting and is none; secrets may have any name."""
    sections = list(SettingsFile.model_fields)
    for name in sorted(environment):
        section, nested, rest = name.upper().removeprefix(PREFIX).partition("__")
        is_ours = name.upper().startswith(PREFIX) and f"env:{name}" not in secrets_named_in
        if is_ours and name not in NO_SETTINGS and section.lower() not in sections:
            known = [*NO_SETTINGS, *(f"{PREFIX}{known.upper()}{nested}{rest}" for known in sections)]
            raise ConfigError(f"{name} is not a variable that anything reads{did_you_mean(name, known)}; it would have no effect")


def validate(value: object, model: type[Section], *, at: str) -> Section:
    try:
        return model.model_validate({} if value is None else value)
    except ValidationError as error:
        raise ConfigError(explain(error, model=model, at=at)) from error


def check_name(name: object, *, at: str) -> None:
    if not isinstance(name, str) or not is_name(name):
        raise ConfigError(f"{at}: the name {name!r} does not match {NAME_PATTERN}; names become parts of keys, paths and metrics")


def read_secret(reference: str, *, home: Path, at: str, least_bytes: int = LEAST_SECRET_BYTES) -> bytes:
    """The bytes behind `file:...` or `env:...`; raises ConfigError and never shows a secret."""
    kind, _, name = reference.partition(":")
    if kind == "file" and name:
        secret = _secret_file(home / name, at=at)
    elif kind == "env" and name:
        if name not in os.environ:
            raise ConfigError(f"{at}: the environment has no {name}, so there is no secret to sign or verify with")
        secret = os.environ[name].encode()
    else:
        raise ConfigError(f"{at} must be a reference, `file:secrets/name` or `env:NAME`; a secret written here could be printed")
    if len(secret) < least_bytes:
        what = "is empty" if not secret else f"has {len(secret)} bytes"
        raise ConfigError(f"{at}: the secret {what}, and at least {least_bytes} are needed; a short secret can be guessed")
    return secret


def _secret_file(path: Path, *, at: str) -> bytes:
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
        secret = path.read_bytes().strip()
    except OSError as error:
        raise ConfigError(f"{at}: {path} cannot be read ({error.strerror}), so there is no secret to sign or verify with") from error
    if mode & 0o077:
        raise ConfigError(f"{at}: {path} has mode {mode:04o}, so others on this machine can read the secret; chmod 600 it")
    return secret


def environment_with(extra: Mapping[str, str]) -> dict[str, str]:
    """The environment for a child process: ours, plus `extra`."""
    return {**os.environ, **extra}


def environment_value(name: str) -> str:
    """One variable, empty when it is not set; for what is no setting, such as JAVA_HOME."""
    return os.environ.get(name, "")


def set_environment(values: Mapping[str, str]) -> None:
    """For libraries that can be told a thing in no other way: Spark finds Java, Python and itself by variables."""
    os.environ.update(values)


__all__ = [
    "FILE_NAME",
    "LEAST_SECRET_BYTES",
    "LogSettings",
    "Settings",
    "Strict",
    "TelemetrySettings",
    "check_name",
    "did_you_mean",
    "environment_value",
    "environment_with",
    "explain",
    "home_directory",
    "load_settings",
    "read_secret",
    "set_environment",
    "validate",
]
