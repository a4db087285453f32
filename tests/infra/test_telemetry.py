from __future__ import annotations

import contextvars
import json
import re
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from infra.settings import TelemetrySettings
from infra.telemetry import Telemetry

FIRST = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def telemetry(home: Path) -> Iterator[Telemetry]:
    started = Telemetry.start("ingest", TelemetrySettings(), home=home)
    yield started
    started.shutdown()


def spans_of(home: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (home / "traces.jsonl").read_text().splitlines()]


def test_metrics_have_exactly_the_promised_names(telemetry: Telemetry) -> None:
    telemetry.produced.add(2, {"tenant": "demo", "source": "github"})
    telemetry.consumed.add(1, {"group": "example"})
    telemetry.failed.add(1, {"group": "example"})
    telemetry.lag.set(7, {"group": "example", "stream": "default"})
    telemetry.duration.record(0.02, group="example")

    lines = telemetry.metrics_page().decode().splitlines()

    assert 'queue_messages_produced_total{source="github",tenant="demo"} 2.0' in lines
    assert 'queue_messages_consumed_total{group="example"} 1.0' in lines
    assert 'queue_messages_failed_total{group="example"} 1.0' in lines
    assert 'queue_consumer_lag{group="example",stream="default"} 7.0' in lines
    assert 'queue_processing_duration_seconds_bucket{group="example",le="0.025"} 1.0' in lines
    assert 'queue_processing_duration_seconds_count{group="example"} 1.0' in lines
    assert 'queue_processing_duration_seconds_sum{group="example"} 0.02' in lines


def test_two_telemetries_in_one_process_do_not_share_numbers(telemetry: Telemetry, home: Path) -> None:
    other = Telemetry.start("worker", TelemetrySettings(), home=home)
    telemetry.produced.add(1, {"tenant": "demo", "source": "github"})

    assert b"queue_messages_produced_total{" not in other.metrics_page()
    other.shutdown()


