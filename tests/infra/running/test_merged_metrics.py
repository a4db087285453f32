from __future__ import annotations

from infra.running.merged_metrics import merged

ONE = """\
# HELP queue_messages_consumed_total Deliveries settled.
# TYPE queue_messages_consumed_total counter
queue_messages_consumed_total{group="g"} 5.0
# HELP queue_consumer_lag Entries that a group has not settled.
# TYPE queue_consumer_lag gauge
queue_consumer_lag{group="g",stream="0:events:default"} 7.0
"""


def test_what_is_counted_gets_the_child_s_name() -> None:
    page = merged({"a": ONE, "b": ONE.replace("5.0", "6.0"), "starting": ""}).decode()

    assert 'queue_messages_consumed_total{child="a",group="g"} 5.0' in page
    assert 'queue_messages_consumed_total{child="b",group="g"} 6.0' in page
    assert page.count("# TYPE queue_messages_consumed_total counter") == 1


def test_of_a_gauge_that_all_children_know_the_greatest_is_taken() -> None:
    page = merged({"a": ONE, "b": ONE.replace("7.0", "9.0"), "c": ONE}).decode()

    assert [line for line in page.splitlines() if line.startswith("queue_consumer_lag")] == [
        'queue_consumer_lag{group="g",stream="0:events:default"} 9.0'
    ]


def test_a_gauge_that_is_each_child_s_own_gets_its_name() -> None:
    page = merged({"a": ONE, "b": ONE.replace("7.0", "9.0")}, shared_gauges=False).decode()

    assert [line.partition(",")[0] for line in page.splitlines() if line.startswith("queue_consumer_lag")] == [
        'queue_consumer_lag{child="a"',
        'queue_consumer_lag{child="b"',
    ]
