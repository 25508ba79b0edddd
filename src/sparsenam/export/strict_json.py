"""JSON from files that nobody vouches for: no deep nesting, no double keys, no numbers that are none."""

from __future__ import annotations

import json
import re
from typing import Any, cast

import numpy as np

from sparsenam.export.checks import require
from sparsenam.export.problems import RefusalError

DEEPEST = 32
STRINGS = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)


def parse(text: str) -> Any:
    """Return what the text says; raise `RefusalError` unless it is plain JSON of moderate depth."""
    require(depth_of(text) <= DEEPEST, f"a header nested more than {DEEPEST} deep")
    try:
        return json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_without_doubles)
    except (ValueError, RecursionError) as error:
        raise RefusalError(f"a header that is not JSON ({error})") from error


def parse_object(text: str) -> dict[str, Any]:
    """Return the JSON object that the text says."""
    value = parse(text)
    require(isinstance(value, dict), "a header that is not a JSON object")
    return cast("dict[str, Any]", value)


def write(value: object) -> str:
    """Return the value as JSON, the same text for the same value."""
    return json.dumps(value, allow_nan=False, separators=(",", ":"))


def depth_of(text: str) -> int:
    """Return how deep brackets are nested outside of strings."""
    characters = np.frombuffer(STRINGS.sub("", text).encode("utf-8", "replace"), dtype=np.uint8)
    opening = np.isin(characters, list(b"[{")).astype(np.int64)
    return int(np.cumsum(opening - np.isin(characters, list(b"]}"))).max(initial=0))


def _refuse_constant(word: str) -> float:
    raise ValueError(f"{word} is no number")


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("one key twice")
    return found
