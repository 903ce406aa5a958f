"""Faults in what stands before Django and reads what a stranger sends."""

from typing import Final

from tests.proving.mutants.mutant import In, Mutant

PARSERS: Final = "dpp_project/http/parsers.py"

SUBMISSION: Final = "runs/submit/submission.py"

metering = In("integration/runs/test_submit_metering")
json_memory = In("unit/test_json_memory")
strict_json = In("unit/test_strict_json")

MUTANTS: Final = (
    Mutant(
        "a body may be nothing but structure",
        PARSERS,
        "    _check_size_in_memory(body)\n",
        "",
        json_memory("test_hrd_09_what_is_little_but_structure_is_refused_before_anything_is_made_of_it"),
    ),
    Mutant(
        "punctuation inside of a text counts as structure",
        PARSERS,
        "_estimate(body) > most and sum(map(_estimate, _without_strings(body))) > most",
        "_estimate(body) > most",
        json_memory("test_hrd_09_punctuation_inside_of_texts_is_no_structure"),
    ),
    Mutant(
        "a surrogate's escape is taken for storable",
        PARSERS,
        'rb"\\\\u(?:0000|[dD][89a-fA-F])"',
        'rb"\\\\u(?:0000)"',
        strict_json("test_text_that_cannot_be_stored_is_refused_by_field"),
    ),
    Mutant(
        "a submit's body is read before it is paid for",
        SUBMISSION,
        "        entry.passed(found.entry, found.money)\n        asked = read()\n",
        "        asked = read()\n        entry.passed(found.entry, found.money)\n",
        metering("test_hrd_12_a_wrong_body_costs_a_token_and_without_one_is_not_parsed"),
    ),
)
