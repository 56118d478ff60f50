"""The entry of the command line: the list of commands, and what the process ends with."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from typing import Any

import click

from fullspan import __version__
from fullspan.cli.lazy import Group
from fullspan.errors import FullspanError

__all__ = ["PLACES", "app", "main", "run"]

#: Command to the place it lives in and what it does.
PLACES = {
    "measure": ("fullspan.cli.measure:measure", "Measure embedding tables, and say what is wrong with them."),
    "check": ("fullspan.cli.check:check", "Hold tables against rules: a gate with an exit code."),
    "drift": ("fullspan.cli.drift:drift", "Compare versions of a table, aligned by row id."),
    "fit": ("fullspan.cli.fit:fit", "Learn a normalization from a table."),
    "apply": ("fullspan.cli.apply:apply", "Map a table with a saved fit."),
    "verify": ("fullspan.cli.verify:verify", "Do stored vectors come from a fit? Are they normalized?"),
    "tables": ("fullspan.cli.tables:tables", "List the tables of a file, and which look like embeddings."),
    "measures": ("fullspan.cli.measures:measures", "List all measures, or explain one."),
    "rules": ("fullspan.cli.rules:rules", "List all rules, or explain one."),
    "words": ("fullspan.cli.words:words", "Score word vectors against human judgements of similarity."),
    "datasets": ("fullspan.cli.datasets:datasets", "List data to train on, and where it was found."),
    "study": ("fullspan.cli.study:study", "Run an experiment whole, and answer the claims it tests."),
    "report": ("fullspan.cli.report:report", "Training runs as one HTML page: curves, spectra, maps, findings."),
    "runs": ("fullspan.cli.runs:runs", "List training runs, compare two, or export one."),
    "separability": ("fullspan.cli.separability:separability", "How well labels separate over a training run."),
    "demo": ("fullspan.cli.demo:demo", "Measure the bundled GloVe table, and watch a short training."),
}

_EXIT_PIPE = 141  # as a process that SIGPIPE ends
_EXIT_INTERRUPT = 130
_EXIT_INTERNAL = 4

_HELP = """Measure the geometry of embedding tables: dimensional collapse, anisotropy, rogue dimensions, dead rows.

\b
Exit codes:
  0  pass
  1  a check failed
  2  wrong usage, or input that cannot be read
  3  nothing could be evaluated
  4  internal error
"""
_COMPLETION = """To complete commands and options with Tab:
bash:  eval "$(_FULLSPAN_COMPLETE=bash_source fullspan)"
zsh:   eval "$(_FULLSPAN_COMPLETE=zsh_source fullspan)"
fish:  _FULLSPAN_COMPLETE=fish_source fullspan | source"""


@click.command(
    cls=Group,
    places=PLACES,
    help=_HELP,
    examples=f"fullspan demo\nfullspan measure model.safetensors\nfullspan measures isotropy\n\n{_COMPLETION}",
)
@click.version_option(__version__, "--version", message="fullspan %(version)s")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def app(debug: bool) -> None:
    pass


def main(args: Sequence[str] | None = None) -> None:
    """Run the command line and end the process with its exit code."""
    code = run(sys.argv[1:] if args is None else args)
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        code = _broken_pipe()
    except OSError as error:
        code = _refused(error)
    sys.exit(code)


def run(args: Sequence[str]) -> int:
    """Run the command line on `args` and return the exit code; every error is one line on standard error."""
    debug = "--debug" in args or bool(os.environ.get("FULLSPAN_DEBUG"))
    try:
        if "_FULLSPAN_COMPLETE" in os.environ:
            app.main(list(args), prog_name="fullspan")
        with app.make_context("fullspan", list(args)) as context:  # app.main would end a closed pipe with a 1
            result = app.invoke(context)
        return result if isinstance(result, int) else 0
    except click.exceptions.Exit as error:
        return error.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return 2
    except click.UsageError as error:
        where = error.ctx.command_path if error.ctx is not None else "fullspan"
        return _say(f"{error.format_message()} See `{where} --help`.", 2)
    except click.ClickException as error:
        return _say(error.format_message(), 2)
    except (KeyboardInterrupt, click.Abort):
        return _EXIT_INTERRUPT
    except BrokenPipeError:
        return _broken_pipe()
    except Exception as error:  # the last one that sees it: whatever went wrong ends in one line
        if debug:
            raise
        return _failed(error)


def _failed(error: Exception) -> int:
    if isinstance(error, FullspanError):
        return _say(str(error), error.exit_code)
    if isinstance(error, MemoryError):
        return _say(
            "The input needs more memory than there is. Choose one table with --table, or a smaller --sample.", 2
        )
    if isinstance(error, OSError):
        return _refused(error)
    what = " ".join(f"{type(error).__name__}: {error}".split())
    return _say(
        f"Internal error ({what}). Please report it with what `fullspan --debug …` prints for the same command.", 4
    )


def _refused(error: OSError) -> int:
    """What the system did not let us do; standard output may be what is full, so nothing more is written to it."""
    where = f" at {error.filename!r}" if error.filename else ""
    code = _say(f"Reading and writing need files that the system grants; got {error.strerror or error}{where}.", 2)
    _broken_pipe()
    return code


def _say(message: Any, code: int) -> int:
    from fullspan.jobs.formats.words import clean

    click.echo(f"fullspan: {clean(' '.join(str(message).split()))}", err=True)
    return code


def _broken_pipe() -> int:
    """Point standard output nowhere, so that the interpreter does not complain when it flushes at its end."""
    with contextlib.suppress(OSError, ValueError):  # a captured stream has no descriptor
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return _EXIT_PIPE
