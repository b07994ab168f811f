"""Every route of the HTTP API, in the order in which they are tried: what is called most comes first."""

from __future__ import annotations

from . import ofrep, tracking
from .api import events, experiments, health, jobs, keys, operating, pages, traffic
from .dispatch import Route

ROUTES: tuple[Route, ...] = (
    *traffic.ROUTES,
    *ofrep.ROUTES,
    *tracking.ROUTES,
    *experiments.ROUTES,
    *pages.ROUTES,
    *operating.ROUTES,
    *jobs.ROUTES,
    *keys.ROUTES,
    *events.ROUTES,
    *health.ROUTES,
)
