from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from typing import Any

import pytest

from analytics.report_data import MOST_SOURCES, OTHERS, Findings, by_source, times_between, unit_of
from analytics.report_page import bytes_text, page_of

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
HOSTILE = "<script>alert(1)</script>\"'&"


def some_findings(name: str = "github", **changes: Any) -> Findings:
    at = NOON.replace(tzinfo=None)  # As Spark hands it out.
    traffic = {
        "at": at,
        "tenant_id": name,
        "source": name,
        "events": 1200,
        "bytes": 5_000_000,
        "duplicates": 3,
        "refusals": 2,
        "conflicts": 0,
    }
    seen = {"first_seen": at, "last_seen": at, "first_event": name, "is_new": True}
    found: dict[str, Any] = {
        "traffic": [traffic, {**traffic, "at": at + timedelta(hours=2), "events": 600}],
        "types": [{"tenant_id": name, "source": name, "event_type": name, "events": 1800, "bytes": 7}],
        "archive_latency": [{"at": at, "p50": 900.0, "p95": 2100.0, "p99": 3000.0}],
        "processing_latency": [],
        "failures": [{"at": at, "retried": 4, "dead": 1}],
        "processors": [{"group_name": name, "processor": "", "attempts": 5, "acked": 1, "retried": 3, "dead": 1, "p95": None}],
        "drift": [{"event_type": name, "path": name, "type": name, "events": 5, **seen}],
        **changes,
    }
    return Findings(NOON, NOON + timedelta(hours=4), **found)


class Tags(HTMLParser):
    """Every tag with its attributes, and whether each is closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.opened: list[tuple[str, dict[str, str | None]]] = []
        self.depth: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.opened.append((tag, dict(attrs)))
        if tag != "meta":
            self.depth.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.opened.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.depth.pop() == tag


def test_the_page_shows_everything_that_was_found() -> None:
    page = page_of(some_findings(), made_at=NOON)

    assert all(said in page for said in ("1,800", "10.0 MB", "Events received", "From the receiver to the table", "dead letters", ">new<"))
    assert "2026-01-31 12:00 to 2026-01-31 16:00 UTC" in page


def test_the_page_asks_nobody_for_anything_and_is_well_formed() -> None:
    tags = Tags(page_of(some_findings(), made_at=NOON))

    assert tags.depth == []
    assert not {tag for tag, _ in tags.opened} & {"script", "link", "img", "iframe", "object"}
    assert not [
        name for _, attributes in tags.opened for name in attributes if name in ("src", "href", "xlink:href") or name.startswith("on")
    ]
    assert ("meta", {"http-equiv": "Content-Security-Policy", "content": "default-src 'none'; style-src 'unsafe-inline'"}) in tags.opened
    assert all(attributes.get("aria-label") for tag, attributes in tags.opened if tag == "svg")


def test_what_senders_wrote_is_text_and_nothing_else() -> None:
    page = page_of(some_findings(HOSTILE), made_at=NOON)

    assert "<script" not in page
    assert [name for name in re.findall(r"aria-label=\"([^\"]*)\"", page) if "&lt;script&gt;" in name]
    assert Tags(page).depth == []


def test_a_time_in_which_nothing_happened_is_a_page_that_says_so() -> None:
    nothing: Any = {name: [] for name in ("traffic", "types", "archive_latency", "failures", "processors", "drift")}

    page = page_of(some_findings(**nothing), made_at=NOON)

    assert all(said in page for said in ("No events were received", "Nothing was measured", "Nothing failed", "No payload changed"))


def test_the_largest_sources_have_a_layer_each_and_the_others_one_together() -> None:
    rows = [{"at": NOON, "tenant_id": "t", "source": str(number), "events": number} for number in range(10)]

    layers = by_source(rows, times=[NOON, NOON + timedelta(hours=1)])

    assert list(layers) == [*(f"t / {number}" for number in range(9, 9 - MOST_SOURCES, -1)), OTHERS]
    assert (layers["t / 9"], layers[OTHERS]) == ([9.0, 0.0], [6.0, 0.0])


@pytest.mark.parametrize(("days", "unit", "times"), [(1, "hour", 24), (14, "hour", 336), (15, "day", 15)])
def test_a_long_time_is_shown_by_day(days: int, unit: str, times: int) -> None:
    begin = NOON.replace(hour=0)

    assert (unit_of(begin, begin + timedelta(days=days)), len(times_between(begin, begin + timedelta(days=days)))) == (unit, times)


@pytest.mark.parametrize(("size", "text"), [(0, "0 B"), (1500, "1.5 kB"), (2_000_000, "2.0 MB"), (3 * 10**9, "3.0 GB")])
def test_sizes_are_written_for_people(size: int, text: str) -> None:
    assert bytes_text(size) == text
