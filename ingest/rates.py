"""Owns how fast a tenant may send: what is above its rate goes to the stream `overflow`, what is above its hard rate is refused.

Only verified requests are charged, so that a stranger's forgeries cannot use up a tenant's rate; the hard rate is looked at before
a body is read, so that a refusal costs little. The buckets are this process's own: N receivers let N times as much pass.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ingest.settings import RateSettings
from schemas.errors import OverRate


class Bucket:
    """A token bucket: full at first, filled at a steady rate, one token for each request."""

    __slots__ = ("_burst", "_filled_at", "_per_second", "_tokens")

    def __init__(self, per_second: float, *, burst: int, now: float) -> None:
        self._per_second = per_second
        self._burst = burst
        self._tokens = float(burst)
        self._filled_at = now

    def has_token(self, now: float) -> bool:
        # The clock is monotonic; max() because two readings of it may come in the wrong order.
        self._tokens = min(self._burst, self._tokens + max(0.0, now - self._filled_at) * self._per_second)
        self._filled_at = now
        return self._tokens >= 1

    def take(self, now: float) -> bool:
        """Takes a token if there is one."""
        if not self.has_token(now):
            return False
        self._tokens -= 1
        return True

    @property
    def wait_s(self) -> float:
        """How long until there is a token."""
        return max(0.0, 1 - self._tokens) / self._per_second


class TenantRate:
    """What one tenant has used of its rate."""

    __slots__ = ("_hard", "_soft", "_tenant", "settings")

    def __init__(self, settings: RateSettings, *, tenant: str, now: float) -> None:
        self.settings = settings
        self._tenant = tenant
        self._soft = Bucket(settings.per_second, burst=settings.burst, now=now)
        hard = settings.hard_per_second
        self._hard = None if hard is None else Bucket(hard, burst=max(settings.burst, math.ceil(hard)), now=now)

    def refuse_above_hard(self, now: float) -> None:
        """Raises OverRate while the hard rate is used up; charges nothing."""
        if self._hard is not None and not self._hard.has_token(now):
            raise self._over(self._hard)

    def charge(self, now: float) -> bool:
        """Charges one verified request; true when it is above the rate. Raises OverRate when it is above the hard one."""
        if self._hard is not None and not self._hard.take(now):
            raise self._over(self._hard)
        return not self._soft.take(now)

    def _over(self, bucket: Bucket) -> OverRate:
        said = f"tenant {self._tenant} sends more than the {self.settings.hard_per_second:g} requests per second that it may"
        return OverRate(f"{said}; send it again later", retry_after_s=max(1, math.ceil(bucket.wait_s)))


class Rates:
    """The rates of all tenants that have one."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._of_tenant: dict[str, TenantRate] = {}

    def refuse_above_hard(self, tenant: str, *, settings: RateSettings) -> None:
        """Raises OverRate; to be asked before anything is done for a request."""
        now = self._monotonic()
        self._rate(tenant, settings=settings, now=now).refuse_above_hard(now)

    def is_excess(self, tenant: str, *, settings: RateSettings) -> bool:
        """Charges a verified request, and tells whether it is above the rate; raises OverRate."""
        now = self._monotonic()
        return self._rate(tenant, settings=settings, now=now).charge(now)

    def _rate(self, tenant: str, *, settings: RateSettings, now: float) -> TenantRate:
        found = self._of_tenant.get(tenant)
        if found is None or found.settings != settings:  # Other settings: the buckets begin anew.
            found = self._of_tenant[tenant] = TenantRate(settings, tenant=tenant, now=now)
        return found
