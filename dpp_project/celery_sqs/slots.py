"""The pool of a worker: slots, which are threads of one process, and Celery's own books on its loop alone.

Celery's thread pool would lose work in four ways, each seen with Celery 5.7:

- A task that raises what is no Exception (SystemExit) comes back as a success of another form: Celery cannot unpack it,
  the error is lost in a future, and the message is neither acknowledged nor rejected. Its slot is gone for good.
- Its stop waits for all threads in one call. Nothing acknowledges meanwhile, so a message whose run ended early in a
  drain becomes visible again before the drain is over.
- It gives the event loop no descriptor. kombu polls only where there is one and else sleeps up to 0.1 s, deaf to other
  threads: 27 tasks a second. The bell below is that descriptor.
- Its threads change Celery's sets of requests while the loop reads them.

Here a slot only carries out, and says on the bell how it ended; the loop then calls Celery back. While the pool stops
the loop does not run, and `on_stop` takes its place until the last slot has ended.

Nothing can end a thread from outside. So Celery's time limits are not offered (a pack's limits are its box's), and
where Celery means to kill a task (SIGQUIT, a second Ctrl-C) the process is killed: what it held is left to recovery.
"""

import logging
import os
import queue
import signal
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from billiard.einfo import ExceptionInfo
from celery.concurrency.base import BasePool
from celery.concurrency.prefork import _run_ready_callbacks  # type: ignore[attr-defined]  # its stubs know a part of it
from celery.worker import state
from kombu.asynchronous import Hub, get_event_loop

from dpp_project.processes import process_tree

log = logging.getLogger("dpp.sqs")

DRAIN_LOOK_SECONDS: Final = 0.1
"""While the pool stops: how often the loop's timers, which send deletes, are looked at."""


class TaskRaised(Exception):  # noqa: N818  named for the finding
    """A task raised what is no Exception. Celery takes a SystemExit for a lost process; here the task has failed."""


@dataclass(frozen=True, slots=True)
class _Task:
    target: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    succeeded: Callable[[Any], Any]
    failed: Callable[[ExceptionInfo], Any]


_Ending = tuple[Callable[[Any], Any], Any]


class TaskPool(BasePool):
    """`limit` slots. All methods are called on the loop's thread; those ending in `_in_slot` in a slot's."""

    body_can_be_buffer = True
    signal_safe = False
    weigh_seconds = 10.0

    def on_start(self) -> None:
        self._tasks: queue.SimpleQueue[_Task | None] = queue.SimpleQueue()
        self._endings: queue.SimpleQueue[_Ending] = queue.SimpleQueue()
        self._open = 0  # tasks that were taken and whose end Celery has not been told
        self._bell, self._button = socket.socketpair()
        for one in (self._bell, self._button):
            one.setblocking(False)
        self._slots = [
            threading.Thread(target=self._serve_in_slot, name=f"slot-{number}", daemon=True)
            for number in range(self.limit)
        ]
        for slot in self._slots:
            slot.start()

    def register_with_event_loop(self, loop: Hub) -> None:
        loop.add_reader(self._bell, self._hear)
        loop.call_repeatedly(self.weigh_seconds, self._end_if_grown)

    def on_apply(  # noqa: PLR0917  Celery's
        self,
        target: Callable[..., Any],
        args: Any = (),
        kwargs: Any = None,
        callback: Any = None,
        accept_callback: Any = None,
        error_callback: Any = None,
        **_: Any,
    ) -> None:
        if accept_callback is not None:
            accept_callback(os.getpid(), time.monotonic())
        self._open += 1
        self._tasks.put(_Task(target, tuple(args), kwargs or {}, callback, error_callback))

    # In the slots.

    def _serve_in_slot(self) -> None:
        while (task := self._tasks.get()) is not None:
            self._endings.put(_carried_out_in_slot(task))
            with suppress(BlockingIOError):  # a full bell rings already
                self._button.send(b"\0")

    # On the loop.

    def _hear(self) -> None:
        with suppress(BlockingIOError):
            self._bell.recv(4096)
        with suppress(queue.Empty):
            while True:
                self._tell(self._endings.get_nowait())

    def _tell(self, ending: _Ending) -> None:
        callback, found = ending
        self._open -= 1
        try:
            callback(found)
        except Exception as error:  # the worker goes on to the next
            log.exception("a task's end could not be handled, its message will repeat", exc_info=error)

    def _end_if_grown(self) -> None:
        """Drain and leave, as on SIGTERM; the supervisor starts a small one. A second signal in a drain would kill."""
        most_kib = self.options.get("max_memory_per_child")
        private = process_tree.process_memory().private
        if most_kib and private > most_kib * 1024 and self.active and state.should_stop is None:
            log.warning("worker has grown to %d MB and drains to be started anew", private // 1_000_000)
            self.close()
            os.kill(os.getpid(), signal.SIGTERM)

    # Ending.

    def on_stop(self) -> None:
        """Wait for what runs, and acknowledge as it ends. What no slot has begun stays so: its message goes back."""
        with suppress(queue.Empty):
            while True:
                self._tasks.get_nowait()
                self._open -= 1
        for _ in self._slots:
            self._tasks.put(None)
        hub = get_event_loop()
        while self._open:
            with suppress(queue.Empty):
                self._tell(self._endings.get(timeout=DRAIN_LOOK_SECONDS))
            if hub is not None:
                _run_ready_callbacks(hub)  # acknowledgements only: Celery's prefork pool drains by it
                hub.fire_timers()
        for slot in self._slots:
            slot.join()
        self._slots = []
        if hub is not None:
            hub.remove_reader(self._bell)
        for one in (self._bell, self._button):
            one.close()

    def terminate_job(self, pid: int, signal: Any = None) -> None:  # noqa: ARG002  Celery's
        kill_this_process()

    @property
    def num_processes(self) -> int:
        return 1


def kill_this_process() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _carried_out_in_slot(task: _Task) -> _Ending:
    try:
        return task.succeeded, _ordinarily(task)
    except Exception:  # noqa: BLE001  Celery decides what becomes of it
        return task.failed, ExceptionInfo()


def _ordinarily(task: _Task) -> Any:
    try:
        return task.target(*task.args, **task.kwargs)
    except Exception:
        raise
    except BaseException as error:
        raise TaskRaised(type(error).__name__) from error
