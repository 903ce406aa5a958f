"""Faults in what becomes of a report before it is stored, and in which traces are the same fault."""

from typing import Final

from tests.proving.mutants.mutant import In, Mutant

CLEANING: Final = "ops/auth_errors/reports/cleaning.py"
MASKING: Final = "ops/auth_errors/reports/masking.py"
SCANNING: Final = "ops/auth_errors/reports/scanning.py"
V1: Final = "ops/auth_errors/normaliser/v1.py"
VERSIONS: Final = "ops/auth_errors/normaliser/versions.py"

cleaning = In("unit/test_auth_errors_cleaning")
masking = In("unit/test_auth_errors_masking")
grouping = In("unit/test_auth_errors_grouping")

MUTANTS: Final = (
    Mutant(
        "a trace is read before its secrets are masked",
        CLEANING,
        "trace = frames.read_trace(stacktrace, ",
        'trace = frames.read_trace(plain["stacktrace"] or "", ',
        masking("test_aut_01_frames_are_read_from_masked_text"),
    ),
    Mutant(
        "a trace is read after it was cut",
        CLEANING,
        "trace = frames.read_trace(stacktrace, ",
        "trace = frames.read_trace(cut(stacktrace, STACKTRACE_LENGTH_MAX), ",
        cleaning("test_aut_01_frames_are_read_before_the_cut"),
    ),
    Mutant(
        "two secret ids of reports become one",
        CLEANING,
        "return value if value is None or text(name) == value else keyed_hash(value, key)",
        "return text(name)",
        cleaning("test_aut_02_two_ids_that_look_like_secrets_stay_two"),
    ),
    Mutant(
        "a cut goes through the mask of a secret",
        CLEANING,
        "text[end - 1] == text[end] == MASK[0]",
        "text[end - 1] == text[end] == MASK",
        cleaning("test_aut_01_a_cut_parts_no_character_and_no_mask"),
    ),
    Mutant(
        "a mask hides the first of two secrets that overlap, and shows the end of the longer",
        MASKING,
        "done = max(done, end)",
        "done = max(done, end) if start >= done else done",
        masking("test_aut_01_of_two_secrets_that_overlap_both_are_masked"),
    ),
    Mutant(
        "behind the last secret that is looked for others show",
        MASKING,
        "yield start, len(data)\n                return\n            value",
        "return\n            value",
        masking("test_aut_01_more_secrets_than_a_trace_can_have_are_masked_with_all_behind_them"),
    ),
    Mutant(
        "of a deep trace the application's frames are dropped",
        SCANNING,
        "if in_app(language, one)][:FRAMES_MAX]",
        "if not in_app(language, one)][:FRAMES_MAX]",
        grouping("test_aut_10_of_many_frames_the_applications_own_are_kept"),
    ),
    Mutant(
        "a trace is grouped by what was suppressed beside it",
        V1,
        'if one["relation"] != SUPPRESSED]\n    own_only',
        'if one["relation"]]\n    own_only',
        grouping("test_aut_10_what_was_suppressed_beside_the_chain_is_kept_and_moves_nothing"),
    ),
    Mutant(
        "a trace with one frame of a framework is grouped by all of them",
        V1,
        "own_only = any(in_app(language, frame)",
        "own_only = all(in_app(language, frame)",
        grouping("test_aut_10_frames_of_frameworks_count_where_no_others_are"),
    ),
    Mutant(
        "a trace is grouped by how reflection called its methods",
        V1,
        'return frame["module"].startswith(_JAVA_REFLECTION) or _JAVA_LAMBDA',
        "return _JAVA_LAMBDA",
        grouping(
            "test_aut_10_each_fault_has_a_hash_of_its_own_and_its_variants_share_it",
            "test_aut_10_a_golden_trace_keeps_its_hash",
        ),
    ),
    Mutant(
        "a known hash of a trace is linked to its older version again",
        VERSIONS,
        "    if known(own):\n        return Grouping(own, None)\n",
        "",
        grouping("test_aut_10_a_version_looks_at_the_older_one_only_while_its_own_hash_is_unknown"),
    ),
)
