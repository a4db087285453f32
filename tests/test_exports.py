"""What a package says it exports is what a user can see."""

from __future__ import annotations

import importlib
from types import ModuleType

import pytest


@pytest.mark.parametrize("name", ["schemas", "processors"])
def test_all_is_what_is_visible(name: str) -> None:
    package = importlib.import_module(name)
    visible = {key for key, value in vars(package).items() if not key.startswith("_") and not isinstance(value, ModuleType)}

    assert set(package.__all__) == visible - {"annotations"}
    assert package.__all__ == sorted(package.__all__)


def test_a_processor_author_needs_one_import() -> None:
    from processors import Delivery, Reject, Retry, StreamEvent, processor

    assert all((Delivery, Reject, Retry, StreamEvent, processor))
