"""Each tool: what it takes, and the request to the REST API that it stands for. Pure; nothing of a protocol is known.

A tool does nothing of its own. Its arguments are checked here, and become one request to the view that answers REST,
so that who may do it, what it costs of the tenant's rate, what is refused and what is stored are the same both ways.
A view's refusal is put into the names that the tool's caller used.
"""

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Annotated, Any, Final, Literal
from urllib.parse import quote

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError

from budget.money import MAX_MICROS, MICROS_PER_USD
from dpp_project.constants import TIMEBOX_SECONDS_DEFAULT, TIMEBOX_SECONDS_MAX
from runs.bucket.uploads import CONTENT_TYPES

WAIT_SECONDS_MAX: Final = 45
"""Below the minute after which clients give a call up."""
INLINE_BYTES_MAX: Final = 8_192
TOOL_USE_ID: Final = "claudecode/toolUseId"
_KEY_FORM: Final = re.compile(r"[\x21-\x7e]{8,64}")
_DECIMALS: Final = 4
_MOST: Final = Decimal(MAX_MICROS) / MICROS_PER_USD

SAME_KEY: Final = (
    "Same purchase, same key: after a timeout repeat the call with the same idempotency_key. "
    "Without one, the same arguments within 10 minutes are the same purchase."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RestRequest:
    """One request to the REST API. `names` says where in it an argument of the tool went, the longest first."""

    route: str
    method: Literal["GET", "POST"]
    path: str
    kwargs: Mapping[str, str] = field(default_factory=dict)
    query: str = ""
    body: Mapping[str, Any] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    names: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the caller said beside the arguments."""

    tool_use_id: str | None = None
    confirmed: bool = False
    can_be_asked: bool = False
    """It can have a person answer a question within the call."""


class Arguments(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


def _checked_mcp_price(value: float) -> float:
    """Judged as it was written: no arithmetic, which has no room for every float."""
    price = Decimal(repr(value))
    if price > _MOST:
        raise PydanticCustomError("amount", "is more than any balance holds")
    exponent = price.as_tuple().exponent
    if isinstance(exponent, int) and exponent < -_DECIMALS:
        raise PydanticCustomError("decimals", "has more than four decimals; round it up")
    return value


PriceUsd = Annotated[
    float,
    Field(ge=0.01, allow_inf_nan=False, description="The most it may cost, US dollars; held at once."),
    AfterValidator(_checked_mcp_price),
]
Timebox = Annotated[int, Field(ge=1, le=TIMEBOX_SECONDS_MAX)]
Score = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


class Purchase(Arguments):
    """What every submit takes beside its own."""

    max_cost_usd: PriceUsd
    timebox_sec: Timebox = TIMEBOX_SECONDS_DEFAULT
    idempotency_key: Annotated[
        str | None, Field(pattern=r"^[!-~]{8,64}$", description="Your name for this purchase.")
    ] = None
    confirm: Annotated[bool, Field(description="A person has agreed to the price.")] = False

    def request(self, pack_type: str, inputs: Mapping[str, Any], *names: tuple[str, str], **beside: Any) -> RestRequest:
        reservation = {
            "max_cost_usd": f"{Decimal(repr(self.max_cost_usd)):.4f}",
            "timebox_sec": self.timebox_sec,
            "min_reliability_score": getattr(self, "min_reliability_score", 0.8),
        }
        body = {"pack_type": pack_type, "inputs": inputs, "reservation": reservation, "options": {"inline": 1}}
        places = (*names, ("header.Idempotency-Key", "idempotency_key"), ("reservation.", ""), ("inputs.", ""))
        return RestRequest(route="runs", method="POST", path="/v1/runs", body=body | beside, names=places)


class UrlRun(Purchase):
    urls: Annotated[list[Annotated[str, Field(json_schema_extra={"format": "uri"})]], Field(max_length=30)]
    min_reliability_score: Score = 0.8

    def rest(self) -> RestRequest:
        return self.request("url", {"urls": self.urls})


class Artifacts(Arguments):
    include_markdown: bool = False
    include_docx: bool = False


class OcrRun(Purchase):
    input_files: Annotated[
        list[str],
        Field(min_length=1, max_length=10, description="Keys of dpp_upload_create; over stdio also local paths."),
    ]
    ocr_profile: Literal["P1", "P2A", "P2B", "P3"] | None = None
    language: str = "kor+eng"
    artifacts: Artifacts | None = None

    def rest(self) -> RestRequest:
        inputs: dict[str, Any] = {"images": [{"key": key} for key in self.input_files], "language": self.language}
        if self.ocr_profile is not None:
            inputs["ocr_profile"] = self.ocr_profile
        beside = {} if self.artifacts is None else {"artifacts": self.artifacts.model_dump()}
        return self.request("ocr", inputs, ("inputs.images", "input_files"), **beside)


class DecisionRun(Purchase):
    question: str
    context: str | None = None
    min_reliability_score: Score = 0.8

    def rest(self) -> RestRequest:
        told = {} if self.context is None else {"context": self.context}
        return self.request("decision", {"question": self.question} | told)


class RunGet(Arguments):
    run_id: str
    wait_seconds: Annotated[
        int, Field(ge=0, le=WAIT_SECONDS_MAX, description="Answer when the run has ended, or after so long.")
    ] = 0

    def rest(self) -> RestRequest:
        query = f"wait={self.wait_seconds}" if self.wait_seconds else ""
        return RestRequest(route="run", method="GET", query=query, **_of_run(self.run_id))


class RunCancel(Arguments):
    run_id: str

    def rest(self) -> RestRequest:
        return RestRequest(route="run-cancel", method="POST", **_of_run(self.run_id, "/cancel"))


class EstimateAsked(Arguments):
    pack_type: str
    inputs: dict[str, Any]

    def rest(self) -> RestRequest:
        body = {"pack_type": self.pack_type, "inputs": self.inputs}
        return RestRequest(route="estimate", method="POST", path="/v1/runs/estimate", body=body)


class BudgetGet(Arguments):
    def rest(self) -> RestRequest:
        return RestRequest(route="budget", method="GET", path="/v1/budget")


class UploadCreate(Arguments):
    filename: str
    content_type: Literal[CONTENT_TYPES]  # type: ignore[valid-type]  # the tuple's own values
    size_bytes: Annotated[int, Field(ge=1)]

    def rest(self) -> RestRequest:
        return RestRequest(route="uploads", method="POST", path="/v1/uploads", body=self.model_dump())


def _of_run(run_id: str, below: str = "") -> dict[str, Any]:
    """In the path it is escaped: a model may call a run anything, and a path holds no more than Latin-1."""
    return {"path": f"/v1/runs/{quote(run_id, safe='')}{below}", "kwargs": {"run_id": run_id}}


def idempotency_headers(arguments: Purchase, asked: Asked) -> dict[str, str]:
    """The caller's key; else the one name of this call that a client keeps when it repeats it; else one derived.

    The id of a JSON-RPC request is no such name: clients count from 1 again.
    """
    if arguments.idempotency_key is not None:
        return {"Idempotency-Key": arguments.idempotency_key}
    if asked.tool_use_id:
        fits = _KEY_FORM.fullmatch(asked.tool_use_id) is not None
        digest = hashlib.sha256(asked.tool_use_id.encode("utf-8", "replace")).hexdigest()
        return {"Idempotency-Key": asked.tool_use_id if fits else f"tool-{digest[:48]}"}
    return {"DPP-Derive-Key": "1"}


def with_headers(asked: RestRequest, headers: Mapping[str, str]) -> RestRequest:
    return replace(asked, headers={**asked.headers, **headers})


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentTool:
    name: str
    arguments: Any
    description: str
    said: Callable[[Mapping[str, Any]], str]
    """One sentence about an answer."""
    changes: bool = True
    ends: bool = False
    repeatable: bool = True
    goes_out: bool = False


def _submitted(answer: Mapping[str, Any]) -> str:
    if answer.get("replayed"):
        hint = answer.get("hint")
        again = f"This purchase stood already as run {answer['run_id']}; nothing more was held."
        return f"{again} {hint}" if hint else again
    held = answer["reservation"]["max_cost_usd"]
    return f"Run {answer['run_id']} is accepted and {held} USD are held; ask dpp_run_get for its result."


def _mcp_run_summary(answer: Mapping[str, Any]) -> str:
    status, used = answer["status"], answer["cost"]["used"]
    if status == "COMPLETED":
        return f"The run is COMPLETED and cost {used} USD; its result is in `result`."
    if status == "FAILED":
        return f"The run FAILED ({answer['result']['reason_code']}) and cost {used} USD."
    return f"The run is {status}; ask again, with wait_seconds."


def _estimated(answer: Mapping[str, Any]) -> str:
    return f"It costs {answer['least_usd']} to {answer['most_usd']} USD; hold at least {answer['smallest_hold_usd']}."


def _mcp_balance_summary(answer: Mapping[str, Any]) -> str:
    return f"{answer['balance_usd']} USD are left to spend."


def _prepared(answer: Mapping[str, Any]) -> str:
    return f"PUT the file to `url` with `headers`, then name it in input_files as {answer['key']}."


TOOLS: Final = {
    tool.name: tool
    for tool in (
        AgentTool(
            name="dpp_url_run_submit",
            arguments=UrlRun,
            description=f"Buy the text of web pages. Answers a receipt at once. {SAME_KEY}",
            said=_submitted,
            goes_out=True,
        ),
        AgentTool(
            name="dpp_ocr_run_submit",
            arguments=OcrRun,
            description=f"Buy the text of pictures and PDFs. Answers a receipt at once. {SAME_KEY}",
            said=_submitted,
            goes_out=True,
        ),
        AgentTool(
            name="dpp_decision_run_submit",
            arguments=DecisionRun,
            description=f"Buy an answer with the evidence it rests on. Answers a receipt at once. {SAME_KEY}",
            said=_submitted,
            goes_out=True,
        ),
        AgentTool(
            name="dpp_run_get",
            arguments=RunGet,
            description="Where a run stands; once it has ended, its result (up to 8 KB here, else address and sha256).",
            said=_mcp_run_summary,
            changes=False,
        ),
        AgentTool(
            name="dpp_run_cancel",
            arguments=RunCancel,
            description="End a run: queued it costs nothing, at work the minimum fee.",
            said=_mcp_run_summary,
            ends=True,
        ),
        AgentTool(
            name="dpp_estimate",
            arguments=EstimateAsked,
            description="What a run of these inputs would cost; holds nothing.",
            said=_estimated,
            changes=False,
        ),
        AgentTool(
            name="dpp_budget_get",
            arguments=BudgetGet,
            description="The tenant's balance, what is held and charged, and its caps.",
            said=_mcp_balance_summary,
            changes=False,
        ),
        AgentTool(
            name="dpp_upload_create",
            arguments=UploadCreate,
            description="An address to PUT one file to, for dpp_ocr_run_submit.",
            said=_prepared,
            repeatable=False,
        ),
    )
}


def input_schema(tool: AgentTool) -> dict[str, Any]:
    """The arguments as JSON Schema, without what pydantic adds to the specified properties."""
    whole = tool.arguments.model_json_schema()
    definitions = whole.get("$defs", {})
    properties = {
        name: _simplified_mcp_schema(name, node, definitions) for name, node in whole.get("properties", {}).items()
    }
    schema = {"type": "object", "properties": properties, "additionalProperties": False}
    return schema | ({"required": whole["required"]} if "required" in whole else {})


def _simplified_mcp_schema(name: str, node: Mapping[str, Any], definitions: Mapping[str, Any]) -> dict[str, Any]:
    for alternative in node.get("anyOf", ()):
        if alternative != {"type": "null"}:
            node = {**{key: value for key, value in node.items() if key != "anyOf"}, **alternative}
            break
    if "$ref" in node:
        parts = definitions[node["$ref"].rpartition("/")[2]]["properties"]
        return {
            "type": "object",
            "properties": {key: _simplified_mcp_schema(key, part, definitions) for key, part in parts.items()},
        }
    left_out = {"title"} if name == "language" else {"title", "default"}
    return {key: value for key, value in node.items() if key not in left_out}


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolAnswer:
    content: dict[str, Any]
    text: str
    is_error: bool = False


def tool_answered(tool: AgentTool, document: Mapping[str, Any], headers: Mapping[str, str]) -> ToolAnswer:
    """What a view answered. A submit's has the receipt, the key it was bought under, and whether it stood before."""
    content = dict(document)
    if issubclass(tool.arguments, Purchase):
        content["replayed"] = headers.get("Idempotent-Replayed") == "true"
        if (key := headers.get("DPP-Derived-Key")) is not None:
            content["idempotency_key"] = key
        if (hint := headers.get("DPP-Derived-Key-Hint")) is not None:
            content["hint"] = hint
    result = content.get("result")
    if isinstance(result, Mapping) and _bytes(result.get("data")) > INLINE_BYTES_MAX:
        content["result"] = {**result, "data": None, "data_omitted": "TOO_LARGE"}
    return ToolAnswer(content=content, text=tool.said(content))


def tool_refused(
    problem: Mapping[str, Any], *, names: tuple[tuple[str, str], ...], retry_after: str | None
) -> ToolAnswer:
    """A problem document in the tool's own words: each field by the name of the argument that it came from."""
    errors = [{"field": _argument(one["field"], names), "detail": one["detail"]} for one in problem.get("errors", ())]
    content: dict[str, Any] = {"reason_code": problem["reason_code"], "detail": problem["detail"]}
    if errors:
        content |= {"field": errors[0]["field"], "errors": errors}
    if retry_after is not None:
        content["retry_after"] = int(retry_after)
    content |= {name: problem[name] for name in ("run_id", "cap", "trace_id") if problem.get(name)}
    said = "; ".join(f"{one['field']}: {one['detail']}" for one in errors) or problem["detail"]
    later = "" if retry_after is None else f" Repeat the same call after {retry_after} s."
    return ToolAnswer(content=content, text=f"{problem['reason_code']}: {said}{later}", is_error=True)


def _argument(place: str, names: tuple[tuple[str, str], ...]) -> str:
    for prefix, name in names:
        if place.startswith(prefix):
            return name + place.removeprefix(prefix).replace(".key", "") if name else place.removeprefix(prefix)
    return place


def _bytes(data: Any) -> int:
    return len(json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace"))
