"""Owns the windows of sources: how long each remembers its delivery ids, where that is not as long as the log does."""

from __future__ import annotations

from infra.settings import Settings
from infra.streams.seen import SeenWindow
from infra.streams.stream import Windows
from ingest.settings import TenantSettings
from schemas.errors import ConfigError


def windows_of(settings: Settings) -> Windows:
    """By tenant and source; raises ConfigError for one that is longer than the log's.

    For so long the log remembers how far past incarnations were archived, and the archive compares rows after a restart: a
    longer one would believe in entries that nobody can vouch for.
    """
    longest = SeenWindow.parse(settings.log.window)
    found: dict[tuple[str, str], SeenWindow] = {}
    for tenant, described in settings.named_sections("tenants", TenantSettings).items():
        for name, source in described.sources.items():
            if source.window is None:
                continue
            window = SeenWindow.of_source(source.window, log=settings.log.window)
            if window.window_ms > longest.window_ms:
                raise ConfigError(
                    f"tenants.{tenant}.sources.{name}.window={source.window} is longer than log.window={settings.log.window}, which is the "
                    "longest that the log remembers anything: raise that one, and give shorter ones to the other sources"
                )
            if window != longest:
                found[tenant, name] = window
    return found
