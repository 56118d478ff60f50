"""The list of all measures by name, with their aliases."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from fullspan.errors import UnknownNameError, did_you_mean
from fullspan.measures import _entries_cloud, _entries_maps, _entries_pairs, _entries_rows, _entries_spectrum
from fullspan.measures.entry import Measure
from fullspan.measures.null import Null

__all__ = ["ALIASES", "CATALOG", "Measure", "Null", "get", "names"]

_FAMILIES = ("sparsity", "spectrum", "isotropy", "norms", "frequency", "neighbors", "drift", "similarity")
_LISTS = (_entries_rows, _entries_spectrum, _entries_cloud, _entries_pairs, _entries_maps)

#: Every measure by name, by family, in the order of a report.
CATALOG: Mapping[str, Measure] = MappingProxyType(
    {entry.name: entry for family in _FAMILIES for part in _LISTS for entry in part.ENTRIES if entry.family == family}
)

#: Short names that people and papers use, where only one measure can be meant.
ALIASES: Mapping[str, str] = MappingProxyType(
    {
        "ia": "information_abundance",
        "iso": "isotropy",
        "isoscore": "iso_score",
        "isoscore_star": "iso_score_star",
        "hoyer": "hoyer_sparsity",
        "erank": "effective_rank",
        "pr": "participation_ratio",
        "kappa": "inverse_condition_number",
        "rho": "length_frequency_correlation",
        "anisotropy": "average_cosine",
        "hubness": "hubness_skew",
        "two_nn": "two_nn_dimension",
        "twonn": "two_nn_dimension",
        "alpha": "alpha_req",
        "cka": "linear_cka",
        "procrustes": "procrustes_distance",
        "fid": "frechet_distance",
        "rank": "numerical_rank",
        "near_duplicates": "near_duplicate_share",
        "rogue_dimensions": "rogue_dimension_share",
    }
)


def names() -> tuple[str, ...]:
    """Names of all measures, in the order of a report.

    Examples
    --------
    >>> names()[:3]
    ('gini_index', 'vector_entropy', 'hoyer_sparsity')
    """
    return tuple(CATALOG)


def get(name: str) -> Measure:
    """The measure of that name or alias; hyphens, spaces and capitals do not matter.

    Parameters
    ----------
    name
        Such as ``"information_abundance"``, ``"iso"`` or ``"IsoScore"``.

    Returns
    -------
    Measure
        Its catalog entry.

    Raises
    ------
    UnknownNameError
        No measure has that name.

    Examples
    --------
    >>> get("iso").name
    'isotropy'
    """
    if type(name) is str and name in CATALOG:
        return CATALOG[name]
    plain = str(name).strip().lower().replace("-", "_").replace(" ", "_")
    found = CATALOG.get(ALIASES.get(plain, plain))
    if found is None:
        raise UnknownNameError(
            f'No measure is named "{name}".{did_you_mean(plain, CATALOG)} `fullspan measures` lists all of them.'
        )
    return found
