"""Experiments that are run whole by one command, and answer for the claims they were made to test."""

from __future__ import annotations

__all__ = ["STUDIES"]

#: Name of a study to what it is about.
STUDIES = {
    "movielens": "How four measures of embedding tables move while a matrix factorization learns MovieLens ratings.",
    "normalization": "Whether normalizing embeddings speeds, steadies and improves training: ten practices tested.",
}
