"""MCP over stdio: lines of JSON-RPC on standard input are carried to `/mcp` of the API, and its answers come back.

Standard library alone: neither Django nor the SDK, no database, no settings. It needs DPP_API_URL and DPP_API_KEY,
which people have. What it adds is one thing that only a program on their machine can do: `input_files` of
dpp_ocr_run_submit may be local paths, which it uploads. The same file is uploaded once while it runs, so that a
repeated call is the same purchase.

`manage.py mcp` runs it, and so may any other command: `bridge.main()`.
"""

import argparse
import base64
import hashlib
import http.client
import json
import os
import re
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, Final
from urllib.parse import unquote, urlsplit

LINE_BYTES_MAX: Final = 1_048_576
CALLS_AT_ONCE: Final = 16
SECONDS: Final = 90.0
"""For one answer; a call may wait 45 s for a run."""
LAST_SECONDS: Final = 5.0
"""For calls that are on their way when the client has closed its end."""
UPLOAD_TOOL: Final = "dpp_ocr_run_submit"
_VERSION: Final = "io.modelcontextprotocol/protocolVersion"
_NAMED: Final = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
_PARSE_ERROR: Final = -32_700
_SERVER_ERROR: Final = -32_000
_TYPES: Final = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".webp": "image/webp",
    ".bmp": "image/bmp",
    ".tif": "image/tiff",
    ".tiff": "image/tiff",
    ".pdf": "application/pdf",
}


class BridgeRefused(Exception):  # noqa: N818  an answer, first of all
    """What the API, or this machine, says no to."""

    def __init__(self, reason_code: str, detail: str, *, retry_after: str | None = None) -> None:
        super().__init__(detail)
        self.reason_code = reason_code
        self.detail = detail
        self.retry_after = retry_after


class Api:
    """One request at a time on a connection of its own; nothing is repeated here, for the caller knows its key."""

    def __init__(self, url: str, key: str) -> None:
        parts = urlsplit(url.rstrip("/"))
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("DPP_API_URL must be a URL such as https://dpp.example")
        self._base = parts.path
        self._origin = f"{parts.scheme}://{parts.netloc}"
        self._key = key

    def post(self, path: str, body: bytes, headers: Mapping[str, str]) -> tuple[int, Mapping[str, str], bytes]:
        ours = {"Authorization": f"Bearer {self._key}", "Content-Type": "application/json"}
        return send("POST", self._origin + self._base + path, body, {**ours, **headers})


def send(method: str, url: str, body: bytes, headers: Mapping[str, str]) -> tuple[int, Mapping[str, str], bytes]:
    """Raises OSError or HTTPException: then it is open whether the request was heard."""
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=SECONDS)
    try:
        target = parts.path + (f"?{parts.query}" if parts.query else "")
        connection.request(method, target, body, dict(headers))
        response = connection.getresponse()
        return response.status, {name.lower(): value for name, value in response.getheaders()}, response.read()
    finally:
        connection.close()


