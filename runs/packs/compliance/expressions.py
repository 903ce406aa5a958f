"""Expression rules in CEL, by Google's own engine.

It has a type checker, counts characters and not bytes, stops at 10,000 steps of its macros and at a depth of 32, and
its `matches` is RE2.
"""

from functools import cache
from typing import Any, Final, Literal

from cel_expr_python import cel
from pydantic import JsonValue

LENGTH_MAX: Final = 2_000
Subject = Literal["text", "document", "event"]
"""`event`: of an automation, whose rules are filtered by the same engine."""


class ExpressionRefused(ValueError):  # noqa: N818  a refusal is named for what was refused
    """Not an expression of type bool; the message tells the caller why."""


@cache
def _cel_environment(subject: Subject) -> Any:
    types = {"text": cel.Type.STRING, "document": cel.Type.DYN, "event": cel.Type.DYN}
    return cel.NewEnv(variables={subject: types[subject]})


def compiled_expression(expression: str, subject: Subject) -> Any:
    """Compile it for the subject that was sent; the other names are unknown to it."""
    try:
        made = _cel_environment(subject).compile(expression)
    except RuntimeError as refused:
        raise ExpressionRefused(_why_expression_is_refused(str(refused))) from None
    if made.return_type() not in (cel.Type.BOOL, cel.Type.DYN):
        raise ExpressionRefused("the expression does not answer true or false")
    return made


def _why_expression_is_refused(said: str) -> str:
    """`INVALID_ARGUMENT: ERROR: <input>:1:5: found no ...` and a drawing: the place and the reason."""
    if "recursion" in said:
        return "the expression is nested too deeply"
    first = said.split("\n", 1)[0]
    place, found, reason = first.partition("<input>:")[2].partition(": ")
    line, _, column = place.partition(":")
    return f"line {line}, column {column}: {reason[:200]}" if found else "not an expression of CEL"


def expression_holds(expression: str, *, subject: Subject, value: JsonValue) -> JsonValue:
    """True, False, or the class of its error, such as NOT_FOUND. Never the message, which may quote the document."""
    try:
        answer = compiled_expression(expression, subject).eval(data={subject: value})
    except RuntimeError as stopped:  # its budget of steps, for one
        return _class_of(str(stopped))
    if answer.type() == cel.Type.BOOL:
        return bool(answer.value())
    return _class_of(str(answer.value())) if answer.type() == cel.Type.ERROR else "NOT_A_BOOLEAN"


def _class_of(said: str) -> str:
    name = said.split(":", 1)[0]
    return name if name.replace("_", "").isalpha() and name.isupper() and len(name) <= 32 else "ERROR"
