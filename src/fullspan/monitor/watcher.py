"""Watch embedding tables while they are trained: readings over time within a budget, under any training loop."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any

from fullspan.errors import InputError
from fullspan.monitor.attach import Hooks
from fullspan.monitor.progress import Progress, checked_step
from fullspan.monitor.ranks import Ranks
from fullspan.monitor.recorder import Recorder, Sink, checked_calls
from fullspan.monitor.schedule import TIMED_CALLS, Schedule
from fullspan.store.records import Event, Finding

if TYPE_CHECKING:
    from fullspan.monitor.looks import Looks

__all__ = ["Watcher", "watch"]

_STATUSES = ("finished", "stopped", "failed")
_FULL = ("auto", "epoch", "never")
_STATE_VERSION = 1


def watch(
    tables: Any,
    run: str | os.PathLike[str],
    *,
    every: str | int | None = "auto",
    budget: float = 0.01,
    full: str = "auto",
    measures: Iterable[str] | str | None = None,
    sample: int = 10_000,
    frequencies: Any = None,
    labels: Any = None,
    gradients: bool = False,
    rules: Any = None,
    on_finding: Callable[[Finding], object] | None = None,
    stop_on: str | Iterable[str] | None = None,
    sinks: Iterable[Sink] = (),
    snapshots: bool = True,
    seed: int = 0,
    strict: bool = False,
    config: Mapping[str, Any] | None = None,
    resume_step: int | None = None,
    rank: int | None = None,
) -> Watcher:
    """Watch embedding tables while they are trained, under any loop.

    Parameters
    ----------
    tables
        A torch module (its ``nn.Embedding`` and ``nn.EmbeddingBag`` layers, tied weights once), or a mapping of names
        to parameters, layers, arrays of shape ``(n_rows, dim)`` or callables without arguments that give one of these.
        An array that is replaced, and not changed in place, has to be a callable; so has a sharded or quantized table.
    run
        Directory of the run, made when it is missing: :func:`fullspan.open_run` reads it, also while it is written.
    every
        ``"auto"`` reads as often as `budget` allows; a number reads at its multiples of steps, whatever it costs; None
        reads at the ends of epochs only.
    budget
        Largest share of the training time that watching may take, by CPU time and by the clock on the wall.
    full
        Passes over whole tables: ``"auto"`` at the ends of epochs that the budget allows (or, where no epochs are told,
        when it does), ``"epoch"`` at the ends of all epochs, ``"never"``.
    measures
        Names from ``fullspan measures``; None takes 13 of them. Those that need eigenvectors first, such as isotropy,
        are read by full passes only.
    sample
        Rows that are read between full passes: always the same ones, drawn once.
    frequencies
        How often each row occurs, an array for a single table or a mapping of table names to arrays: the sample is
        stratified by them.
    labels
        One label a row, given likewise: snapshots keep them.
    gradients
        Whether to read the gradients too: ``gradient_norm``, ``gradient_zero_sum_ratio``, ``touched_row_share``.
    rules
        None for the rules as they ship, the path of a ``fullspan.toml`` (its ``[[rule]]`` and ``[[waive]]``), or False
        for none.
    on_finding
        Called with each :class:`~fullspan.Finding` when it comes and when it grows graver.
    stop_on
        A severity, or names of rules: findings like that set `should_stop`.
    sinks
        Callables that get each moment's values, ``{"table/measure": value}``, and the moment.
    snapshots
        Whether to keep the sampled rows at the ends of epochs, for maps.
    seed
        Seed of the samples.
    strict
        Whether errors of the watcher are raised. Otherwise they are logged once, kept as events, and training goes on.
    config
        Settings of the training, kept with the run.
    resume_step
        The step of the checkpoint that training goes on from: what was recorded later is superseded.
        :meth:`Watcher.load_state_dict` says it, too.
    rank
        Number of this process; None asks ``torch.distributed`` or the environment variable RANK. Only rank 0 writes.

    Returns
    -------
    Watcher
        Tell it of steps by ``attach(optimizer)`` or ``step()``, of epochs by ``epoch()``; close it, or use ``with``.

    Raises
    ------
    InputError, UnknownNameError
        If an argument is wrong, or there is no table.
    StoreError
        If the run cannot be written. After that nothing is raised unless `strict`.

    Notes
    -----
    Readings of whole tables are those of :func:`fullspan.measure` on the same weights; readings in between are those of
    :func:`fullspan.measure` on the sampled rows. A pulse of 10,000 × 64 numbers takes about 12 ms of CPU time, a full
    pass over 1,000,000 × 64 about a second.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import fullspan as fs
    >>> E = np.random.default_rng(0).normal(size=(100, 8))
    >>> folder = tempfile.mkdtemp()
    >>> with fs.watch({"items": E}, f"{folder}/run", every=1, rules=False) as watcher:
    ...     for _ in range(3):
    ...         E *= 0.5
    ...         watcher.step(loss=float(np.square(E).mean()))
    >>> fs.open_run(f"{folder}/run").curve("items", "mean_norm").step
    array([1, 2, 3])
    """
    schedule = Schedule(every, budget)
    with schedule.spending("start-up"):
        from fullspan.monitor.alerts import stop_names
        from fullspan.monitor.looks import Looks
        from fullspan.monitor.observer import Observer
        from fullspan.monitor.reading import Measures
        from fullspan.monitor.tables import watched_tables

        if full not in _FULL:
            raise InputError(f'watch needs full="auto", "epoch" or "never"; got {full!r}.')
        sinks = checked_calls(sinks, on_finding)
        ranks = Ranks(rank)
        watched = watched_tables(tables, sample=sample, seed=seed, frequencies=frequencies, labels=labels)
        chosen = Measures.of(measures, frequencies=frequencies is not None, hygiene=rules is not False, seed=seed)
        alerts, stops = _alerts(rules, stop_on), stop_names(stop_on)
        if stops or any(each.calls for each in watched):
            ranks.agree_on(timed=every == "auto" or full == "auto")
        told = {"every": every, "budget": budget, "full": full, "sample": sample, "seed": seed}
        writer = _writer(run, {**(config or {}), "watch": told}, resume_step) if ranks.writes else None
        recorder = Recorder(writer, sinks if ranks.writes else (), strict=strict)
        observer = Observer(
            watched,
            chosen,
            recorder,
            schedule,
            alerts=alerts,
            on_finding=on_finding,
            stop_on=stops,
            snapshots=snapshots,
            writes=ranks.writes,
        )
        hooks = Hooks()
        progress = Progress(hooks, resume_step or 0)
        looks = Looks(observer, recorder, schedule, ranks, progress, hooks, full=full, gradients=gradients)
        return Watcher(looks, hooks, resumed=resume_step is not None)


def _alerts(rules: Any, stop_on: Any) -> Any:
    from fullspan.monitor.alerts import Alerts

    if rules is not False:
        return Alerts(rules)
    if stop_on is not None:
        raise InputError("watch needs rules for stop_on to name; got rules=False.")
    return None


def _writer(run: Any, config: Mapping[str, Any], resume_step: int | None) -> Any:
    from fullspan.store.writer import RunWriter

    return RunWriter.open(run, config=config, resume_step=resume_step)


class Watcher:
    """A run that is watched. Made by :func:`watch`; a context manager, which finishes the run.

    Parameters
    ----------
    looks, hooks
        What is done when a look is due, and what counts the steps of attached optimizers.
    resumed
        Whether the run goes on from a checkpoint.

    Notes
    -----
    Every point bears the optimizer step, the epoch, the samples seen and the time on the wall. Errors of the watcher
    end nothing: see `strict` of :func:`watch`.
    """

    def __init__(self, looks: Looks, hooks: Hooks, *, resumed: bool = False) -> None:
        self._looks, self._hooks, self._progress = looks, hooks, looks.progress
        self._resumed, self._begun, self._finished = resumed, False, False
        self._calls = 0
        hooks.call(self._before_step, self._after_step)

    # -- what the training loop tells

    def attach(self, *optimizers: Any) -> Watcher:
        """Count the steps that optimizers of torch really take.

        Parameters
        ----------
        optimizers
            Optimizers of torch, or the wrappers of Accelerate and Lightning around them.

        Returns
        -------
        Watcher
            This one.

        Raises
        ------
        InputError
            If one is no optimizer of torch.

        Notes
        -----
        Right under gradient accumulation and under a ``GradScaler``, whose skipped steps do not count. Several
        optimizers count as one: the steps of the one that takes most of them, and tables are read when all have taken
        the step. Once attached, ``step(loss=...)`` only records scalars of the current step. The hooks are taken off
        when the run is finished, or by :meth:`detach`.
        """
        for optimizer in optimizers:
            self._hooks.add(optimizer)
        return self

    def detach(self) -> None:
        """Take the hooks off all optimizers; the count stays, and :meth:`step` counts from there."""
        with self._guarded("detaching"):
            step = self._progress.step
            self._hooks.remove()
            self._progress.move(step)

    def begin(self) -> Watcher:
        """Training begins: the sampled rows are copied now, and measured as soon as the budget allows.

        The first step does so by itself: before it, when an optimizer is attached; else after it, so that loops
        which call :meth:`step` call this first to have the weights of step 0 read.
        """
        self._begin(anew=self._progress.step_so_far == 0)
        return self

    def _begin(self, *, anew: bool) -> None:
        if not self._begun and not self._finished:
            self._begun = True
            with self._guarded("beginning"):
                self._looks.begin(anew=anew and not self._resumed)

    def step(self, n: int = 1, *, loss: Any = None, samples: int | None = None, **scalars: Any) -> None:
        """Steps were taken; with an attached optimizer, which counts them, only record what is given.

        Parameters
        ----------
        n
            How many, unless an optimizer is attached.
        loss
            Training loss, a number or a tensor that holds one, which is brought to the host when it is written.
        samples
            Training samples that these steps, or this micro-batch, have seen.
        **scalars
            Other numbers of the run by name. Several of one step are averaged; where steps are too short to record
            each within the budget, several steps are.
        """
        if self._finished:
            return
        if loss is not None:
            scalars["loss"] = loss
        self._calls += 1
        if self._calls % TIMED_CALLS:
            self._told(n, samples, scalars)
        else:
            with self._looks.schedule.timing_a_call():
                self._told(n, samples, scalars)

    def _told(self, n: int, samples: int | None, scalars: dict[str, Any]) -> None:
        """The body of `step`, which runs in every step: no context manager, no moment is made."""
        try:
            by_hand = not self._hooks.attached
            if samples is not None:
                self._progress.saw(samples)
            if by_hand:
                self._advance(checked_step(n, "watcher.step", 1))
            if scalars:
                self._looks.scalars.put(self._progress.instant(), scalars)
            if by_hand and self._progress.step_so_far >= self._looks.next_step:
                self._looks.after_step()
        except Exception as error:
            self._trouble(error, "counting a step")

    def _advance(self, n: int) -> None:
        anew = self._progress.step_so_far == 0
        self._progress.advance(n)
        self._begin(anew=anew)

    def epoch(self, number: float | None = None, **scalars: Any) -> None:
        """An epoch has ended.

        Parameters
        ----------
        number
            Epochs finished, this one included; None counts them.
        **scalars
            Numbers of the run at its end: ``loss``, ``test_loss`` and so on.
        """
        if self._finished:
            return
        with self._guarded("ending an epoch"):
            self.begin()
            self._progress.end_epoch(number)
            self._looks.scalars.put(self._progress.instant(), scalars)
            self._looks.after_epoch()

    def observe(self, step: int | None = None, *, epoch: float | None = None, full: bool = False) -> None:
        """Read the tables now, whatever it costs.

        Parameters
        ----------
        step, epoch
            How far training has come, where the caller counts; None leaves the counts as they are.
        full
            Whether to read whole tables.
        """
        if self._finished:
            return
        with self._guarded("observing"):
            self._begun = True
            if step is not None:
                self._progress.move(checked_step(step, "watcher.observe"))
            if epoch is not None:
                self._progress.tell_epoch(epoch)
            self._looks.at_will(full=full)

    def log(self, step: int | None = None, **scalars: Any) -> None:
        """Record numbers of the run, without counting a step.

        Parameters
        ----------
        step
            Where they belong; None for the current step.
        **scalars
            Numbers by name.
        """
        with self._guarded("recording scalars"):
            if self._finished:
                raise InputError("watcher.log needs a run that is watched; got one that is finished.")
            at = self._progress.instant()
            if step is not None and checked_step(step, "watcher.log") != at[0]:
                at = (checked_step(step, "watcher.log"), None, None, at[3])
            self._looks.scalars.put(at, scalars)
            self._looks.write_if_due()

    # -- what it has to say

    @property
    def should_stop(self) -> bool:
        """Whether a finding named by `stop_on` has come."""
        return self._looks.stop or self._looks.observer.stop

    @property
    def overhead(self) -> float:
        """Time of watching over time of training, so far: the larger of CPU time and time on the wall."""
        return self._looks.schedule.overhead

    @property
    def costs(self) -> dict[str, float]:
        """CPU seconds of watching by kind: ``start-up``, ``pulse``, ``full``, ``snapshot``, ``write`` and so on."""
        return {kind: took.cpu for kind, took in self._looks.schedule.by_kind.items()}

    @property
    def steps(self) -> int:
        """Optimizer steps so far."""
        return self._progress.step

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings that hold now."""
        alerts = self._looks.observer.alerts
        return () if alerts is None else alerts.findings

    @property
    def errors(self) -> tuple[Event, ...]:
        """What went wrong with the watching, each kind once."""
        return tuple(self._looks.recorder.errors)

    def state_dict(self) -> dict[str, Any]:
        """Plain values for a checkpoint: counts, costs, findings."""
        alerts = self._looks.observer.alerts
        return {
            "version": _STATE_VERSION,
            **self._progress.state_dict(),
            "schedule": self._looks.schedule.state_dict(),
            "findings": [] if alerts is None else alerts.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a checkpoint: what was recorded after its step is superseded, so that curves stay one.

        Raises
        ------
        InputError
            If it is not the state of a watcher, or of a newer version.
        """
        if not isinstance(state, Mapping) or state.get("version") != _STATE_VERSION:
            found = state.get("version") if isinstance(state, Mapping) else type(state).__name__
            raise InputError(
                f"watcher.load_state_dict needs what state_dict gave, version {_STATE_VERSION}; got {found!r}."
            )
        self._progress.load_state_dict(state)
        self._looks.schedule.load_state_dict(state["schedule"])
        if self._looks.observer.alerts is not None:
            self._looks.observer.alerts.load_state_dict(state["findings"])
        self._resumed = True
        self._looks.go_on()

    # -- the end

    def finish(self, status: str = "finished") -> None:
        """Read the tables once more, write what waits, and say how the run ended.

        Parameters
        ----------
        status
            ``"finished"``, ``"stopped"`` or ``"failed"``: after a failure nothing is read. The first call counts.
        """
        if status not in _STATUSES:
            raise InputError(f"watcher.finish needs one of {', '.join(_STATUSES)}; got {status!r}.")
        if self._finished:
            return
        with self._guarded("finishing"):
            self.detach()
            self._looks.at_end(read=self._begun and status != "failed")
        self._finished = True
        with self._guarded("finishing"):
            self._looks.recorder.finish(self._progress.now(), status)

    def close(self) -> None:
        """Finish the run, unless that has been done."""
        self.finish()

    def __enter__(self) -> Watcher:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        stopped = kind is not None and issubclass(kind, KeyboardInterrupt)
        self.finish("finished" if kind is None else "stopped" if stopped else "failed")

    # -- hooks

    def _before_step(self, optimizer: Any) -> None:
        self.begin()
        looks = self._looks
        if looks.gradients and self._progress.step_so_far + 1 >= looks.next_step:
            with self._guarded("reading gradients"):
                looks.take_gradients(_scale_of(optimizer))

    def _after_step(self, _: int) -> None:
        if self._progress.step_so_far >= self._looks.next_step:
            with self._guarded("looking"):
                self._looks.after_step()

    @contextmanager
    def _guarded(self, what: str) -> Iterator[None]:
        """Errors of the watcher inside are recorded, and end nothing unless it is strict."""
        try:
            yield
        except Exception as error:
            self._trouble(error, what)

    def _trouble(self, error: Exception, what: str) -> None:
        self._looks.recorder.trouble(error, self._progress.now(), what)


def _scale_of(optimizer: Any) -> float:
    """What a loss scaler has multiplied the gradients by, for optimizers that divide by themselves."""
    scale = getattr(optimizer, "grad_scale", None)
    return 1.0 if scale is None else float(scale)
