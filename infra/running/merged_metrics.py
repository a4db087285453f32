"""Owns making one metrics page of several: what the children of a process count, on their parent's ops port."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.error import URLError
from urllib.request import urlopen

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

TIMEOUT_S = 2.0


class _Families(Collector):
    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> list[Metric]:
        return self._families


def merged(pages: Mapping[str, str], *, shared_gauges: bool = True) -> bytes:
    """One page of the pages of children, by the child's name; pure.

    What is counted gets the label `child`: a child that starts again begins at 0, which only shows while its series is its own.
    Where children share their gauges, which tell of their whole group, the greatest is taken; else each is its child's, too.
    """
    families: dict[str, Metric] = {}
    for child, page in pages.items():
        for family in text_string_to_metric_families(page):
            into = families.setdefault(family.name, Metric(family.name, family.documentation, family.type))
            if family.type == "gauge" and shared_gauges:
                _add_greatest(into, family)
            else:
                into.samples += [sample._replace(labels={**sample.labels, "child": child}) for sample in family.samples]
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Families(list(families.values())))
    return generate_latest(registry)


def _add_greatest(into: Metric, family: Metric) -> None:
    known = {tuple(sorted(sample.labels.items())): sample for sample in into.samples}
    for sample in family.samples:
        at = tuple(sorted(sample.labels.items()))
        if at not in known or sample.value > known[at].value:
            known[at] = sample
    into.samples = list(known.values())


def page_of(port: int) -> str:
    """The metrics page of a process on this machine; empty when it does not answer, as while it starts."""
    try:
        with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=TIMEOUT_S) as answer:
            return str(answer.read().decode())
    except (URLError, OSError):
        return ""
