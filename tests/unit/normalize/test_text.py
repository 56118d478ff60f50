"""Strategies as text: read, written, and refused."""

from __future__ import annotations

import numpy as np
import pytest

from fullspan.errors import InputError, UnknownNameError
from fullspan.normalize.outliers import Outliers
from fullspan.normalize.pipeline import make_pipeline
from fullspan.normalize.scale import Center
from fullspan.normalize.text import STRATEGIES, parse_strategy, strategy_text
from fullspan.normalize.unit import UnitNorm
from fullspan.normalize.whiten import PCA, Whiten
from tests.cases import NORMALIZERS


def test_a_chain_is_read():
    made = parse_strategy("center | whiten(power=0.5) | l2")
    assert repr(made) == repr(make_pipeline(Center(), Whiten(power=0.5), UnitNorm()))
    assert repr(parse_strategy("\n pca('parallel')|\n clip(3,'mad')")[0]) == repr(PCA("parallel"))
    assert parse_strategy("robust(quantiles=(0.1, 0.9))")[0].quantiles == (0.1, 0.9)
    assert parse_strategy("minmax(low=-1.0)")[0].low == -1.0


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_name_is_read(name):
    assert type(parse_strategy(name)[0]) is STRATEGIES[name]


@pytest.mark.parametrize("case", NORMALIZERS, ids=str)
def test_what_is_written_is_read_back(case):
    made = case.make()
    again = parse_strategy(strategy_text(made))
    assert strategy_text(again) == strategy_text(made)
    assert [repr(step) for step in again] == [repr(step) for step in (made if hasattr(made, "steps") else [made])]


def test_numbers_of_numpy_are_written_plainly():
    assert strategy_text(PCA(np.int64(3))) == "pca(k=3)"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "A strategy needs steps joined by |, such as .*; got text that does not parse in ''"),
        ("center |", "got text that does not parse"),
        ("center & l2", "got the step 'center & l2'"),
        ("os.system('x')", "got the step"),
        ("(lambda: 1)()", "got the step"),
        ("[center]", r"got the step '\[center\]'"),
        ("center) | (l2", "got text that does not parse|the step"),
        (
            "whiten(power=__import__('os'))",
            r"whiten needs numbers, quoted words or None as parameters; got .__import__",
        ),
        ("whiten(**{})", "whiten needs parameters among .*; got a call with"),
        ("whiten(strength=1)", "whiten needs parameters among align_to, epsilon, .*got an unexpected keyword"),
        ("whiten('pca', rotation='zca')", "whiten needs parameters among .*multiple values"),
        ("whiten('pka')", "Whiten needs rotation to be one of zca, zca-cor, pca, cholesky; got 'pka'"),
        ("l2(" + "(" * 3000, "A strategy needs|got text that does not parse"),
        ("l2" * 3000, "A strategy needs at most 4096 characters; got 6000"),
    ],
)
def test_what_is_no_chain_is_refused(text, message):
    with pytest.raises(InputError, match=message):
        parse_strategy(text)


def test_an_unknown_name_suggests_one():
    with pytest.raises(
        UnknownNameError, match=r'No normalizer is named .whitten.\. Did you mean "whiten"\? Known: cen'
    ):
        parse_strategy("l2 | whitten")


def test_a_normalizer_of_ones_own_has_no_text():
    class Mine(Outliers):
        pass

    with pytest.raises(InputError, match=r"A strategy in text needs normalizers of fullspan; got Mine\."):
        strategy_text(Mine())
