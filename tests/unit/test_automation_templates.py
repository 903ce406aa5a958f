"""Templates insert whole JSON values by path. Nothing is evaluated, and no string is built of a stranger's."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ops.automations.rules import templates
from ops.automations.rules.templates import Rendered, TemplateInvalid

pytestmark = pytest.mark.contract("LIF-12")

EVENT = {"issue": {"title": "It fails", "labels": ["bug", {"name": "p1"}], "a.b": 1, "none": None}}
leaves = st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=8)
documents = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
)


@pytest.mark.parametrize(
    ("template", "made"),
    [
        ({"$": "event.issue.title"}, "It fails"),
        ({"$": "event.issue.labels.1.name"}, "p1"),
        ({"$": "event.issue.labels"}, ["bug", {"name": "p1"}]),
        ({"$": ["event", "issue", "a.b"]}, 1),
        ({"$": "event.issue.none"}, None),
        ({"$": "event.gone", "else": ["x"]}, ["x"]),
        ({"a": [{"$": "event.issue.title"}, "{event.issue.title}"]}, {"a": ["It fails", "{event.issue.title}"]}),
        ("$event", "$event"),
    ],
)
def test_lif_12_a_path_stands_for_its_value(template: Any, made: Any) -> None:
    templates.check_template({"a": template})
    assert templates.render_template(template, {"event": EVENT}) == Rendered(inputs=made)


@pytest.mark.parametrize(
    "path",
    [
        *("event.gone", "event.issue.labels.2", "event.issue.labels.-1", "event.issue.title.0"),
        *("event.issue.labels.x", "event.issue.labels.\u0661", f"event.issue.labels.{'9' * 5_000}"),
    ],
)
def test_lif_12_what_is_not_there_is_named(path: str) -> None:
    found = templates.render_template({"a": {"$": path}, "b": {"$": path}}, {"event": EVENT})
    assert found == Rendered(missing=(path,))
    assert not found.is_whole


@pytest.mark.parametrize(
    ("template", "place"),
    [
        ({"a": {"$": "event.x", "b": 1}}, "inputs.a"),
        ({"a": [{"$": ""}]}, "inputs.a.0"),
        ({"a": {"$": 7}}, "inputs.a"),
        ({"a": {"$": ["event", ""]}}, "inputs.a"),
        ({"a": {"$": "settings.SECRET_KEY"}}, "inputs.a"),
        ({"a": {"$": "event..x"}}, "inputs.a"),
    ],
)
def test_lif_12_what_is_no_template_is_refused_by_its_place(template: Any, place: str) -> None:
    with pytest.raises(TemplateInvalid) as caught:
        templates.check_template(template)
    assert caught.value.place == place


def test_lif_12_a_template_too_deep_is_refused() -> None:
    deep: Any = 1
    for _ in range(templates.DEPTH_MAX + 1):
        deep = [deep]
    with pytest.raises(TemplateInvalid):
        templates.check_template({"a": deep})


@given(documents)
def test_lif_12_whatever_a_stranger_sends_stays_one_value(value: Any) -> None:
    template = {"told": {"$": "event.body"}, "fixed": "x"}
    assert templates.render_template(template, {"event": {"body": value}}).inputs == {"told": value, "fixed": "x"}


def test_lif_12_a_value_is_not_inserted_without_end() -> None:
    body = "x" * 100_000
    template = [{"$": "event.body"} for _ in range(1_000)]
    found = templates.render_template(template, {"event": {"body": body}})
    assert (found.inputs, found.too_large, found.is_whole) == (None, True, False)


def test_lif_12_a_template_says_which_roots_it_names() -> None:
    template = {"a": [{"$": "earlier.0.summary", "else": ""}]}
    assert templates.template_names_root(template, "earlier")
    assert not templates.template_names_root(template, "event")
