"""Word similarity and the Coupled Adam set against scipy and the paper's formulas."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats

from fullspan.errors import FormatError, InputError, MissingFileError, UndefinedMeasureError, UnknownNameError
from fullspan.measures import similarity, word_pairs

WORDS = [f"w{i}" for i in range(40)]


@pytest.fixture
def vectors():
    return np.random.default_rng(0).standard_normal((40, 12))


@pytest.fixture
def gold():
    random = np.random.default_rng(1)
    return [
        (f"w{a}", f"w{b}", float(s))
        for (a, b), s in zip(random.integers(0, 40, (60, 2)), random.random(60), strict=True)
    ]


def cosines(vectors, pairs):
    unit = vectors / np.linalg.norm(vectors, axis=1)[:, None]
    return np.array([unit[int(a[1:])] @ unit[int(b[1:])] for a, b, _ in pairs])


@pytest.mark.parametrize("kind", ["pearson", "spearman"])
def test_against_scipy(vectors, gold, kind):
    score = similarity.word_similarity(vectors, WORDS, gold, kind=kind)
    reference = {"pearson": scipy.stats.pearsonr, "spearman": scipy.stats.spearmanr}[kind]
    expected = reference(cosines(vectors, gold), [s for *_, s in gold])[0]
    assert score.value == pytest.approx(expected, rel=1e-9)
    assert (score.n_used, score.n_pairs, score.n_missing, score.n_multi_token) == (60, 60, 0, 0)
    error = (1 - expected**2) * math.sqrt((1 + expected**2 / 2 if kind == "spearman" else 1) / 57)
    assert score.standard_error == pytest.approx(error)


def test_missing_words_have_a_stated_policy(vectors, gold):
    more = [*gold, ("w1", "nowhere", 0.3), ("W2", "w3", 0.5)]
    skipped = similarity.word_similarity(vectors, WORDS, more)
    assert (skipped.n_used, skipped.n_missing) == (61, 1)
    zero = similarity.word_similarity(vectors, WORDS, more, missing="zero")
    expected = scipy.stats.pearsonr(
        [*cosines(vectors, gold), 0.0, *cosines(vectors, [("w2", "w3", 0)])], [s for *_, s in more]
    )[0]
    assert zero.value == pytest.approx(expected, rel=1e-9)
    with pytest.raises(InputError, match='a row for every word; got none for "nowhere"'):
        similarity.word_similarity(vectors, WORDS, more, missing="error")


def test_words_of_several_tokens_have_a_stated_policy(vectors, gold):
    pieces = {word: [i] for i, word in enumerate(WORDS)} | {"w0": [0, 1]}
    touched = sum("w0" in pair[:2] for pair in gold)
    assert touched
    skipped = similarity.word_similarity(vectors, pieces, gold)
    assert skipped.n_multi_token == touched
    mean = similarity.word_similarity(vectors, pieces, gold, multi_token="mean")
    moved = vectors.copy()
    moved[0] = vectors[:2].mean(0)
    assert mean.value == pytest.approx(similarity.word_similarity(moved, WORDS, gold).value, rel=1e-12)
    tokenized = similarity.word_similarity(vectors, None, gold, tokenize=lambda word: pieces[word], multi_token="mean")
    assert tokenized == mean


def test_clear_errors(vectors, gold):
    with pytest.raises(
        UndefinedMeasureError, match="at least three pairs; got 0 of 1: 1 lack a word, 0 have a word of"
    ):
        similarity.word_similarity(vectors, WORDS, [("a", "b", 1.0)])
    with pytest.raises(InputError, match="one word for each of 40 rows; got 1"):
        similarity.word_similarity(vectors, ["a"], gold)
    with pytest.raises(InputError, match="words of the rows, or a function `tokenize`; got neither"):
        similarity.word_similarity(vectors, None, gold)
    with pytest.raises(InputError, match=r"a path, or .* triples; got int"):
        similarity.word_similarity(vectors, WORDS, 3)
    with pytest.raises(InputError, match='rows within the table of 40; got row 99 for "w1"'):
        similarity.word_similarity(vectors, {"w1": 99}, [("w1", "w1", 1.0)])
    with pytest.raises(InputError, match='one of "skip", "zero", "error"'):
        similarity.word_similarity(vectors, WORDS, gold, missing="drop")
    with pytest.raises(InputError, match=r"shape \(rows, dim\); got shape \(40,\)"):
        similarity.word_similarity(vectors[:, 0], WORDS, gold)
    with pytest.raises(UndefinedMeasureError, match="judgments that vary"):
        similarity.word_similarity(vectors, WORDS, [(a, b, 1.0) for a, b, _ in gold])
    vectors[int(gold[0][0][1:])] = np.nan
    with pytest.raises(InputError, match="NaN or infinity in the vector of"):
        similarity.word_similarity(vectors, WORDS, gold)


@pytest.mark.parametrize(
    "text",
    [
        "tiger\tcat\t7.35\nbook\tpaper\t7.46\n",
        "Word 1,Word 2,Human (mean)\ntiger,cat,7.35\nbook,paper,7.46\n",
        "# a remark\ntiger cat 7.35\n\nbook paper 7.46 extra columns 1 2",
        "word1\tword2\tPOS\tSimLex999\tconc(w1)\ntiger\tcat\tN\t7.35\t2.7\nbook\tpaper\tN\t7.46\t2.8\r\n",
        "\ufefftiger;cat;7.35\nbook;paper;7.46",
    ],
)
def test_files_of_any_layout(tmp_path, text):
    path = tmp_path / "pairs.txt"
    path.write_text(text, encoding="utf-8")
    assert word_pairs.read_pairs(path) == [("tiger", "cat", 7.35), ("book", "paper", 7.46)]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"tiger cat 7\nbroken line\n", 'got "broken line" on line 2'),
        (b"tiger cat 7\na b nan\n", 'got "a b nan" on line 2'),
        (b"tiger cat 7\na b " + b"1" * 5000, "on line 2"),
        (b"\xff\xfe\x00", "text in UTF-8; got other bytes at offset 0"),
        (b"\n# nothing\n", "got none in"),
        (b"header only\n", "got none in"),
    ],
)
def test_hostile_files(tmp_path, content, message):
    path = tmp_path / "pairs.txt"
    path.write_bytes(content)
    with pytest.raises(FormatError, match=message):
        word_pairs.read_pairs(path)


def test_large_and_missing_files(tmp_path, monkeypatch):
    monkeypatch.setattr(word_pairs, "_MOST_BYTES", 1 << 20)
    (tmp_path / "big").write_bytes(b"a b 1\n" * 200_000)
    with pytest.raises(FormatError, match="at most 1 MiB; got a larger one"):
        word_pairs.read_pairs(tmp_path / "big")
    with pytest.raises(MissingFileError, match="got no file at"):
        word_pairs.read_pairs(tmp_path / "nowhere")


NAMES = [
    "EN-SIMLEX-999.txt",
    "EN-MEN-TR-3k.txt",
    "EN-WS-353-ALL.txt",
    "EN-WS-353-SIM.txt",
    "EN-WS-353-REL.txt",
    "EN-RW-STANFORD.txt",
]


def test_article_and_code_average_over_different_sets(tmp_path, vectors):
    random = np.random.default_rng(2)
    for name in NAMES:
        lines = [f"w{a}\tw{b}\t{random.random()}" for a, b in random.integers(0, 40, (30, 2))]
        (tmp_path / name).write_text("\n".join(lines))
    article = similarity.mean_word_similarity(vectors, WORDS, tmp_path)
    code = similarity.mean_word_similarity(vectors, WORDS, str(tmp_path), sets="code")
    assert set(article.scores) == {"SimLex", "MEN", "WordSim-353", "Rare Words"}
    assert set(code.scores) == {"MEN", "Rare Words", "SimLex", "WS-sim", "WS-rel"}
    assert article.value == pytest.approx(100 * np.mean([each.value for each in article.scores.values()]))
    errors = [each.standard_error for each in code.scores.values()]
    assert code.standard_error == pytest.approx(100 * np.linalg.norm(errors) / 5)
    assert word_pairs.similarity_files(tmp_path)["WordSim-353"].name == "EN-WS-353-ALL.txt"
    (tmp_path / "EN-RW-STANFORD.txt").unlink()
    with pytest.raises(MissingFileError, match="a file of Rare Words"):
        similarity.mean_word_similarity(vectors, WORDS, tmp_path)
    with pytest.raises(UnknownNameError, match='one of "article", "code"; got "both"'):
        word_pairs.similarity_files(tmp_path, "both")
    with pytest.raises(MissingFileError, match="got no folder at"):
        word_pairs.similarity_files(tmp_path / "nowhere")
    with pytest.raises(InputError, match="at least one set of word pairs; got none"):
        similarity.mean_word_similarity(vectors, WORDS, {})
    with pytest.raises(UndefinedMeasureError, match="mine: word_similarity needs at least three pairs"):
        similarity.mean_word_similarity(vectors, WORDS, {"mine": [("w1", "w2", 1.0)]})


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_coupled_adam_set(vectors, gold, dtype):
    E = (vectors + 0.3).astype(dtype)
    counts = np.arange(1, 41)
    found = similarity.coupled_adam_set(E, frequencies=counts, words=WORDS, files={"mine": gold}, signs="eigh")
    wide = E.astype(np.float64)
    # as the paper writes it: H × V, eigenvectors of E Eᵀ
    X = wide.T
    axes = np.linalg.eigh(X @ X.T)[1]
    z = np.exp(axes.T @ X).sum(1)
    assert found.isotropy == pytest.approx(z.min() / z.max(), rel=1e-9)
    lengths = np.linalg.norm(wide, axis=1)
    assert found.mean_norm == pytest.approx(lengths.mean())
    assert found.mean_vector_norm == pytest.approx(np.linalg.norm(wide.mean(0)))
    assert found.mean_norm_ratio == pytest.approx(np.linalg.norm(wide.mean(0)) / lengths.mean())
    assert found.kappa == pytest.approx(100 / np.linalg.cond(wide), rel=1e-10)
    assert found.rho == pytest.approx(100 * np.corrcoef(lengths, counts / counts.sum())[0, 1], rel=1e-9)
    assert found.mean_similarity is not None
    assert found.mean_similarity.value == pytest.approx(100 * similarity.word_similarity(E, WORDS, gold).value)
    alone = similarity.coupled_adam_set(E)
    assert (alone.rho, alone.mean_similarity) == (None, None)
    assert alone.isotropy <= found.isotropy
    with pytest.raises(UndefinedMeasureError, match="needs at least one non-zero row"):
        similarity.coupled_adam_set(np.zeros((4, 3)))
