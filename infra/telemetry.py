"""Owns what a process tells the outside: metrics, spans and log lines; none of it can fail the caller's work.

queue_messages_produced_total       counter    tenant, source       events appended to the log
queue_messages_spooled_total        counter    tenant, source       events kept in the spool, since the log did not take them
queue_spool_bytes                   gauge                           bytes in this receiver's spool
queue_spool_oldest_age_seconds      gauge                           how long the oldest event in this receiver's spool has waited
queue_spool_damages_total           counter    kind                 places of a spool without whole records: torn, damaged, unreadable
queue_messages_refused_total        counter    code                 requests not accepted, by the code of their error
queue_messages_flagged_total        counter    tenant, source, flag events stored with a remark of the receiver
queue_messages_quarantined_total    counter    tenant, source       refused requests kept aside
queue_messages_unkept_total         counter    tenant, source       refused requests dropped: above a rate or cap, or the log was away
queue_messages_consumed_total       counter    group                deliveries settled
queue_messages_failed_total         counter    group                attempts that failed
queue_consumer_lag                  gauge      group, stream        entries that the group has not settled
queue_processing_duration_seconds   histogram  group                how long an attempt or a batch took
loop_failures_total                 counter    loop                 rounds of a long-lived loop that failed
"""

from __future__ import annotations

import bisect
import itertools
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.resources import Resource
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily

from infra.log_lines import give_back_library_logs, open_log, take_over_library_logs
from infra.settings import TelemetrySettings
from infra.tracing import Span, Tracing, open_tracing

METRICS_CONTENT_TYPE = CONTENT_TYPE_LATEST
DURATION_BOUNDS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class Telemetry:
    """One per process; several can live side by side, because nothing of it is global but the library logs."""

    def __init__(self, service: str, *, tracing: Tracing, log_level: str) -> None:
        self.service = service
        self._tracing = tracing
        self.records_spans = tracing.records
        self.go_on = tracing.go_on
        """From here on log lines of this task belong to that trace: a span that nobody records, for the price of a note."""
        self.leave_trace = tracing.leave
        self.new_traceparent = tracing.new_traceparent
        """That of a trace which nobody records, and to which no log line of this process belongs."""
        self._registry = CollectorRegistry()
        self._scraping = threading.Lock()
        self._meters = _meter_provider(service, registry=self._registry)
        meter = self._meters.get_meter("hooklake")
        self.produced = self._counter("queue_messages_produced", "Events appended to the log.")
        self.spooled = self._counter("queue_messages_spooled", "Events kept in the receiver's spool, since the log did not take them.")
        self.spool_bytes = meter.create_gauge("queue_spool_bytes", description="Bytes in the receiver's spool.")
        self.spool_age = meter.create_gauge(
            "queue_spool_oldest_age_seconds", description="How long the oldest event in the receiver's spool has waited."
        )
        self.spool_damages = self._counter(
            "queue_spool_damages", "Places of a spool without whole records: `torn` ends were cut, others put aside."
        )
        self.refused = self._counter("queue_messages_refused", "Requests not accepted, by the code of their error.")
        self.flagged = self._counter("queue_messages_flagged", "Events stored with a remark of the receiver.")
        self.quarantined = self._counter("queue_messages_quarantined", "Refused requests that were kept aside.")
        self.unkept = self._counter("queue_messages_unkept", "Refused requests that could not be kept aside.")
        self.consumed = self._counter("queue_messages_consumed", "Deliveries settled.")
        self.failed = self._counter("queue_messages_failed", "Attempts that failed.")
        self.lag = meter.create_gauge("queue_consumer_lag", description="Entries that a group has not settled.")
        self.duration = Durations(self._registry)
        self.loop_failures = self._counter("loop_failures", "Rounds of a long-lived loop that failed.")
        self.log = open_log(service, level=log_level, trace_ids=tracing.ids)
        self.tells_all = log_level == "debug"
        """Whether a line for every event is written: asked first where one costs more than the rest of the work."""
        self._library_lines = take_over_library_logs(self.log)

    @classmethod
    def start(cls, service: str, settings: TelemetrySettings, *, home: Path) -> Telemetry:
        """Opens no connection: an exporter that cannot be reached shows in the log, later."""
        return cls(service, tracing=open_tracing(service, traces=settings.traces, home=home), log_level=settings.log_level)

    def _counter(self, name: str, description: str) -> Counts:
        return Counts(name, description, registry=self._registry)

    def span(self, name: str, *, traceparent: str = "", links: Sequence[str] = (), **attributes: object) -> AbstractContextManager[Span]:
        """A span that continues `traceparent`, else the span that runs here, else begins a trace."""
        return self._tracing.span(name, traceparent=traceparent, links=links, attributes=attributes)

    def begin_group(self, group: str) -> None:
        """Counts nothing, so that a rate over the first failure has a value to begin from."""
        for counter in (self.consumed, self.failed):
            counter.add(0, {"group": group})

    def metrics_page(self) -> bytes:
        """All metrics in Prometheus' text format."""
        # The reader hands its data to whichever scrape comes first: two at once would halve each other.
        with self._scraping:
            return generate_latest(self._registry)

    def shutdown(self) -> None:
        """Writes out what is buffered, waiting a few seconds at most; a second call does nothing."""
        self._tracing.shutdown()
        give_back_library_logs(self._library_lines)


