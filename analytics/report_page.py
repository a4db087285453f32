"""Owns the page of a report: one HTML file that asks nobody for anything, readable in light and dark, with a table beside every plot.

Names of types, sources and members are written by strangers: everything that is not ours goes through `escape`. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from html import escape

from analytics.plots import Plot, Series, bars, lines
from analytics.report_data import Findings, Rows, by_source, column, moment

STYLE = """
:root { color-scheme: light dark; --ground: #fff; --text: #1b1f24; --faint: #59636e; --line: #d9dee3; --card: #f6f8fa;
  --series-1: #0b69c7; --series-2: #b35900; --series-3: #1a7f37; --series-4: #8250df; --series-5: #c1121f; --series-6: #0f7b83;
  --series-7: #6e7781; }
@media (prefers-color-scheme: dark) { :root { --ground: #0d1117; --text: #e6edf3; --faint: #9aa4af; --line: #30363d; --card: #161b22;
  --series-1: #58a6ff; --series-2: #f0883e; --series-3: #56d364; --series-4: #bc8cff; --series-5: #ff7b72; --series-6: #39c5cf;
  --series-7: #8b949e; } }
body { margin: 0 auto; max-width: 60rem; padding: 1.5rem; background: var(--ground); color: var(--text);
  font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.6rem; margin: 0; } h2 { font-size: 1.2rem; margin: 2.2rem 0 .6rem; }
p { margin: .3rem 0; } .faint, .axis { color: var(--faint); fill: var(--faint); }
dl { display: grid; grid-template-columns: repeat(auto-fit, minmax(8.5rem, 1fr)); gap: .8rem; margin: 1.2rem 0; }
dl div { background: var(--card); border: 1px solid var(--line); border-radius: .5rem; padding: .6rem .8rem; }
dt { color: var(--faint); font-size: .85rem; } dd { margin: 0; font-size: 1.35rem; font-variant-numeric: tabular-nums; }
figure { margin: 0 0 .4rem; } svg { width: 100%; height: auto; display: block; } svg text { font: 12px system-ui, sans-serif; }
figcaption { display: flex; flex-wrap: wrap; gap: .2rem 1.1rem; font-size: .85rem; color: var(--faint); overflow-wrap: anywhere; }
.key { display: inline-block; width: .75rem; height: .75rem; border-radius: .15rem; margin-right: .35rem; }
.grid { stroke: var(--line); stroke-width: 1; } polyline { fill: none; stroke-width: 2; stroke-linejoin: round; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; width: 100%; font-size: .9rem; }
th, td { text-align: left; padding: .25rem .6rem; border-bottom: 1px solid var(--line); vertical-align: top; }
td { overflow-wrap: break-word; max-width: 24rem; }
th { color: var(--faint); font-weight: 600; } .number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
summary { cursor: pointer; color: var(--faint); font-size: .9rem; } code { font-size: .9em; }
"""
COLOURS = "".join(
    f".s{number} {{ fill: var(--series-{number}); }} .l{number} {{ stroke: var(--series-{number}); }} "
    f".k{number} {{ background: var(--series-{number}); }}\n"
    for number in range(1, 8)
)


def page_of(found: Findings, *, made_at: datetime) -> str:
    """The whole file."""
    period = f"{found.since:%Y-%m-%d %H:%M} to {found.until:%Y-%m-%d %H:%M} UTC"
    sections = (totals(found), traffic(found), latency(found), failures(found), drift(found))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        # Nothing is fetched, whatever a name of a stranger's says.
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
        f"<title>hooklake: {period}</title>\n<style>{STYLE}{COLOURS}</style>\n</head>\n<body>\n<main>\n"
        f'<h1>What came, and what became of it</h1>\n<p class="faint">{period}. Made {made_at:%Y-%m-%d %H:%M} UTC from the gold tables, '
        f"which are up to a few minutes behind.</p>\n{''.join(sections)}</main>\n</body>\n</html>\n"
    )


def totals(found: Findings) -> str:
    def of(rows: Rows, name: str) -> int:
        return sum(int(row[name] or 0) for row in rows)

    figures = {
        "events": f"{of(found.traffic, 'events'):,}",
        "bodies": bytes_text(of(found.traffic, "bytes")),
        "duplicates": f"{of(found.traffic, 'duplicates'):,}",
        "refused requests": f"{of(found.traffic, 'refusals'):,}",
        "retries": f"{of(found.failures, 'retried'):,}",
        "dead letters": f"{of(found.failures, 'dead'):,}",
    }
    return "<dl>" + "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in figures.items()) + "</dl>\n"


def traffic(found: Findings) -> str:
    layers = by_source(found.traffic, times=found.times)
    plot = Plot("Events received", found.times, [Series(name, values) for name, values in layers.items()])
    types = ((row["tenant_id"], row["source"], row["event_type"], row["events"], bytes_text(row["bytes"])) for row in found.types)
    return section(
        "Traffic",
        bars(plot) + plot_table(plot) if layers else nothing("No events were received."),
        table(("tenant", "source", "type", "events", "bodies"), types, caption="Events by type"),
    )


def latency(found: Findings) -> str:
    parts = [
        _latency("From the receiver to the table", found.archive_latency, found=found),
        _latency("From the receiver to a group's ack", found.processing_latency, found=found),
    ]
    return section("Latency", *parts)


def _latency(title: str, rows: Rows, *, found: Findings) -> str:
    if not rows:
        return f"<h3>{title}</h3>" + nothing("Nothing was measured.")
    series = [
        Series(
            f"{percent} % stay below",
            [None if value is None else value / 1000 for value in column(rows, f"p{percent}", times=found.times, missing=None)],
        )
        for percent in (50, 95, 99)
    ]
    plot = Plot(title, found.times, series, unit="s")
    return f"<h3>{title}</h3>" + lines(plot) + plot_table(plot)


def failures(found: Findings) -> str:
    refused: dict[datetime, float] = {}
    for row in found.traffic:
        refused[moment(row["at"])] = refused.get(moment(row["at"]), 0) + row["refusals"]
    names = {"retried": "to be tried again", "dead": "dead letters"}
    series = [Series(text, column(found.failures, name, times=found.times, missing=0)) for name, text in names.items()]
    series.append(Series("refused requests", [refused.get(at, 0.0) for at in found.times]))
    plot = Plot("Attempts that failed, and requests that were refused", found.times, series)
    shown = bars(plot) + plot_table(plot) if any(any(one.values) for one in series) else nothing("Nothing failed, and nothing was refused.")
    rows = (
        (row["group_name"], row["processor"] or "(none)", row["attempts"], row["acked"], row["retried"], row["dead"], ms_text(row["p95"]))
        for row in found.processors
    )
    headings = ("group", "processor", "attempts", "acked", "retried", "dead", "run, 95 % below")
    return section("Failures", shown, table(headings, rows, caption="Processors"))


def drift(found: Findings) -> str:
    rows = (
        (
            "new" if row["is_new"] else "gone",
            row["event_type"],
            row["path"],
            row["type"],
            row["events"],
            f"{moment(row['first_seen']):%Y-%m-%d %H:%M}",
            f"{moment(row['last_seen']):%Y-%m-%d %H:%M}",
            row["first_event"],
        )
        for row in found.drift
    )
    headings = ("what", "type of event", "member", "is", "events", "first seen", "last seen", "first event")
    about = '<p class="faint">Members of payloads that came up in this time, and those that were last seen within 30 days before it.</p>'
    shown = table(headings, rows, caption="Members of payloads") if found.drift else nothing("No payload changed its shape.")
    return section("Drift", about, shown)


def section(heading: str, *parts: str) -> str:
    return f"<section>\n<h2>{escape(heading)}</h2>\n{''.join(parts)}</section>\n"


def nothing(said: str) -> str:
    return f'<p class="faint">{escape(said)}</p>\n'


def plot_table(plot: Plot) -> str:
    """The numbers of a plot, for whoever wants to read them; rows in which nothing happened are left out."""
    rows = (
        (f"{at:%Y-%m-%d %H:%M}", *(one.values[place] for one in plot.series))
        for place, at in enumerate(plot.times)
        if any(one.values[place] for one in plot.series)
    )
    inner = table(("UTC", *(one.name for one in plot.series)), rows, caption=plot.title)
    return f"<details><summary>The numbers</summary>{inner}</details>\n"


def table(headings: Sequence[str], rows: Iterable[Sequence[object]], *, caption: str) -> str:
    shown = list(rows)
    if not shown:
        return ""
    sides = [' class="number"' if any(is_number(row[place]) for row in shown) else "" for place in range(len(headings))]
    head = "".join(f'<th scope="col"{side}>{escape(heading)}</th>' for heading, side in zip(headings, sides, strict=True))
    body = "".join("<tr>" + "".join(map(cell, row)) + "</tr>\n" for row in shown)
    head = f"<thead><tr>{head}</tr></thead>"
    return f'<div class="scroll"><table><caption class="faint">{escape(caption)}</caption>{head}<tbody>\n{body}</tbody></table></div>\n'


def is_number(value: object) -> bool:
    return isinstance(value, int | float)


def cell(value: object) -> str:
    if isinstance(value, int | float):
        return f'<td class="number">{value:,.4g}</td>' if isinstance(value, float) else f'<td class="number">{value:,}</td>'
    return f"<td>{escape(str(value)) if value is not None else '–'}</td>"


def bytes_text(size: int) -> str:
    for factor, unit in ((10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if size >= factor:
            return f"{size / factor:,.1f} {unit}"
    return f"{size} B"


def ms_text(value: float | None) -> str:
    return "–" if value is None else f"{value:,.1f} ms"