def test_scrapes_at_the_same_time_are_all_complete(telemetry: Telemetry) -> None:
    telemetry.produced.add(1, {"tenant": "demo", "source": "github"})
    pages: list[bytes] = []

    threads = [threading.Thread(target=lambda: pages.extend(telemetry.metrics_page() for _ in range(50))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert {page.count(b"queue_messages_produced_total{") for page in pages} == {1}


@pytest.mark.parametrize("traces", ["off", "file:traces.jsonl"])
def test_a_span_continues_the_trace_it_is_given(home: Path, traces: str) -> None:
    telemetry = Telemetry.start("ingest", TelemetrySettings(traces=traces), home=home)

    with telemetry.span("receive", traceparent=FIRST) as span:
        assert re.fullmatch(r"00-0af7651916cd43dd8448eb211c80319c-[0-9a-f]{16}-01", span.traceparent)
        assert span.traceparent != FIRST
    telemetry.shutdown()


@pytest.mark.parametrize(("traces", "is_another"), [("off", False), ("file:traces.jsonl", True)])
def test_a_span_inside_another_is_its_child_where_somebody_records_them(home: Path, traces: str, is_another: bool) -> None:
    telemetry = Telemetry.start("ingest", TelemetrySettings(traces=traces), home=home)

    with telemetry.span("receive") as outer, telemetry.span("append") as inner:
        assert inner.trace_id == outer.trace_id
        assert (inner.traceparent != outer.traceparent) is is_another
    with telemetry.span("receive") as next_one:
        assert next_one.trace_id != outer.trace_id
    telemetry.shutdown()


@pytest.mark.parametrize("header", ["", "garbage", FIRST.upper(), f"ff{FIRST[2:]}", f"00-{'0' * 32}-b7ad6b7169203331-01", FIRST + "\n"])
def test_a_header_that_is_no_traceparent_begins_a_new_trace(telemetry: Telemetry, header: str) -> None:
    with telemetry.span("receive", traceparent=header) as span:
        assert re.fullmatch(r"00-[0-9a-f]{32}-[0-9a-f]{16}-00", span.traceparent)
        assert span.trace_id != FIRST[3:35]


def test_spans_are_written_one_per_line_with_parents_links_and_errors(home: Path) -> None:
    telemetry = Telemetry.start("worker", TelemetrySettings(traces="file:traces.jsonl"), home=home)

    with pytest.raises(ValueError, match="boom"), telemetry.span("attempt", traceparent=FIRST, links=[FIRST, "garbage"], attempt=2):
        raise ValueError("boom")
    telemetry.shutdown()

    (span,) = spans_of(home)
    assert span["trace_id"] == FIRST[3:35]
    assert span["parent_id"] == FIRST[36:52]
    assert span["name"] == "attempt"
    assert span["service"] == "worker"
    assert span["status"] == "ERROR"
    assert span["attributes"] == {"attempt": 2}
    assert span["links"] == [FIRST[3:52]]


def test_a_sender_cannot_switch_our_recording_off(home: Path) -> None:
    telemetry = Telemetry.start("ingest", TelemetrySettings(traces="file:traces.jsonl"), home=home)

    with telemetry.span("receive", traceparent=FIRST[:-2] + "00"):
        pass
    telemetry.shutdown()

    assert [span["name"] for span in spans_of(home)] == ["receive"]


def test_spans_reach_an_otlp_collector(home: Path) -> None:
    received: list[tuple[str, ExportTraceServiceRequest]] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            received.append((self.path, ExportTraceServiceRequest.FromString(body)))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            return

    with HTTPServer(("127.0.0.1", 0), Collector) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        telemetry = Telemetry.start("ingest", TelemetrySettings(traces=f"http://127.0.0.1:{server.server_port}"), home=home)
        with telemetry.span("receive", traceparent=FIRST):
            pass
        telemetry.shutdown()
        server.shutdown()
        thread.join()

    path, request = received[0]
    assert path == "/v1/traces"
    assert request.resource_spans[0].scope_spans[0].spans[0].trace_id.hex() == FIRST[3:35]


@pytest.mark.parametrize("traces", ["file:missing/folder/traces.jsonl", "file:.", "http://127.0.0.1:1"])
def test_an_exporter_that_fails_never_fails_the_work(home: Path, traces: str) -> None:
    telemetry = Telemetry.start("ingest", TelemetrySettings(traces=traces), home=home)
    began = time.monotonic()

    for _ in range(100):
        with telemetry.span("receive") as span:
            assert span.trace_id
    assert time.monotonic() - began < 5

    telemetry.shutdown()
    telemetry.shutdown()
    assert time.monotonic() - began < 30


def test_a_file_that_cannot_be_written_is_said_once(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    telemetry = Telemetry.start("ingest", TelemetrySettings(traces="file:missing/traces.jsonl"), home=home)
    for _ in range(2000):
        with telemetry.span("receive"):
            pass
    telemetry.shutdown()

    (line,) = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert line["level"] == "warning"
    assert line["text"] == f"telemetry.traces: {home}/missing/traces.jsonl cannot be written (No such file or directory); spans are lost"


def test_counts_of_a_group_are_there_before_the_first(telemetry: Telemetry) -> None:
    telemetry.begin_group("example")

    lines = telemetry.metrics_page().decode().splitlines()
    assert 'queue_messages_consumed_total{group="example"} 0.0' in lines
    assert 'queue_messages_failed_total{group="example"} 0.0' in lines


def test_a_log_line_carries_service_level_time_and_trace(telemetry: Telemetry, capsys: pytest.CaptureFixture[str]) -> None:
    with telemetry.span("receive") as span:
        telemetry.log.info("event accepted", event_id="e1")

    line = json.loads(capsys.readouterr().err)
    assert line["event"] == "event accepted"
    assert line["event_id"] == "e1"
    assert line["service"] == "ingest"
    assert line["level"] == "info"
    assert line["trace_id"] == span.trace_id
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00", line["timestamp"])


def test_a_trace_that_goes_on_has_one_span_in_every_copy_of_its_context(telemetry: Telemetry, capsys: pytest.CaptureFixture[str]) -> None:
    telemetry.go_on(FIRST)

    contextvars.copy_context().run(telemetry.log.info, "inside")
    telemetry.log.info("outside")

    inside, outside = (json.loads(line) for line in capsys.readouterr().err.splitlines())
    assert inside["trace_id"] == outside["trace_id"] == FIRST.split("-")[1]
    assert inside["span_id"] == outside["span_id"]


def test_what_begins_after_a_trace_was_left_does_not_belong_to_it(telemetry: Telemetry) -> None:
    telemetry.go_on(FIRST)

    telemetry.leave_trace()

    with telemetry.span("process") as span:
        assert span.trace_id != FIRST.split("-")[1]


def test_counts_of_several_threads_add_up(telemetry: Telemetry) -> None:
    def count() -> None:
        for _ in range(2000):
            telemetry.refused.add(1, {"code": "bad_signature"})

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert 'queue_messages_refused_total{code="bad_signature"} 8000.0' in telemetry.metrics_page().decode().splitlines()
