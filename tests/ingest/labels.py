"""Owns the names that signatures are written under, and writing them under others: `sha256` in front of one, `v1` in a list of them. Pure.

Of a list every signature that its scheme looks at is written anew, so that none is left that is right.
"""

from __future__ import annotations

from collections.abc import Callable

from ingest.scheme import Scheme


def own_name(scheme: Scheme) -> str:
    """Empty where signatures have none."""
    return scheme.items.wanted if scheme.items else scheme.prefix[:-1]


def renamed(scheme: Scheme, text: str, *, name: str) -> str:
    """The same signatures under another name in the place of their own."""
    pair = scheme.items.pair if scheme.items else scheme.prefix[-1:] or "="
    return _each(scheme, text, change=lambda signature: f"{name}{pair}{signature}")


def unnamed(scheme: Scheme, text: str) -> str:
    return _each(scheme, text, change=lambda signature: signature)


def emptied(scheme: Scheme, text: str) -> str:
    """Nothing behind the right name."""
    label = f"{scheme.items.wanted}{scheme.items.pair}" if scheme.items else scheme.prefix
    return _each(scheme, text, change=lambda _: label)


def _each(scheme: Scheme, text: str, *, change: Callable[[str], str]) -> str:
    items = scheme.items
    if items is None:
        return change(text.removeprefix(scheme.prefix))
    label = f"{items.wanted}{items.pair}"
    found = text.split(items.separator)
    return items.separator.join([change(item.removeprefix(label)) if item.startswith(label) else item for item in found])
