"""A client's connections to a real server, of which the next answer breaks off after so many bytes of its body."""

from collections.abc import AsyncIterator, Iterator

import httpx2


class Cut:
    """`after` is for one answer; the connections after it are whole."""

    def __init__(self) -> None:
        self.after: int | None = None
        self.skip = 0
        """So many answers before it are whole, too."""
        self.answers = 0

    def take(self) -> int | None:
        self.answers += 1
        if self.skip:
            self.skip -= 1
            return None
        after, self.after = self.after, None
        return after


class CutTransport(httpx2.BaseTransport):
    def __init__(self, cut: Cut) -> None:
        self._cut = cut
        self._real = httpx2.HTTPTransport()

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        response = self._real.handle_request(request)
        if (after := self._cut.take()) is not None:
            assert isinstance(response.stream, httpx2.SyncByteStream)
            response.stream = _CutStream(response.stream, after)
        return response

    def close(self) -> None:
        self._real.close()


class _CutStream(httpx2.SyncByteStream):
    def __init__(self, whole: httpx2.SyncByteStream, after: int) -> None:
        self._whole = whole
        self._left = after

    def __iter__(self) -> Iterator[bytes]:
        for some in self._whole:
            yield some[: self._left]
            self._left -= min(self._left, len(some))
            if not self._left:
                break
        raise httpx2.ReadError("cut by the test")

    def close(self) -> None:
        self._whole.close()


class AsyncCutTransport(httpx2.AsyncBaseTransport):
    def __init__(self, cut: Cut) -> None:
        self._cut = cut
        self._real = httpx2.AsyncHTTPTransport()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await self._real.handle_async_request(request)
        if (after := self._cut.take()) is not None:
            assert isinstance(response.stream, httpx2.AsyncByteStream)
            response.stream = _AsyncCutStream(response.stream, after)
        return response

    async def aclose(self) -> None:
        await self._real.aclose()


class _AsyncCutStream(httpx2.AsyncByteStream):
    def __init__(self, whole: httpx2.AsyncByteStream, after: int) -> None:
        self._whole = whole
        self._left = after

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for some in self._whole:
            yield some[: self._left]
            self._left -= min(self._left, len(some))
            if not self._left:
                break
        raise httpx2.ReadError("cut by the test")

    async def aclose(self) -> None:
        await self._whole.aclose()


class HeldBackTransport(httpx2.BaseTransport):
    """The first request is kept on its way, its sender cut off; it arrives at `let_go`."""

    def __init__(self) -> None:
        self._real = httpx2.HTTPTransport()
        self._kept: httpx2.Request | None = None
        self._is_first = True

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        if self._is_first:
            self._is_first, self._kept = False, request
            raise httpx2.ReadError("cut by the test")
        return self._real.handle_request(request)

    def let_go(self) -> httpx2.Response:
        """What was kept arrives now; its sender never hears the answer."""
        assert self._kept is not None, "nothing was held back"
        response = self._real.handle_request(self._kept)
        response.read()
        return response

    def close(self) -> None:
        self._real.close()
