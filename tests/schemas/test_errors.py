from __future__ import annotations

import re

from schemas import errors


def all_errors(root: type[errors.HooklakeError]) -> list[type[errors.HooklakeError]]:
    return [error for child in root.__subclasses__() for error in (child, *all_errors(child))]


def ours() -> list[type[errors.HooklakeError]]:
    return [error for error in all_errors(errors.HooklakeError) if error.__module__ == errors.__name__]


def test_the_docstring_draws_the_whole_tree() -> None:
    drawn = re.findall(r"[├└]── (\w+)", errors.__doc__ or "")

    assert sorted(drawn) == sorted(error.__name__ for error in ours())


def test_the_tree_is_drawn_as_it_is() -> None:
    parents: dict[int, type[errors.HooklakeError]] = {}
    for line in (errors.__doc__ or "").splitlines():
        if drawn := re.match(r"([ │]*)[├└]── (\w+)", line):
            depth, error = len(drawn[1]), getattr(errors, drawn[2])
            parents[depth] = error
            assert error.__base__ is parents.get(depth - 4, errors.HooklakeError), line


def test_every_error_has_a_code_for_machines() -> None:
    assert all(re.fullmatch(r"[a-z_]+", error.code) for error in ours())
