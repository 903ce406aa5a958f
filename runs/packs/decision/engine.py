"""The language model that an operator may configure for decision runs: its address and key, its tokens' price."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from dpp_project.outbound.exchanging import OutboundRequest
from runs.packs.pack import Reach

BASE_URL: Final = "DPP_LLM_BASE_URL"
API_KEY: Final = "DPP_LLM_API_KEY"
MODEL: Final = "DPP_LLM_MODEL"
INPUT_PRICE: Final = "DPP_LLM_INPUT_MICROS_PER_1K"
OUTPUT_PRICE: Final = "DPP_LLM_OUTPUT_MICROS_PER_1K"
NAMES: Final = (MODEL, INPUT_PRICE, OUTPUT_PRICE)
"""What a job reads. The address it only knows to be there, and the key never."""


@dataclass(frozen=True, kw_only=True)
class AnswerEngine:
    model: str
    input_micros_per_1k: int
    output_micros_per_1k: int

    @property
    def price_version(self) -> str:
        """These are the operator's prices, so a change of them is another version; older ones are kept nowhere."""
        return f"{self.model} {self.input_micros_per_1k} {self.output_micros_per_1k}"

    def cost_micros(self, *, tokens_in: int, tokens_out: int) -> int:
        """Rounded up: a part of a micro is a micro."""
        return -(-(tokens_in * self.input_micros_per_1k + tokens_out * self.output_micros_per_1k) // 1_000)

    def affordable_tokens(self, *, tokens_in: int, micros: int) -> int | None:
        """The most output tokens the hold pays for after so many input tokens; None for no limit."""
        left = micros * 1_000 - tokens_in * self.input_micros_per_1k
        if left < 0:
            return 0
        return None if self.output_micros_per_1k == 0 else left // self.output_micros_per_1k


def read_answer_engine(environ: Mapping[str, str]) -> AnswerEngine | None:
    """The configured engine; None where it is absent or incomplete (see `engine_faults`)."""
    if not environ.get(BASE_URL) or engine_faults(environ):
        return None
    return AnswerEngine(
        model=environ[MODEL],
        input_micros_per_1k=int(environ[INPUT_PRICE]),
        output_micros_per_1k=int(environ[OUTPUT_PRICE]),
    )


def engine_reach(environ: Mapping[str, str]) -> Reach | None:
    """At the worker: where jobs' questions go, with the operator's key."""
    if read_answer_engine(environ) is None:
        return None
    key = environ.get(API_KEY)
    return Reach(
        asks=OutboundRequest(
            url=environ[BASE_URL].rstrip("/") + "/chat/completions",
            headers=[
                ("content-type", "application/json"),
                ("accept", "application/json"),
                *([("authorization", f"Bearer {key}")] if key else []),
            ],
        )
    )


def engine_faults(environ: Mapping[str, str]) -> list[str]:
    """The settings that are missing beside an address: tokens without a price would be given away."""
    if not environ.get(BASE_URL):
        return []
    found = [
        f"{name} is not set, and {BASE_URL} is" for name in (MODEL, INPUT_PRICE, OUTPUT_PRICE) if not environ.get(name)
    ]
    found += [
        f"{name} is no whole number" for name in (INPUT_PRICE, OUTPUT_PRICE) if not environ.get(name, "0").isdecimal()
    ]
    if urlsplit(environ[BASE_URL]).scheme not in {"http", "https"}:
        found.append(f"{BASE_URL} is no http or https address")
    return found
