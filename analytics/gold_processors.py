"""Owns `processors_hourly`: from new outcomes and new decisions about dead letters to sums by hour. DataFrame to DataFrame, no I/O."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from analytics.gold_hourly import Hourly
from analytics.gold_news import News
from analytics.gold_tables import PROCESSORS_HOURLY
from analytics.gold_traffic import ended_ms, is_recent, minted_ms
from analytics.sketches import sketch_of

STEPS = {"acked": "ack", "retried": "retry", "dead": "dead_letter", "parked": "park"}
STATES = ("requeued", "discarded")
PROCESSORS = Hourly(
    PROCESSORS_HOURLY, names=("group_name", "processor"), sums=("attempts", *STEPS, *STATES), latencies=("run", "latency")
)  # fmt: skip


def news_of_processors(news: News) -> list[DataFrame]:
    """Sums of what is new; several rows may have the same keys."""
    outcomes, letters = news.rows("outcomes"), news.rows("dead_letters")
    found = [settled(outcomes)] if outcomes is not None else []
    return [*found, decided(letters)] if letters is not None else found


def settled(outcomes: DataFrame) -> DataFrame:
    """From rows of `outcomes`."""
    latency_ms = F.when((F.col("step") == "ack") & is_recent("event_id"), F.greatest(ended_ms() - minted_ms("event_id"), F.lit(0)))
    return PROCESSORS.parts(
        outcomes.where("kind = 'outcome'"),
        hour_of=F.col("started_at"),
        attempts=F.count("*"),
        **{name: F.count_if(F.col("step") == step) for name, step in STEPS.items()},
        run_sketch=sketch_of(F.col("duration_ms")),
        latency_sketch=sketch_of(latency_ms),
    )


def decided(letters: DataFrame) -> DataFrame:
    """From rows of `dead_letters` that are decisions; they name the group, and not the processor."""
    states = letters.where("record = 'state'").withColumn("processor", F.lit(None).cast("string"))
    return PROCESSORS.parts(states, hour_of=F.col("recorded_at"), **{name: F.count_if(F.col("state") == name) for name in STATES})
