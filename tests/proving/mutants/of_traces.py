"""Faults in the traces that a collector is sent."""

from typing import Final

from tests.proving.mutants.mutant import In, Mutant

MAKER: Final = "dpp_project/observe/span_maker.py"

traces = In("acceptance/test_traces")
ids = In("unit/test_spans")

MUTANTS: Final = (
    Mutant(
        "a caller's flag says whether a trace is sampled",
        MAKER,
        "TraceFlags.SAMPLED if chosen is Decision.RECORD_AND_SAMPLE else TraceFlags.DEFAULT",
        "TraceFlags.DEFAULT",
        traces("test_dpp_85_a_traceparent_gives_trace_and_parent_and_decides_nothing"),
    ),
    Mutant(
        "what an exception says is sent",
        MAKER,
        "Status(StatusCode.ERROR, type(error).__name__)",
        "Status(StatusCode.ERROR, repr(error))",
        traces("test_dpp_85_of_an_exception_its_class_is_sent_and_not_what_it_says"),
    ),
    Mutant(
        "a worker's part of a run is a trace of its own",
        MAKER,
        "SpanKind.CONSUMER, trace_id, parent=parent, facts=facts",
        "SpanKind.CONSUMER, 0, facts=facts",
        traces("test_dpp_85_one_trace_leads_from_the_submit_over_queue_and_box_to_the_end"),
    ),
    Mutant(
        "a run that recovery ends has no end in its trace",
        MAKER,
        '"run finish", SpanKind.INTERNAL, trace_id, parent=parent, facts=facts',
        '"run finish", SpanKind.INTERNAL, 0, facts=facts',
        traces("test_dpp_85_a_run_that_recovery_ends_has_its_end_in_its_trace"),
    ),
    Mutant(
        "a span says by which key, or by which person, a run was ended",
        "dpp_project/observe/spans.py",
        'finisher=actor.partition(":")[0]',
        "finisher=actor",
        traces("test_dpp_85_a_cancel_ends_the_runs_trace_and_is_linked_to_its_own"),
    ),
    Mutant(
        "our own trace ids are hashed as any text",
        "dpp_project/observe/span_ids.py",
        "(int(own[1], 16) if own else 0) or int",
        "int",
        ids("test_dpp_85_our_own_trace_ids_and_those_of_a_traceparent_are_the_traces_as_they_are"),
    ),
)
