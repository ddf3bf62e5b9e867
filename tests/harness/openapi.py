"""Whether an answer is what an OpenAPI file promises: the part of JSON Schema that ours uses."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from functools import cache
from typing import Any

from tests.harness import places
from tests.harness.process import PATIENCE_S

#: Keywords that say something to people only.
_FOR_PEOPLE = {"description", "default"}

_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}


@cache
def file() -> dict[str, Any]:
    """Our OpenAPI file."""
    path = places.CHECKOUT / "rust/broker/src/admin_api/openapi.json"
    return dict(json.loads(path.read_text()))


def asked(url: str, method: str, path: str, body: object = None) -> tuple[int, Any]:
    """Ask the admin API at ``url``; the status and the body of its answer.

    What is sent and what comes back are as our file says: a body that the broker takes, its answer
    or its refusal.
    """
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{url}/api/v1{path}", data=data, method=method)
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            status, told = answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            status, told = error.code, json.loads(error.read())
    of = described(method, path)
    if status < 400 and body is not None:
        assert flaws(body, of["requestBody"]["content"]["application/json"]["schema"], file()) == []
    answered = of["responses"].get(str(status)) or of["responses"]["default"]
    assert (status < 400) == (str(status) in of["responses"]), f"{method} {path}: {status}"
    assert flaws(told, answered["content"]["application/json"]["schema"], file()) == []
    return status, told


def described(method: str, path: str) -> dict[str, Any]:
    """What our file says of a path, which may have a query."""
    bare = path.partition("?")[0]
    for template, methods in file()["paths"].items():
        if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", template), bare):
            found: dict[str, Any] = methods[method.lower()]
            return found
    raise AssertionError(f"{bare} is not described")


def flaws(value: Any, schema: dict[str, Any], file: dict[str, Any], at: str = "$") -> list[str]:
    """What of ``value`` is not as ``schema`` of ``file`` says."""
    found = []
    for keyword, wanted in schema.items():
        if keyword in _FOR_PEOPLE:
            continue
        check = _CHECKS.get(keyword)
        # A keyword that is not understood must not pass in silence.
        assert check, f"the schema at {at} has a keyword that is not checked: {keyword}"
        found += check(value, wanted, schema, file, at)
    return found


def _ref(value: Any, name: str, _: Any, file: dict[str, Any], at: str) -> list[str]:
    target: Any = file
    for part in name.removeprefix("#/").split("/"):
        target = target[part]
    return flaws(value, target, file, at)


def _type(value: Any, names: Any, _: Any, __: Any, at: str) -> list[str]:
    wanted = names if isinstance(names, list) else [names]
    is_bool = isinstance(value, bool)
    for name in wanted:
        if isinstance(value, _TYPES[name]) and (not is_bool or name == "boolean"):
            return []
    return [f"{at} is {value!r}, and not {names}"]


def _enum(value: Any, known: list[Any], _: Any, __: Any, at: str) -> list[str]:
    return [] if value in known else [f"{at} is {value!r}, and not one of {known}"]


def _minimum(value: Any, least: float, _: Any, __: Any, at: str) -> list[str]:
    is_low = isinstance(value, (int, float)) and value < least
    return [f"{at} is {value}, which is below {least}"] if is_low else []


def _maximum(value: Any, most: float, _: Any, __: Any, at: str) -> list[str]:
    is_high = isinstance(value, (int, float)) and value > most
    return [f"{at} is {value}, which is above {most}"] if is_high else []


def _properties(
    value: Any, known: dict[str, Any], schema: Any, file: dict[str, Any], at: str
) -> list[str]:
    if not isinstance(value, dict):
        return []
    found = [
        flaw
        for name, of in known.items()
        if name in value
        for flaw in flaws(value[name], of, file, f"{at}.{name}")
    ]
    if schema.get("additionalProperties") is False:
        found += [f"{at}.{name} is not described" for name in value.keys() - known.keys()]
    return found


def _required(value: Any, names: list[str], _: Any, __: Any, at: str) -> list[str]:
    there = value if isinstance(value, dict) else {}
    return [f"{at}.{name} is missing" for name in names if name not in there]


def _items(value: Any, of: dict[str, Any], _: Any, file: dict[str, Any], at: str) -> list[str]:
    items = value if isinstance(value, list) else []
    return [flaw for i, item in enumerate(items) for flaw in flaws(item, of, file, f"{at}[{i}]")]


def _one_of(value: Any, choices: list[Any], _: Any, file: dict[str, Any], at: str) -> list[str]:
    each = [flaws(value, choice, file, at) for choice in choices]
    if sum(not found for found in each) == 1:
        return []
    return [f"{at} fits {sum(not found for found in each)} choices: {each}"]


def _nothing(*_: Any) -> list[str]:
    return []


_CHECKS: dict[str, Any] = {
    "$ref": _ref,
    "type": _type,
    "enum": _enum,
    "minimum": _minimum,
    "maximum": _maximum,
    "properties": _properties,
    "required": _required,
    "items": _items,
    "oneOf": _one_of,
    # With the properties.
    "additionalProperties": _nothing,
}
