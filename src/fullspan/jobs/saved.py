"""Read a report that was saved as JSON: bounded, its schema checked, no value trusted."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fullspan.errors import FormatError, InputError, MissingFileError
from fullspan.jobs.results import SCHEMA_VERSION, Report, TableReport, fresh_key
from fullspan.store.records import Finding, Reading, TableRecord

__all__ = ["is_saved_report", "load_report"]

_MOST_BYTES = 256 << 20
_PREFIX = "fullspan-report/"
_HEAD_BYTES = 4096


def is_saved_report(source: Any) -> bool:
    """Whether a source is the path of a JSON file that starts as a report, or a parsed report."""
    if isinstance(source, Mapping):
        return str(source.get("schema", "")).startswith(_PREFIX)
    if not isinstance(source, (str, os.PathLike)):
        return False
    path = Path(os.fspath(source)) if not isinstance(source, bytes) else None
    try:
        if path is None or path.suffix.lower() != ".json" or not path.is_file():
            return False
        with path.open("rb") as file:
            return _PREFIX.encode() in file.read(_HEAD_BYTES)
    except (OSError, ValueError):
        return False


def load_report(source: Any) -> Report:
    """The report saved in a JSON file, or held by a parsed one.

    Parameters
    ----------
    source
        Path of what ``fullspan measure TABLE --json`` wrote, or that as a dict.

    Raises
    ------
    MissingFileError
        No such file.
    FormatError
        Not JSON, not a report, of a version that this build does not read, or with values that a report cannot have.
    """
    if isinstance(source, Mapping):
        return _report("the report", source)
    path = Path(os.fspath(source))
    name = str(path)
    if not path.exists():
        raise MissingFileError(
            f"No report or training run at {name}. Write a report with: fullspan measure TABLE --json > {name}"
        )
    if not path.is_file():
        raise InputError(f"{name}: a report needs to be a regular file; got a directory or a device.")
    if path.stat().st_size > _MOST_BYTES:
        raise FormatError(f"{name}: a report needs to be at most 256 MiB; got {path.stat().st_size:,} bytes.")
    try:
        parsed = json.loads(path.read_text(encoding="utf-8"), parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{name}: a report needs to be JSON; got a mistake: {error}.") from None
    except OSError as error:
        raise InputError(f"{name}: cannot be read: {error.strerror}.") from None
    return _report(name, parsed)


def _refuse(constant: str) -> Any:
    raise ValueError(f"the number {constant}")


def _report(name: str, parsed: Any) -> Report:
    schema = parsed.get("schema") if isinstance(parsed, Mapping) else None
    if not isinstance(schema, str) or not schema.startswith(_PREFIX):
        raise FormatError(f"{name}: a report needs the schema {_PREFIX}{SCHEMA_VERSION}; got {_short(schema)}.")
    if schema.removeprefix(_PREFIX).split(".")[0] != SCHEMA_VERSION.split(".")[0]:
        raise FormatError(
            f"{name}: this build reads reports of schema {_PREFIX}{SCHEMA_VERSION}; got {_short(schema)}. "
            "Measure again, or install the version of fullspan that wrote it."
        )
    tables = parsed.get("tables")
    if not isinstance(tables, list):
        raise FormatError(f"{name}: a report needs a list of tables; got {_short(tables)}.")
    reports: dict[str, TableReport] = {}
    for number, table in enumerate(tables):
        try:
            report = _table(table)
        except (TypeError, ValueError, KeyError, AttributeError) as error:
            raise FormatError(f"{name}: table {number} of the report is not as a report has it: {error}.") from None
        reports[fresh_key(report.table, reports)] = report
    provenance = parsed.get("provenance")
    return Report(reports, provenance if isinstance(provenance, Mapping) else {})


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


def _table(table: Mapping[str, Any]) -> TableReport:
    fields = dict(table)
    findings = tuple(_finding(each) for each in fields.pop("findings", ()))
    fields["readings"] = _readings(fields.get("readings") or {})
    fields["groups"] = {str(key): _readings(each) for key, each in (fields.get("groups") or {}).items()}
    fields["notes"] = tuple(map(str, fields.get("notes") or ()))
    known = {key: value for key, value in fields.items() if key in TableRecord.__dataclass_fields__}
    for key in ("n_rows", "dim", "n_excluded", "passes", "sample_rows", "error_groups"):
        value = known.get(key, 0)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise ValueError(f"{key} needs to be a whole number; got {_short(value)}")
    for key in ("table", "source", "dtype"):
        if not isinstance(known.get(key), str):
            raise ValueError(f"{key} needs to be text; got {_short(known.get(key))}")
    for key in ("hygiene", "profile"):
        if not isinstance(known.get(key, {}), Mapping):
            raise ValueError(f"{key} needs to be an object; got {_short(known[key])}")
    return TableReport(TableRecord(**known), findings)


def _readings(found: Mapping[str, Any]) -> dict[str, Reading]:
    return {str(name): _reading(each) for name, each in found.items()}


def _reading(found: Mapping[str, Any]) -> Reading:
    fields = {key: value for key, value in found.items() if key in Reading.__dataclass_fields__}
    for key in ("value", "standard_error", "null", "null_deviation"):
        value = fields.get(key)
        if value is not None and (isinstance(value, bool) or not isinstance(value, (int, float))):
            raise ValueError(f"{key} of a reading needs to be a number or null; got {_short(value)}")
        if value is not None and not math.isfinite(value):
            raise ValueError(f"{key} of a reading needs to be finite; got {value}")
        if value is not None and value < 0 and key in ("standard_error", "null_deviation"):
            raise ValueError(f"{key} of a reading needs to be 0 or more; got {value}")
    return Reading(**fields)


def _finding(found: Mapping[str, Any]) -> Finding:
    fields = {key: value for key, value in found.items() if key in Finding.__dataclass_fields__}
    if fields.get("severity") not in ("note", "warn", "fail"):
        raise ValueError(f"severity of a finding needs to be note, warn or fail; got {_short(fields.get('severity'))}")
    fields["evidence"] = tuple(fields.get("evidence") or ())
    return Finding(**fields)
