"""The proxy fails as it is told to: outage tests rest on it."""

import socket
import threading
import time
from collections.abc import Iterator

import pytest

from tests.gear.faults.proxy import Mode, Proxy


@pytest.fixture
def echo() -> Iterator[int]:
    """A server that answers every chunk with itself."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve(one: socket.socket) -> None:
        with one:
            while data := one.recv(65_536):
                one.sendall(data)

    def accept() -> None:
        while True:
            try:
                one, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=_quietly, args=(serve, one), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    yield listener.getsockname()[1]
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()


def _quietly(serve: object, one: socket.socket) -> None:
    try:
        serve(one)  # type: ignore[operator]
    except OSError:
        return


@pytest.fixture
def proxy(echo: int) -> Iterator[Proxy]:
    with Proxy("127.0.0.1", echo) as running:
        yield running


def connect(proxy: Proxy) -> socket.socket:
    return socket.create_connection(("127.0.0.1", proxy.port), timeout=2)


def said(one: socket.socket, data: bytes) -> bytes:
    one.sendall(data)
    return one.recv(65_536)


def test_it_passes_and_counts(proxy: Proxy) -> None:
    with connect(proxy) as one:
        assert said(one, b"hello") == b"hello"
    assert proxy.connections == 1


def test_refused_means_nobody_listens_and_open_connections_end(proxy: Proxy) -> None:
    with connect(proxy) as one:
        assert said(one, b"a") == b"a"
        with proxy.outage(Mode.REFUSE):
            with pytest.raises(ConnectionRefusedError):
                connect(proxy)
            assert _ended(one)
    with connect(proxy) as again:
        assert said(again, b"b") == b"b"


def _is_reset_at_once(proxy: Proxy) -> bool:
    try:
        with connect(proxy) as other:
            return _ended(other)
    except ConnectionResetError:  # the reset may overtake the end of connecting
        return True


def test_reset_means_connecting_works_and_nothing_else(proxy: Proxy) -> None:
    with connect(proxy) as one:
        assert said(one, b"a") == b"a"
        with proxy.outage(Mode.RESET):
            assert _ended(one)
            assert _is_reset_at_once(proxy)


def test_a_black_hole_answers_nothing_ever_on_that_connection(proxy: Proxy) -> None:
    with connect(proxy) as one:
        assert said(one, b"a") == b"a"
        with proxy.outage(Mode.BLACK_HOLE):
            one.settimeout(0.2)
            with pytest.raises(TimeoutError):
                said(one, b"lost")
        with pytest.raises(TimeoutError):
            said(one, b"lost too")
    with connect(proxy) as again:
        assert said(again, b"b") == b"b"


def test_a_delay_is_felt(proxy: Proxy) -> None:
    with connect(proxy) as one:
        proxy.delay(ms=60)
        began = time.monotonic()
        assert said(one, b"a") == b"a"
        assert time.monotonic() - began >= 0.12


def test_a_cut_comes_after_so_many_bytes(proxy: Proxy) -> None:
    with connect(proxy) as one:
        proxy.cut_after(10)
        assert said(one, b"0123456789") == b"0123456789"
        one.sendall(b"x")
        assert _ended(one)
    proxy.cut_after(None)
    with connect(proxy) as again:
        assert said(again, b"b") == b"b"


def _ended(one: socket.socket) -> bool:
    try:
        return one.recv(10) == b""
    except ConnectionError:
        return True
