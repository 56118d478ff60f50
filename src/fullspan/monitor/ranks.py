"""Which of several processes this one is, and how all of them come to one decision."""

from __future__ import annotations

import os
from typing import Any

from fullspan._backend import loaded
from fullspan.errors import InputError

__all__ = ["Ranks"]


class Ranks:
    """This process among those that train together.

    Parameters
    ----------
    rank
        Its number as the caller gives it; None asks ``torch.distributed``, where it is in use, or the environment
        variable RANK.

    Notes
    -----
    The process of rank 0 writes. Tables that are callables may be collectives, which every process has to enter at the
    same step; rank 0 then decides, by one small broadcast at each look, when that is.
    """

    def __init__(self, rank: int | None = None) -> None:
        if rank is not None and (not isinstance(rank, int) or isinstance(rank, bool) or rank < 0):
            raise InputError(f"watch needs a rank of 0 or more, or None; got {rank!r}.")
        self._group = _distributed()
        self.size = self._group.get_world_size() if self._group is not None else _number("WORLD_SIZE", 1)
        own = self._group.get_rank() if self._group is not None else _number("RANK", 0)
        self.rank: int = own if rank is None else rank
        self.agreeing = False

    @property
    def writes(self) -> bool:
        """Whether this is the process that writes."""
        return self.rank == 0

    @property
    def several(self) -> bool:
        """Whether there are other processes, as far as is known."""
        return self.size > 1 or self.rank > 0

    def agree_on(self, timed: bool) -> None:
        """From now on all processes act on what rank 0 decides.

        Raises
        ------
        InputError
            If they decide by their own clocks and cannot talk to each other: collectives would not meet.
        """
        if not self.several:
            return
        if self._group is not None and self.size > 1:
            self.agreeing = True
        elif timed:
            raise InputError(
                'watch needs torch.distributed to be initialized before every="auto" or full="auto" can read callables '
                "on several processes at the same step; got none. Initialize it first, or take every=100 and "
                'full="epoch".'
            )

    def agreed(self, decision: list[int]) -> list[int]:
        """The decision of rank 0, on every process."""
        if not self.agreeing or self._group is None:
            return decision
        told: list[Any] = [decision]
        self._group.broadcast_object_list(told, src=0)
        return told[0]


def _distributed() -> Any:
    """``torch.distributed`` where it is loaded and initialized."""
    module = loaded("torch.distributed")
    in_use = module is not None and module.is_available() and module.is_initialized()
    return module if in_use else None


def _number(variable: str, otherwise: int) -> int:
    found = os.environ.get(variable, "")
    return int(found) if found.isdecimal() else otherwise
