"""``fullspan demo``: the main job on the table that ships with the package."""

from __future__ import annotations

import click

from fullspan.cli.lazy import Command
from fullspan.cli.measure import run_measure
from fullspan.cli.options import output_options
from fullspan.cli.output import Sink, echo

__all__ = ["demo"]

_HELP = "Measure the bundled table: the 20,000 most frequent words of GloVe 6B, in 50 dimensions."
_EXAMPLES = """
fullspan demo
fullspan demo --out glove.html
"""


@click.command(cls=Command, help=_HELP, examples=_EXAMPLES)
@output_options()
def demo(form: str | None, as_json: bool, out: str | None, quiet: bool) -> None:
    from fullspan.datasets.bundled import glove_path

    path = glove_path()
    sink = Sink(form, as_json, out, quiet, (path,))
    report = run_measure(path, quiet=quiet, column="vector", ids="word", frequencies="zipf_frequency")
    sink.put(report)
    if sink.to_file:
        echo(f"Wrote {sink.out}. Next: one measure explained, your own table\n")
    elif sink.form == "text":
        echo("\nNext: the same with figures, one measure explained, your own table\n")
        echo("  fullspan demo --out glove.html\n")
    else:
        return
    echo("  fullspan measures average_cosine\n  fullspan measure YOUR_FILE\n")