class Uploads:
    """Local files, put where the packs read; by what is in them, so that a file is put there once."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._keys: dict[tuple[str, str], str] = {}
        self._lock = threading.Lock()

    def key_of(self, named: str) -> str:
        """The key of an upload as it is; the one of a local file after it was put there. Raises BridgeRefused."""
        if named.startswith("uploads/"):
            return named
        path = Path(unquote(urlsplit(named).path) if named.startswith("file://") else named).expanduser()
        content_type = _TYPES.get(path.suffix.lower())
        if content_type is None:
            raise BridgeRefused("VALIDATION_FAILED", f"a file must end in one of {', '.join(_TYPES)}")
        try:
            content = path.read_bytes()
        except OSError as error:
            raise BridgeRefused("VALIDATION_FAILED", f"cannot be read: {error.strerror}") from None
        name = re.sub(r"[^A-Za-z0-9._-]", "_", path.name).lstrip(".")[-128:]
        known = (hashlib.sha256(content).hexdigest(), name)
        with self._lock:  # two calls with one file put it there once
            if known not in self._keys:
                self._keys[known] = self._put(name, content_type, content)
            return self._keys[known]

    def _put(self, name: str, content_type: str, content: bytes) -> str:
        asked = {"filename": name, "content_type": content_type, "size_bytes": len(content)}
        status, headers, body = self._api.post("/v1/uploads", json.dumps(asked).encode(), {})
        if status != http.HTTPStatus.CREATED:
            reason, detail = _bridge_reason_and_detail(status, body)
            raise BridgeRefused(reason, detail, retry_after=headers.get("retry-after"))
        room = json.loads(body)
        status, _headers, _body = send(room["method"], room["url"], content, room["headers"])
        if status // 100 != 2:
            raise BridgeRefused("SERVICE_UNAVAILABLE", f"the upload was answered {status}", retry_after="2")
        return str(room["key"])


class Bridge:
    def __init__(self, api: Api, *, lines_in: BinaryIO, lines_out: BinaryIO) -> None:
        self._api = api
        self._uploads = Uploads(api)
        self._in = lines_in
        self._out = lines_out
        self._writing = threading.Lock()
        self._room = threading.Semaphore(CALLS_AT_ONCE)
        self._version: str | None = None

    def run(self) -> None:
        """Until the client closes its end. A call that waits keeps no other from being carried."""
        under_way: list[threading.Thread] = []
        while line := self._in.readline(LINE_BYTES_MAX + 1):
            if len(line) > LINE_BYTES_MAX:
                self._skip_the_rest_of(line)
                self._say(_error(None, _PARSE_ERROR, f"a message is longer than {LINE_BYTES_MAX} bytes"))
                continue
            if not line.strip():
                continue
            try:
                message = json.loads(line)
            except (ValueError, RecursionError):
                self._say(_error(None, _PARSE_ERROR, "a line is one JSON document"))
                continue
            if _method(message) == "initialize":  # its answer names the version of all that follows
                self._carry(message)
                continue
            self._room.acquire()
            thread = threading.Thread(target=self._carry_and_make_room, args=(message,), daemon=True)
            thread.start()
            under_way = [one for one in [*under_way, thread] if one.is_alive()]
        ends = time.monotonic() + LAST_SECONDS
        for thread in under_way:
            thread.join(max(0.0, ends - time.monotonic()))

    def _skip_the_rest_of(self, line: bytes) -> None:
        while line and not line.endswith(b"\n"):
            line = self._in.readline(LINE_BYTES_MAX)

    def _carry_and_make_room(self, message: Any) -> None:
        try:
            self._carry(message)
        finally:
            self._room.release()

    def _carry(self, message: Any) -> None:
        asked = message.get("id") if isinstance(message, dict) else None
        try:
            answer = self._with_local_files(message) or self._answer(message)
        except (OSError, http.client.HTTPException) as error:
            said = f"The API was not reached ({type(error).__name__}). Repeat the same call: it is the same purchase."
            answer = _error(asked, _SERVER_ERROR, said)
        if answer is not None and (asked is not None or not _is_notification(message)):
            self._say(answer)

    def _answer(self, message: Any) -> dict[str, Any] | None:
        body = json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
        status, headers, said = self._api.post("/mcp", body, self._headers(message))
        if not said:
            return None
        try:
            answer = json.loads(said)
        except ValueError:
            answer = None
        asked = message.get("id") if isinstance(message, dict) else None
        if isinstance(answer, dict) and "jsonrpc" in answer:
            if _method(message) == "initialize":
                self._version = answer.get("result", {}).get("protocolVersion", self._version)
            return answer | {"id": asked} if answer.get("id") is None else answer
        reason, detail = _bridge_reason_and_detail(status, said)
        wait = f" Repeat it after {headers['retry-after']} s." if "retry-after" in headers else ""
        return _error(asked, _SERVER_ERROR, f"{reason}: {detail}{wait}")

    def _headers(self, message: Any) -> dict[str, str]:
        """What HTTP says beside the message: version, method and name, as the newest protocol has them."""
        headers = {"Accept": "application/json, text/event-stream"}
        params = message.get("params") if isinstance(message, dict) else None
        params = params if isinstance(params, dict) else {}
        meta = params.get("_meta")
        version = meta.get(_VERSION) if isinstance(meta, dict) else None
        if isinstance(version, str):
            headers["Mcp-Method"] = _bridge_header_value(str(_method(message)))
            name = params.get(_NAMED.get(str(_method(message)), ""))
            if isinstance(name, str):
                headers["Mcp-Name"] = _bridge_header_value(name)
        else:
            version = None if _method(message) == "initialize" else self._version
        return headers if version is None else headers | {"MCP-Protocol-Version": _bridge_header_value(version)}

    def _with_local_files(self, message: Any) -> dict[str, Any] | None:
        """Puts keys in the place of local paths; an answer only where that failed."""
        params = message.get("params") if _method(message) == "tools/call" else None
        arguments = params.get("arguments") if isinstance(params, dict) and params.get("name") == UPLOAD_TOOL else None
        files = arguments.get("input_files") if isinstance(arguments, dict) else None
        if not isinstance(files, list):
            return None
        for place, named in enumerate(files):
            if isinstance(named, str):
                try:
                    files[place] = self._uploads.key_of(named)
                except BridgeRefused as refused:
                    return _bridge_refusal_reply(message.get("id"), f"input_files[{place}]", refused)
        return None

    def _say(self, answer: Mapping[str, Any]) -> None:
        line = json.dumps(answer, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
        with self._writing:
            self._out.write(line + b"\n")
            self._out.flush()


def _method(message: Any) -> Any:
    return message.get("method") if isinstance(message, dict) else None


def _is_notification(message: Any) -> bool:
    return isinstance(message, dict) and "id" not in message


def _bridge_header_value(value: str) -> str:
    if value.isascii() and value.isprintable() and value == value.strip():
        return value
    return f"=?base64?{base64.b64encode(value.encode('utf-8', 'replace')).decode('ascii')}?="


def _error(asked: Any, code: int, said: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": asked, "error": {"code": code, "message": said}}


def _bridge_refusal_reply(asked: Any, field: str, refused: BridgeRefused) -> dict[str, Any]:
    content: dict[str, Any] = {"reason_code": refused.reason_code, "detail": refused.detail, "field": field}
    if refused.retry_after is not None:
        content["retry_after"] = int(refused.retry_after)
    text = {"type": "text", "text": f"{refused.reason_code}: {field}: {refused.detail}"}
    result = {"content": [text], "structuredContent": content, "isError": True, "resultType": "complete"}
    return {"jsonrpc": "2.0", "id": asked, "result": result}


def _bridge_reason_and_detail(status: int, body: bytes) -> tuple[str, str]:
    try:
        document = json.loads(body)
        return str(document["reason_code"]), str(document["detail"])
    except (ValueError, KeyError, TypeError):
        return f"HTTP {status}", "The API did not answer as one."


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="mcp",
        description="DPP's tools for an agent, over stdio. Needs DPP_API_URL and DPP_API_KEY in the environment.",
    )
    parser.parse_args(arguments)
    url, key = os.environ.get("DPP_API_URL", ""), os.environ.get("DPP_API_KEY", "")
    if not key:
        sys.stderr.write("mcp: DPP_API_KEY is not set\n")
        return 2
    try:
        api = Api(url, key)
    except ValueError as error:
        sys.stderr.write(f"mcp: {error}\n")
        return 2
    Bridge(api, lines_in=sys.stdin.buffer, lines_out=sys.stdout.buffer).run()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
