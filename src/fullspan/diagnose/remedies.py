"""What probably caused a finding, what to do about it, and how to see that it helped.

The code of a remedy is NumPy: it runs as printed on the table ``E``, an array of shape ``(n_rows, dim)``, and leaves
the repaired table in ``E``.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Remedy"]

_SAVE = 'np.save("repaired.npy", E)'


@dataclass(frozen=True)
class Remedy:
    """Cause, advice and code of one finding.

    Parameters
    ----------
    cause
        Why a table looks like this, in plain words.
    advice
        What to do, and what it costs.
    code
        NumPy lines that repair a trained table ``E``; empty where only training again helps.
    watch
        What has changed once it is repaired.
    command
        Command that shows it.
    """

    cause: str
    advice: str
    code: str = ""
    watch: str = ""
    command: str = "fullspan measure repaired.npy"

    @property
    def text(self) -> str:
        """The advice, followed by the code when there is some."""
        return f"{self.advice}\n{self.code}\n{_SAVE}" if self.code else self.advice

    @property
    def verify(self) -> str:
        return f"{self.command}: {self.watch}" if self.watch else self.command


def one_point(distinct: bool) -> Remedy:
    cause = (
        "All rows collapsed onto one vector: a training objective that is content with equal rows (no negatives, "
        "a cosine loss with one target), or a learning rate that blew up; or every row shares one huge offset."
    )
    if distinct:
        return Remedy(
            cause,
            "The rows still differ around their mean. Subtract it, and judge what is left by the other measures. In "
            "training, add negatives or a loss that spreads the rows.",
            "E = E.astype(np.float64) - E.mean(axis=0, dtype=np.float64)",
            "average_cosine is near 0, and centered_effective_rank tells how many directions were left.",
        )
    return Remedy(
        cause + " Zero rows throughout are an initialization at zero.",
        "Nothing can be repaired: the rows are equal. Initialize again and train with negatives or a loss that "
        "spreads the "
        "rows, such as torch.nn.init.normal_(embedding.weight, std=0.02) first.",
        watch="complete-collapse is gone.",
        command="fullspan measure NEW_TABLE",
    )


def few_dimensions(used: int) -> Remedy:
    return Remedy(
        "Dimensional collapse: the rows lie near a subspace. Usual in recommenders, where a field of few values or "
        "strong "
        "feature interactions pulls the tables of other fields down to its own rank; and after weight decay on the "
        "embedding, or with a dim far above what the task needs.",
        f"Keep the {used} principal dimensions that carry the variance; the others hold next to nothing. To train "
        "better ones: no weight decay on the embedding (AdamW with weight_decay=0.0 in its own parameter group), "
        "several "
        "smaller tables per field in place of one wide one, or a smaller embedding_dim.",
        f"E = E.astype(np.float64) - E.mean(axis=0, dtype=np.float64)\nE = E @ np.linalg.eigh(E.T @ E)[1][:, -{used}:]",
        "centered_effective_rank is a larger part of its null.",
    )


def one_direction() -> Remedy:
    return Remedy(
        "One principal axis holds most of the variance: often the logarithm of the frequency of a token or item, or a "
        "single strong popularity factor.",
        "Center the table and take the first principal axis out (all-but-the-top, Mu and Viswanath 2018). Keep it "
        "instead "
        "when scores are inner products and popularity is meant to count.",
        "E = E.astype(np.float64) - E.mean(axis=0, dtype=np.float64)\n"
        "axes = np.linalg.eigh(E.T @ E)[1][:, -1:]\n"
        "E = E - E @ axes @ axes.T",
        "top_component_share is near its null.",
    )


def common_offset() -> Remedy:
    return Remedy(
        "Anisotropy by a common offset: all rows share a mean vector. Adam does this to the output embeddings of "
        "language "
        "models, where rare tokens are pushed together by the second moment of their gradients; a ReLU before the "
        "embedding, or a missing bias in the scoring layer, does it too.",
        "Subtract the mean row when rows are compared by cosine or distance: distances stay as they are. In training, "
        "give the scoring layer a bias.",
        "E = E - E.mean(axis=0)",
        "average_cosine is near 0.",
    )


def uneven_directions() -> Remedy:
    return Remedy(
        "Anisotropy of the spectrum: some principal directions are much longer than others. Any table that learned "
        "something has structure like this; how much of it is wanted depends on the use.",
        "Nothing is broken. Where rows are compared by cosine or distance, whitening makes all directions count alike; "
        "it also raises the noise of the weak ones, so compare scores on your task before and after. Do the same to "
        "queries.",
        "E = E.astype(np.float64) - E.mean(axis=0, dtype=np.float64)\n"
        "values, axes = np.linalg.eigh(E.T @ E / len(E))\n"
        "kept = values > 1e-9 * values.max()\n"
        "E = E @ (axes[:, kept] / np.sqrt(values[kept])) @ axes[:, kept].T",
        "participation_ratio and iso_score are near their null.",
    )


def few_rogue_dimensions() -> Remedy:
    return Remedy(
        "A few dimensions with huge values rule cosines and distances: usual in transformers, where layer "
        "normalization "
        "and rare tokens drive single coordinates far out.",
        "Standardize every dimension (Timkey and van Schijndel 2021). It rescales the axes, so do the same to queries.",
        "spread = E.std(axis=0, dtype=np.float64)\n"
        "E = (E - E.mean(axis=0, dtype=np.float64)) / np.where(spread > 0, spread, 1)",
        "no dimension holds more than its share.",
    )


def length_by_frequency(negative: bool) -> Remedy:
    cause = (
        "Rare rows are long and frequent ones short: frequent rows are pulled by many contexts, or decayed more often."
        if negative
        else "Frequent rows are long and rare ones short: the length of a row grew with the number of its updates."
    )
    return Remedy(
        cause,
        "Give all rows length 1 when rows are compared by inner product and frequency should not count. Leave it when "
        "popularity is meant to raise scores.",
        "norms = np.linalg.norm(E, axis=1, keepdims=True)\nE = E / np.where(norms > 0, norms, 1)",
        "mean_norm is 1 and all rows have it.",
        command="fullspan measure repaired.npy --json",
    )


def never_updated(cut: float | None) -> Remedy:
    keep = "E = E[frequencies > 0]" if cut is None else f"E = E[np.linalg.norm(E, axis=1) > {cut:.6g}]"
    how = "whose frequency is zero" if cut is None else "of the short cluster, if they are not known to be trained"
    return Remedy(
        "Rows of the vocabulary that training never or hardly met: unused tokens, padding up to a round size, items "
        "without an interaction. They still have the length they were initialized with.",
        f"Drop the rows {how}, or map them to one row for unknowns; shrink num_embeddings to match.",
        keep,
        "the short rows are gone.",
    )


def zero_rows() -> Remedy:
    return Remedy(
        "Rows of zeros: a padding row (padding_idx of torch.nn.Embedding), ids that were never updated after an "
        "initialization at zero, or rows that failed to be written.",
        "Drop them before searching: their cosine with anything is undefined. One padding row is normal: waive it.",
        "E = E[np.any(E != 0, axis=1)]",
        "dead-rows is gone.",
    )


def repeated_rows() -> Remedy:
    return Remedy(
        "The same row more than once: hash collisions of ids, a default for unknown ids, rows that still equal one "
        "common "
        "initialization, or the same item under two ids.",
        "Keep the first of each. Where equal rows are meant (aliases), keep one and point the ids at it.",
        "E = E[np.sort(np.unique(E, axis=0, return_index=True)[1])]",
        "duplicate-rows is gone.",
    )


def near_copies() -> Remedy:
    return Remedy(
        "Rows that point almost the same way: one item or text under several ids (a reprint, a changed title), rows "
        "that the same few examples trained, or rows that have hardly moved from one common initialization.",
        "Keep the first of each group, or let its ids share one row. Nothing is wrong where near copies are meant.",
        "U = E / np.maximum(np.linalg.norm(E, axis=1, keepdims=True).astype(np.float64), 1e-300)\n"
        "limit = 1 - 1e-4 * (1 - np.square(U.mean(axis=0)).sum())\n"
        "E = E[[not (U[:i] @ U[i] >= limit).any() for i in range(len(U))]]",
        "near-duplicate-rows is gone.",
    )


def idle_columns() -> Remedy:
    return Remedy(
        "Columns that say nothing: constant ones (a dead unit before the embedding, zero padding up to a round dim), "
        "or "
        "columns that repeat another.",
        "Drop constant columns and keep the first of equal ones.",
        "E = E[:, np.any(E != E[:1], axis=0)]\nE = E[:, np.sort(np.unique(E, axis=1, return_index=True)[1])]",
        "dead-columns is gone.",
    )


def not_finite() -> Remedy:
    return Remedy(
        "NaN or infinity: an overflow in half precision, a learning rate that blew up, a division by a zero norm, or "
        "missing values that were read as NaN.",
        "Drop the rows, or fetch them from a checkpoint before the first NaN. In training, clip gradients with "
        "torch.nn.utils.clip_grad_norm_ and scale the loss with torch.amp.GradScaler.",
        "E = E[np.isfinite(E).all(axis=1)]",
        "non-finite is gone.",
    )


def long_rows(limit: float) -> Remedy:
    return Remedy(
        "A few rows far longer than the others: rare rows with large steps (Adam without clipping, a large learning "
        "rate), "
        "popular rows whose length is popularity, or rows written in another unit.",
        f"Shorten rows to at most {limit:.6g}, well above the others; directions stay. In training, "
        f"torch.nn.Embedding(..., max_norm={limit:.3g}) does the same.",
        "norms = np.linalg.norm(E.astype(np.float64), axis=1, keepdims=True)\n"
        f"E = E * np.minimum(1, {limit:.17g} / np.maximum(norms, {limit:.17g}))",
        "the longest row is within reach of the others.",
    )


def large_entry(limit: float) -> Remedy:
    return Remedy(
        "One entry is far larger than the others: a flipped bit, a parsing mistake, or an exploded update.",
        f"Look at the row; clip entries to ±{limit:.6g} if it cannot be fetched again.",
        f"E = np.clip(E, -{limit:.6g}, {limit:.6g})",
        "the largest entry is within reach of the others.",
    )


def hubs() -> Remedy:
    return Remedy(
        "A few rows are neighbors of very many others, and many rows of none: rows near the mean direction of the "
        "table, "
        "in high dimensions or after a popularity bias.",
        "Center the table and give all rows length 1, then search by cosine (Suzuki et al. 2013). Where hubs remain, "
        "they "
        "are rows to look at: the sample behind the reading is stated with it.",
        "E = E.astype(np.float64) - E.mean(axis=0, dtype=np.float64)\n"
        "norms = np.linalg.norm(E, axis=1, keepdims=True)\n"
        "E = E / np.where(norms > 0, norms, 1)",
        "hubness_skew is near its null.",
    )


def too_wide(span: int) -> Remedy:
    return Remedy(
        "The table has fewer rows than dimensions: after centering, the rows span at most n - 1 directions, however "
        "they were trained. Usual for small categorical fields that share one embedding_dim with large ones.",
        "Nothing is broken. A smaller embedding_dim holds the same rows exactly; this keeps all their distances.",
        "E = E.astype(np.float64) - E.mean(axis=0, dtype=np.float64)\n"
        f"E = E @ np.linalg.svd(E, full_matrices=False)[2][:{max(span, 1)}].T",
        "dim is within the span of the rows.",
    )


def coarse_spacing() -> Remedy:
    return Remedy(
        "The rows share an offset so large that the stored numbers around it are too far apart for the differences "
        "between the rows.",
        "Digits that were not stored cannot be had back: export the table again in float32 or float64, after "
        "subtracting "
        "the mean. What is left keeps more digits from now on when centered.",
        "E = (E.astype(np.float64) - E.mean(axis=0, dtype=np.float64)).astype(np.float32)",
        "precision-loss is gone, for what is left.",
    )


def full_range() -> Remedy:
    return Remedy(
        "Entries at the end of the range of the stored type: larger values were cut when the table was written.",
        "Export the table again in float32 or bfloat16, which reach further. Until then leave the cut rows out.",
        "E = E[(np.abs(E) < np.finfo(E.dtype).max).all(axis=1)]",
        "no row is saturated.",
    )


def tiny_numbers() -> Remedy:
    return Remedy(
        "Entries below the smallest normal number of the stored type: they keep few digits, and are slow on some "
        "processors. A scale far below 1, or rows that decayed towards zero.",
        "Scale the table up before it is stored; cosines and all measures without units stay as they are.",
        "E = E.astype(np.float64) / np.abs(E.astype(np.float64)).max()\n"
        "E = (E / np.sqrt(np.mean(E**2))).astype(np.float32)",
        "no row has denormal entries.",
    )


def below_resolution() -> Remedy:
    return Remedy(
        "The smallest directions of the table are smaller than the spacing of its stored type: rounding makes them up.",
        "Export the table again in float32, or keep the dimensions above the rounding only; take smallest singular "
        "values "
        "and condition numbers of this table as bounds.",
        watch="no reading is marked below resolution.",
        command="fullspan measure NEW_TABLE",
    )
