"""Owns the windows of sources: how long each remembers its delivery ids, where that is not as long as the log does."""

from __future__ import annotations

from infra.settings import Settings
from infra.streams.seen import SeenWindow
from infra.streams.stream import Windows
from ingest.scheme import Scheme
from ingest.settings import TenantSettings
from ingest.sources import scheme_of
from schemas.errors import ConfigError


def windows_of(settings: Settings) -> Windows:
    """By tenant and source; raises ConfigError for one that is longer than the log's, or shorter than its signatures count.

    For so long the log remembers how far past incarnations were archived, and the archive compares rows after a restart: a
    longer one would believe in entries that nobody can vouch for.
    """
    log = settings.log.window
    longest = SeenWindow.parse(log)
    found: dict[tuple[str, str], SeenWindow] = {}
    for tenant, described in settings.named_sections("tenants", TenantSettings).items():
        for name, source in described.sources.items():
            at = f"tenants.{tenant}.sources.{name}"
            window = SeenWindow.of_source(source.window or log, log=log)
            if window.window_ms > longest.window_ms:
                raise ConfigError(
                    f"{at}.window={source.window} is longer than log.window={log}, which is the longest that the log remembers anything: "
                    "raise that one, and give shorter ones to the other sources"
                )
            said = f"{at}.window={source.window}" if source.window else f"log.window={log}"
            _refuse_replays(scheme_of(source, name=name, at=at), window=window, said=said, at=at)
            if window != longest:
                found[tenant, name] = window
    return found


def _refuse_replays(scheme: Scheme, *, window: SeenWindow, said: str, at: str) -> None:
    """A signed time that is ahead of ours by the tolerance counts until it is behind by as much: twice that long."""
    is_replay_guard = scheme.timestamp is not None and scheme.delivery_id and scheme.algorithm != "none"
    if is_replay_guard and window.window_ms < 2 * scheme.tolerance_s * 1000:
        raise ConfigError(
            f"{said} is shorter than twice {at}.tolerance_ms={scheme.tolerance_s * 1000}, as a signed time counts so long before and after "
            "ours: a request that was captured and is sent again would be a new event once its first delivery is forgotten; lengthen the "
            "window or shorten the tolerance"
        )
