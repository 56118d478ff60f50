"""A clock whose hands are moved by the test."""

from __future__ import annotations

from fullspan.monitor.schedule import Clock


class Hands:
    """Seconds on the wall and of CPU time."""

    def __init__(self) -> None:
        self.wall = self.cpu = 1000.0

    def pass_(self, wall: float, cpu: float | None = None) -> None:
        self.wall += wall
        self.cpu += wall if cpu is None else cpu

    @property
    def clock(self) -> Clock:
        return Clock(lambda: self.wall, lambda: self.cpu)
