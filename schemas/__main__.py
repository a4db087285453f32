"""Owns printing the JSON Schema of an event: `python -m schemas > schemas/stream_event.v1.json`."""

from __future__ import annotations

import json
import sys

from schemas.event import VERSION, StreamEvent


def json_schema() -> str:
    """The published contract of one version; bytes are base64 in JSON."""
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": f"stream_event.v{VERSION}.json"}
    return json.dumps({**schema, **StreamEvent.model_json_schema()}, indent=2) + "\n"


if __name__ == "__main__":
    sys.stdout.write(json_schema())
