"""Owns the settings file: finds it, overlays the environment, resolves secrets and hands out sections.

The only module that reads the environment. Each service describes its own section in its own `settings.py`;
this one knows the section names; `sections.py` has those that more than one service reads.

    HOOKLAKE_HOME              where data and hooklake.yaml live; default .hooklake in the working directory
    HOOKLAKE_SETTINGS          the settings file, if it is another than that of the home; a worker keeps its children's so
    HOOKLAKE_FAILPOINT         where a fault test stops this process; see failpoints.py
    HOOKLAKE_LOG__URL=...      overrides log.url, and so on for every setting; other HOOKLAKE_ names are refused
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, SettingsError

from infra.sections import LogSettings, Strict, TelemetrySettings
from infra.setting_files import Files, FilesNow
from infra.wrong_settings import did_you_mean, explain, one_line
from schemas.errors import ConfigError
from schemas.event import NAME_PATTERN, is_name

FILE_NAME = "hooklake.yaml"
LEAST_SECRET_BYTES = 16
PREFIX = "HOOKLAKE_"
SETTINGS_VARIABLE = f"{PREFIX}SETTINGS"
NO_SETTINGS = (f"{PREFIX}HOME", SETTINGS_VARIABLE, f"{PREFIX}FAILPOINT")
"""Variables of ours that override nothing in the file."""

Section = TypeVar("Section", bound=BaseModel)


class SettingsFile(BaseSettings):
    """The file as it stands: section names are checked here, their contents by their owners."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, env_nested_delimiter="__", extra="allow")

    log: dict[str, Any] = {}
    tenants: dict[str, Any] = {}
    ingest: dict[str, Any] = {}
    groups: dict[str, Any] = {}
    dead_letters: dict[str, Any] = {}
    quarantine: dict[str, Any] = {}
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
    files: Files = field(default_factory=FilesNow, repr=False)
    """Where the files that it refers to are read."""

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


def load_settings(home: Path | None = None, *, path: Path | None = None, files: Files | None = None) -> Settings:
    """Reads the file of `home`, or that at `path`; raises ConfigError when there is none or it is not what we describe."""
    home, files = (home or home_directory()).absolute(), files or FilesNow()
    return Settings(home=home, file=_read_file(path or settings_path(home), files=files), files=files)


def _read_file(path: Path, *, files: Files) -> SettingsFile:
    try:
        text = files.read(path).content.decode()
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


def read_secret(reference: str, *, home: Path, files: Files, at: str, least_bytes: int = LEAST_SECRET_BYTES) -> bytes:
    """The bytes behind `file:...` or `env:...`; raises ConfigError and never shows a secret."""
    kind, _, name = reference.partition(":")
    if kind == "file" and name:
        secret = _secret_file(home / name, files=files, at=at)
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


def _secret_file(path: Path, *, files: Files, at: str) -> bytes:
    try:
        found = files.read(path)
    except OSError as error:
        raise ConfigError(f"{at}: {path} cannot be read ({error.strerror}), so there is no secret to sign or verify with") from error
    if found.mode & 0o077:
        raise ConfigError(f"{at}: {path} has mode {found.mode:04o}, so others on this machine can read the secret; chmod 600 it")
    return found.content.strip()


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
