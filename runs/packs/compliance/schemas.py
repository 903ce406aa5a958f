"""JSON Schema rules. Nothing is ever fetched, and patterns inside a schema run in linear time."""

from functools import cache
from itertools import islice
from typing import Any, Final, NoReturn

import jsonschema_rs
from pydantic import JsonValue

from runs.packs.shared import regexes

PATTERN_BYTES_MAX: Final = 262_144
PATTERNS_MAX: Final = 100
"""In all schemas of a run. One of the largest size takes 0.6 ms and its bytes to compile, and this is the API."""
MASK: Final = "[masked]"
SAID_MAX: Final = 200


class SchemaRefused(ValueError):  # noqa: N818  a refusal is named for what was refused
    """Not a schema, or one with a remote reference; the message tells the caller why."""


def compiled_schema(schema: dict[str, JsonValue]) -> Any:
    """References are resolved here, so that one which leaves the schema is refused at submit."""
    try:
        return jsonschema_rs.validator_for(
            schema,
            retriever=_refuse_schema_reference,
            mask=MASK,
            validate_formats=True,
            pattern_options=_pattern_options(),
        )
    except (ValueError, jsonschema_rs.ReferencingError) as refused:
        raise SchemaRefused(_why_schema_is_refused(refused)) from None


def count_schema_patterns(schema: JsonValue) -> int:
    """Counted wherever one could stand, which may be too many: in `const`, say."""
    found, waiting = 0, [schema]
    while waiting:
        node = waiting.pop()
        if isinstance(node, list):
            waiting.extend(node)
        elif isinstance(node, dict):
            named = node.get("patternProperties")
            found += ("pattern" in node) + (len(named) if isinstance(named, dict) else 0)
            waiting.extend(node.values())
    return found


@cache
def _pattern_options() -> jsonschema_rs.RegexOptions:
    """The engine without backtracking; a pattern it does not know (lookaround) is refused with its schema."""
    return jsonschema_rs.RegexOptions(size_limit=PATTERN_BYTES_MAX, dfa_size_limit=PATTERN_BYTES_MAX)


def _refuse_schema_reference(_address: str) -> NoReturn:
    raise ValueError("not fetched")


def _why_schema_is_refused(refused: Exception) -> str:
    said = str(refused).split("\n", 1)[0]
    if "retriev" in said or "not fetched" in said or isinstance(refused, jsonschema_rs.ReferencingError):
        return "a $ref leads out of the schema; only references inside it are followed"
    if "meta-schema" in said:
        return "unknown $schema; drafts 4, 6, 7, 2019-09 and 2020-12 are known"
    if said.endswith("does not exist"):
        return f"a $ref leads nowhere: {said[:SAID_MAX]}"
    if said.endswith('"regex"'):
        said = f"a pattern that is none or too large; {regexes.LINEAR}"
    where = "/".join(str(part) for part in getattr(refused, "instance_path", []))
    return f"not a JSON Schema at /{where[:SAID_MAX]}: {said.removeprefix(f'{MASK} ')[:SAID_MAX]}"


def schema_misfits(schema: dict[str, JsonValue], document: JsonValue, *, most: int) -> list[JsonValue]:
    """Where the document does not fit and by which keyword. Never a value: the messages quote them."""
    found = islice(compiled_schema(schema).iter_errors(document), most)
    return [{"path": list(error.instance_path), "keyword": _keyword(error)} for error in found]


def _keyword(error: Any) -> str:
    """The last name of the schema's path; where a schema is just `false`, that name is a property's."""
    if isinstance(error.kind, jsonschema_rs.ValidationErrorKind.FalseSchema):
        return "false"
    return next((part for part in reversed(error.schema_path) if isinstance(part, str)), "schema")
