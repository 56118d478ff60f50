"""A fitted chain in a model of sentence-transformers: it encodes, saves and loads with no code of ours."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest

from fullspan.errors import InputError
from fullspan.normalize.cut import Truncate
from fullspan.normalize.outliers import Clip
from fullspan.normalize.pipeline import make_pipeline
from fullspan.normalize.scale import Center
from fullspan.normalize.sentence import to_sentence_modules
from fullspan.normalize.unit import UnitNorm
from fullspan.normalize.whiten import Whiten

WORDS = ["[UNK]", "what", "is", "my", "balance", "card", "lost", "money", "where", "transfer"]
TEXTS = ["what is my balance", "card lost", "where is my money", "transfer money", "lost"]


@pytest.fixture(scope="module")
def encoder():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from sentence_transformers.sentence_transformer.modules import StaticEmbedding
        from tokenizers import Tokenizer
        from tokenizers.models import WordLevel
        from tokenizers.pre_tokenizers import Whitespace

        tokenizer = Tokenizer(WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="[UNK]"))
        tokenizer.pre_tokenizer = Whitespace()
        weights = np.random.default_rng(0).normal(size=(len(WORDS), 6)).astype(np.float32) + 0.3
        return lambda: StaticEmbedding(tokenizer, embedding_weights=weights)


def model_of(modules):
    from sentence_transformers import SentenceTransformer

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return SentenceTransformer(modules=modules, device="cpu")


def test_encoding_saving_and_loading(encoder, tmp_path):
    from sentence_transformers import SentenceTransformer

    plain = model_of([encoder()]).encode(TEXTS)
    rows = np.random.default_rng(1).normal(size=(200, 6)).astype(np.float32) + 0.3
    fitted = make_pipeline(UnitNorm(), Whiten(), UnitNorm(), Truncate(4)).fit(rows)
    wanted = fitted.transform(plain)
    model = model_of([encoder(), *to_sentence_modules(fitted)])
    np.testing.assert_allclose(model.encode(TEXTS), wanted, atol=2e-6)
    model.save(str(tmp_path / "served"))
    kinds = [each["type"] for each in json.loads((tmp_path / "served" / "modules.json").read_text())]
    assert all(kind.startswith("sentence_transformers.") for kind in kinds)
    assert not list(tmp_path.rglob("*.bin")) + list(tmp_path.rglob("*.pkl"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        again = SentenceTransformer(str(tmp_path / "served"), device="cpu")
    np.testing.assert_allclose(again.encode(TEXTS), wanted, atol=2e-6)


def test_what_a_dense_module_cannot_do_is_refused():
    rows = np.random.default_rng(1).normal(size=(200, 6)).astype(np.float32)
    with pytest.raises(InputError, match="to_sentence_modules needs affine maps, cuts and unit norms; got a stage"):
        to_sentence_modules(make_pipeline(Clip(3), UnitNorm()).fit(rows))
    with pytest.raises(InputError, match="needs an error bound of at most"):
        to_sentence_modules(Center().fit(rows + np.float32(1e4)))
    assert len(to_sentence_modules(Center().fit(rows + np.float32(1e4)), tolerance=None)) == 1
