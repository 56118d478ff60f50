"""As much of JSON Schema as the shipped schema uses."""

from __future__ import annotations

import re
from typing import Any

_TYPES = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "null": type(None),
    "integer": int,
    "number": (int, float),
}
_KNOWN = {
    "$schema",
    "$id",
    "$defs",
    "title",
    "description",
    "type",
    "required",
    "properties",
    "additionalProperties",
    "items",
    "enum",
    "pattern",
    "minimum",
    "$ref",
}


def problems(value: Any, schema: Any, root: Any, at: str = "$") -> list[str]:
    """What of `value` breaks `schema`, as lines that say where."""
    assert schema.keys() <= _KNOWN, schema.keys() - _KNOWN
    if "$ref" in schema:
        return problems(value, root["$defs"][schema["$ref"].rpartition("/")[2]], root, at)
    found = []
    names = schema.get("type", [])
    names = [names] if isinstance(names, str) else names
    if names and not any(_is(value, name) for name in names):
        return [f"{at} needs {names}; got {value!r}"]
    if "enum" in schema and value not in schema["enum"]:
        found.append(f"{at} needs one of {schema['enum']}; got {value!r}")
    if "pattern" in schema and not re.search(schema["pattern"], value):
        found.append(f"{at} needs {schema['pattern']}; got {value!r}")
    if "minimum" in schema and value < schema["minimum"]:
        found.append(f"{at} needs at least {schema['minimum']}; got {value!r}")
    if isinstance(value, dict):
        found += [f"{at} lacks {key}" for key in schema.get("required", ()) if key not in value]
        rest = schema.get("additionalProperties", {})
        for key, each in value.items():
            inner = schema.get("properties", {}).get(key, rest)
            found += [f"{at} has an unknown {key}"] if inner is False else problems(each, inner, root, f"{at}.{key}")
    if isinstance(value, list) and "items" in schema:
        found += [
            line for index, each in enumerate(value) for line in problems(each, schema["items"], root, f"{at}[{index}]")
        ]
    return found


def _is(value: Any, name: str) -> bool:
    if isinstance(value, bool):
        return name == "boolean"
    return isinstance(value, _TYPES[name])
