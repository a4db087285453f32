"""Owns `Headers`: the headers of one request, counted, and read so that a repeated one cannot mean two things."""

from __future__ import annotations

from collections.abc import Iterable

from schemas.errors import HeadersTooLarge, MalformedRequest


class Headers:
    """Lower-case name to value. Bytes above ASCII survive as latin-1, so reading never fails."""

    __slots__ = ("repeated", "values")

    def __init__(self, raw: Iterable[tuple[bytes, bytes]]) -> None:
        self.values: dict[str, str] = {}
        self.repeated: set[str] = set()
        for name_bytes, value in raw:
            name = name_bytes.decode("latin-1")
            if name in self.values:
                self.repeated.add(name)
            else:
                self.values[name] = value.decode("latin-1")

    def one(self, name: str) -> str:
        """The value, or "" when there is none; raises MalformedRequest when there are several: which one counts?"""
        if name in self.repeated:
            raise MalformedRequest(f"the header {name} occurs more than once; send it once")
        return self.values.get(name, "")


def refuse_large_head(raw: list[tuple[bytes, bytes]], *, max_headers: int, max_bytes: int) -> None:
    """Raises HeadersTooLarge before anything else is done with the headers."""
    if len(raw) > max_headers:
        raise HeadersTooLarge(f"the request has {len(raw)} headers, and this receiver reads {max_headers}")
    if sum([len(name) + len(value) for name, value in raw]) > max_bytes:
        raise HeadersTooLarge(f"the request's headers are longer than {max_bytes} bytes")