class Counts:
    """A counter, counted here: per event, where the SDK's way costs ten times as much."""

    def __init__(self, name: str, description: str, *, registry: CollectorRegistry) -> None:
        self._name = name
        self._description = description
        self._of: dict[tuple[tuple[str, str], ...], int] = {}
        self._lock = threading.Lock()
        registry.register(self)

    def add(self, amount: int, labels: Mapping[str, str]) -> None:
        """The same labels in the same order each time."""
        of = tuple(labels.items())
        with self._lock:
            self._of[of] = self._of.get(of, 0) + amount

    def collect(self) -> Iterator[CounterMetricFamily]:
        """What prometheus_client asks for at a scrape; nothing before the first count."""
        with self._lock:
            counted = [(dict(sorted(of)), count) for of, count in self._of.items()]
        if counted:
            family = CounterMetricFamily(self._name, self._description, labels=list(counted[0][0]))
            for labels, count in counted:
                family.add_metric(list(labels.values()), count)
            yield family


class Durations:
    """The histogram of durations, counted here: recorded per event, where the SDK's way costs 15 times as much."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._of_group: dict[str, tuple[list[int], list[float]]] = {}
        registry.register(self)

    def record(self, *seconds: float, group: str = "") -> None:
        counts, total = self._of_group.setdefault(group, ([0] * (len(DURATION_BOUNDS_S) + 1), [0.0]))
        for one in seconds:
            counts[bisect.bisect_left(DURATION_BOUNDS_S, one)] += 1
        total[0] += sum(seconds)

    def collect(self) -> Iterator[HistogramMetricFamily]:
        """What prometheus_client asks for at a scrape."""
        family = HistogramMetricFamily("queue_processing_duration_seconds", "How long an attempt or a batch took.", labels=["group"])
        for group, (counts, total) in list(self._of_group.items()):
            reached = list(itertools.accumulate(counts))
            bounds = [*map(str, map(float, DURATION_BOUNDS_S)), "+Inf"]
            family.add_metric([group], list(zip(bounds, reached, strict=True)), total[0])
        yield family


def _meter_provider(service: str, *, registry: CollectorRegistry) -> MeterProvider:
    reader = PrometheusMetricReader(disable_target_info=True, scope_info_enabled=False, registry=registry)
    return MeterProvider([reader], resource=Resource({"service.name": service}), shutdown_on_exit=False)


__all__ = ["METRICS_CONTENT_TYPE", "Span", "Telemetry"]
