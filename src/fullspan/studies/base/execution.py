"""Run tasks in parallel processes: each result is one file, so that a study goes on where it was stopped."""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

from fullspan.errors import FullspanError
from fullspan.jobs.formats.write import write_output
from fullspan.studies.base.grid import Task

__all__ = ["StudyFailedError", "StudyStoppedError", "load", "missing", "run_tasks"]

#: What a task is run with: itself, and what all of them share (the data); gives plain JSON values.
Work = Callable[[Task, Any], dict[str, Any]]
#: Called with the task that has ended and the seconds it took.
Told = Callable[[Task, float], None]
Complete = Callable[[Task], bool]

#: One thread a process: the processes share the cores already.
_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


class StudyFailedError(FullspanError, RuntimeError):
    """A cell of a study cannot be run."""


class StudyStoppedError(FullspanError):
    """A study was interrupted; what is done stays done."""

    exit_code = 130


def load(task: Task, folder: Path) -> dict[str, Any] | None:
    """The stored result of a task, or None where there is none (or one of another key, or a torn file)."""
    try:
        stored = json.loads((folder / task.file_name).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return stored if isinstance(stored, dict) and stored.get("key") == task.key and "result" in stored else None


def missing(tasks: Sequence[Task], folder: Path, complete: Complete | None = None) -> list[Task]:
    """The tasks that have no stored result yet, or are not complete without it, the dearest first."""
    left = [task for task in tasks if load(task, folder) is None or not (complete is None or complete(task))]
    return sorted(left, key=lambda task: -task.cell.cost)


def run_tasks(
    tasks: Sequence[Task],
    work: Work,
    shared: Any,
    folder: Path,
    *,
    jobs: int = 1,
    told: Told | None = None,
    complete: Complete | None = None,
) -> dict[tuple[str, int], dict[str, Any]]:
    """Run what is not stored yet, and give all results.

    Parameters
    ----------
    tasks
        What to run.
    work
        A function of a module (it is sent to other processes by name).
    shared
        What `work` gets beside its task, the same for all; sent once to each process.
    folder
        Where the results are stored, one file a task, each written whole or not at all.
    jobs
        Processes; with 1 the tasks run in this one.
    told
        Called when a task has ended.
    complete
        Whether what a task leaves beside its result is there; by default the result is all.

    Returns
    -------
    dict
        Name of the cell and seed to the result.

    Raises
    ------
    StudyFailedError
        A task raised, or a process was killed. What had ended is stored.
    StudyStoppedError
        Ctrl-C. What had ended is stored.
    """
    folder.mkdir(parents=True, exist_ok=True)
    left = missing(tasks, folder, complete)
    try:
        done = _here(left, work, shared) if jobs == 1 or len(left) < 2 else _spread(left, work, shared, jobs)
        with contextlib.closing(done):
            for task, result, seconds in done:
                _store(task, result, seconds, folder)
                if told is not None:
                    told(task, seconds)
    except KeyboardInterrupt:
        kept = len(tasks) - len(missing(tasks, folder))
        raise StudyStoppedError(
            f"Stopped: {kept} of {len(tasks)} runs are done and kept. The same command goes on from there."
        ) from None
    stored = {task: load(task, folder) for task in tasks}
    return {(task.cell.name, task.seed): each["result"] for task, each in stored.items() if each is not None}


def _store(task: Task, result: dict[str, Any], seconds: float, folder: Path) -> None:
    whole = {
        "key": task.key,
        "cell": task.cell.name,
        "seed": task.seed,
        "settings": dict(task.cell.settings),
        "seconds": round(seconds, 3),
        "result": result,
    }
    write_output(json.dumps(whole, allow_nan=False) + "\n", folder / task.file_name)


Done = Generator[tuple[Task, dict[str, Any], float], None, None]


def _timed(task: Task, work: Work, shared: Any) -> tuple[dict[str, Any], float]:
    began = time.perf_counter()
    return work(task, shared), time.perf_counter() - began


def _here(left: Sequence[Task], work: Work, shared: Any) -> Done:
    for task in left:
        try:
            result, seconds = _timed(task, work, shared)
        except FullspanError:
            raise
        except Exception as error:
            raise _failed(task, error) from error
        yield task, result, seconds


def _spread(left: Sequence[Task], work: Work, shared: Any, jobs: int) -> Done:
    before = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(
        min(jobs, len(left)),
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_start,
        initargs=(work, shared),
    )
    ended = False
    with _one_thread():
        pending = {pool.submit(_do, task): task for task in left}
    try:
        while pending:
            for future in wait(pending, return_when=FIRST_COMPLETED).done:
                task = pending.pop(future)
                try:
                    result, seconds = future.result()
                except FullspanError:
                    raise
                except BrokenProcessPool as error:
                    raise StudyFailedError(
                        f"A study needs its processes to live; got one killed near {task.cell.name}, seed {task.seed}. "
                        "Was memory short? The same command with --jobs 1 goes on from there."
                    ) from error
                except Exception as error:
                    raise _failed(task, error) from error
                yield task, result, seconds
        ended = True
    finally:
        if not ended:
            for child in set(multiprocessing.active_children()) - before:
                child.terminate()
        pool.shutdown(wait=True, cancel_futures=True)


def _failed(task: Task, error: Exception) -> StudyFailedError:
    what = " ".join(f"{type(error).__name__}: {error}".split())
    return StudyFailedError(
        f"A study needs every run to end; got {what} in {task.cell.name}, seed {task.seed}. Runs that ended are kept."
    )


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """What processes that start in here inherit."""
    old = {name: os.environ.get(name) for name in _ONE_THREAD}
    os.environ.update(dict.fromkeys(_ONE_THREAD, "1"))
    try:
        yield
    finally:
        for name, value in old.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


_held: tuple[Work, Any] | None = None


def _start(work: Work, shared: Any) -> None:
    """In a new process: keep what is shared, leave Ctrl-C to the parent, and end when the parent does."""
    import signal

    global _held
    _held = (work, shared)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _do(task: Task) -> tuple[dict[str, Any], float]:
    assert _held is not None
    return _timed(task, *_held)
