"""Owns the JSON Schemas that a source's events are held to: read and compiled at start, asked for every event of their types.

Schemas are the operator's and trusted; bodies are not. So patterns are matched in linear time (one that needs to look around or
back is refused at start), nothing is ever fetched for a `$ref`, and a reason quotes the schema and never the body.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import orjson

from infra.setting_files import Files
from schemas.errors import ConfigError, SchemaMismatch

if TYPE_CHECKING:
    from jsonschema_rs import Validator

FLAG = "schema_mismatch"
LONGEST_REASON = 300


@dataclass(frozen=True, slots=True)
class BodySchemas:
    """The schemas of one source, by event type; `github.issues.*` and `*` stand for types that have none of their own."""

    by_type: Mapping[str, Validator]
    on_mismatch: Literal["refuse", "flag"]

    @classmethod
    def read(
        cls, references: Mapping[str, str], *, on_mismatch: Literal["refuse", "flag"], home: Path, files: Files, at: str
    ) -> BodySchemas | None:
        """None where the source has no schemas; raises ConfigError."""
        if not references:
            return None
        by_type = {name: _compiled(reference, home=home, files=files, at=f"{at}.{name}") for name, reference in references.items()}
        return cls(by_type, on_mismatch)

    def flags_for(self, content: object, *, event_type: str) -> tuple[str, ...]:
        """What the event is to be flagged with; raises SchemaMismatch where mismatches are refused."""
        reason = self.why_not(content, event_type=event_type)
        if reason and self.on_mismatch == "refuse":
            raise SchemaMismatch(f"the body does not fit the schema of {event_type}: {reason}")
        return (FLAG,) if reason else ()

    def why_not(self, content: object, *, event_type: str) -> str:
        """Where the content first departs from the schema of its type; empty where it does not, or there is none."""
        schema = self._schema_of(event_type)
        try:
            if schema is None or schema.is_valid(content):
                return ""
            error = next(schema.iter_errors(content))
        except ValueError:
            return "it has a text that no JSON text is, or a number beyond all bounds"
        place = "/".join(str(step) for step in ("", *error.instance_path))
        return f"at {place or '/'}: {error.message}"[:LONGEST_REASON]

    def _schema_of(self, event_type: str) -> Validator | None:
        wanted, rest = event_type, event_type
        while wanted not in self.by_type and rest:
            rest = rest.rpartition(".")[0]
            wanted = f"{rest}.*" if rest else "*"
        return self.by_type.get(wanted)


def _compiled(reference: str, *, home: Path, files: Files, at: str) -> Validator:
    # The library costs memory and time that a receiver without schemas need not spend.
    from jsonschema_rs import RegexOptions, ValidationError, validator_for

    kind, _, name = reference.partition(":")
    if kind != "file" or not name:
        raise ConfigError(f"{at}={reference}: a schema is named by its file, `file:schemas/push.json`; nothing is fetched from elsewhere")
    path = home / name
    try:
        # Without a `$schema` it is read as draft 2020-12.
        return validator_for(orjson.loads(files.read(path).content), pattern_options=RegexOptions(), offline=True, mask="the value")
    except OSError as error:
        raise ConfigError(f"{at}: {path} cannot be read ({error.strerror}), so its events could not be checked") from error
    except ValidationError as error:
        raise ConfigError(f"{at}: {path} is no JSON Schema that can be used: {error.message}; its events could not be checked") from error
    except ValueError as error:
        raise ConfigError(f"{at}: {path} is no JSON ({error}), so its events could not be checked") from error
