"""The loop that sends messages: claim, send outside any transaction, mark.

    claim    what is due, under a lease of 60 s; a message whose lease ran out is `unclear` from then on
    send     in a thread for each target, one message after the other, in the order in which they were written
    mark     SENT with what the place calls it; put off; doubtful; FAILED

Killed between send and mark, the message comes back unclear. At Slack it is looked up by our id before anything is
posted; at a webhook it goes again under its own webhook-id. What has not arrived after 24 h is FAILED: the
log, a metric, the console and an alarm say so. A thread that is gone makes one alarm at the channel's root.
"""

import random
import threading
import time
from collections.abc import Sequence
from datetime import timedelta
from itertools import groupby
from typing import Final

import structlog
from django.db import connections, transaction

from dpp_project import clock
from dpp_project.refusals import Refusal
from dpp_project.stores.postgres import DATABASE_AWAY, database_now, make_room
from ops.automations import metrics, turning
from ops.automations.messages import message_steps, slack, webhook
from ops.automations.messages.message_steps import MessageClaim
from ops.automations.messages.outcomes import Arrived, NotSent, RefusedForGood, SendOutcome, ThreadGone, Unclear
from ops.automations.models import AutomationMessage, ThreadMapping
from ops.automations.notify import targets, telling
from ops.automations.notify.messaging import queue_message
from ops.automations.notify.targets import Target
from ops.automations.reach import Outside
from ops.automations.sources import credentials
from ops.automations.states import MessageChannel, MessageKind
from ops.automations.transitions import CasOutcome

log = structlog.get_logger("dpp.automations")

CLAIMED_AT_ONCE: Final = 32
TARGETS_AT_ONCE: Final = 16
CONNECTIONS: Final = 8
TURN_SECONDS: Final = 0.25
END_SECONDS: Final = 10.0
BEGUN_WITHIN_SECONDS: Final = 20.0
SENT_WITHIN_SECONDS: Final = 55.0
"""Of a lease of 60: a post that outlived it could come after the next one's lookup, and stand there twice."""
GIVEN_UP_AFTER: Final = timedelta(hours=24)
STEPS_SECONDS: Final = (5, 15, 60, 300, 900, 1_800, 3_600)
JITTER: Final = 0.1
DOUBT_SECONDS: Final = 30.0
"""A post that was still under way when its answer was given up has shown itself by then."""
CHANNEL_PACE_SECONDS: Final = 1.0
"""Slack takes one message a second in a channel."""
CHANNELS: Final = tuple(channel.value for channel in MessageChannel)


class MessageSender:
    """`run` in one thread. Several at once, in any processes: a lease is one sender's."""

    def __init__(self, outside: Outside) -> None:
        self._outside = outside
        self._at_work: dict[tuple[str, str], threading.Thread] = {}
        self._paused_until: dict[str, float] = {}
        """By source, of this process alone: Slack tells another one itself."""

    def run(self, stop: threading.Event) -> None:
        make_room(CONNECTIONS)
        turning.turn_until(stop, self.turn, pause_seconds=TURN_SECONDS, what="messages")
        self.end()

    def turn(self) -> None:
        self._at_work = {place: thread for place, thread in self._at_work.items() if thread.is_alive()}
        if len(self._at_work) >= TARGETS_AT_ONCE:
            return
        began = time.monotonic()
        claimed = message_steps.claim_automation_messages(
            channels=CHANNELS, limit=CLAIMED_AT_ONCE, but=list(self._at_work)
        )
        held = sorted(claimed, key=lambda one: (one.message.channel, one.message.target, one.message.pk))
        for place, some in groupby(held, key=lambda one: (one.message.channel, one.message.target)):
            self._begin(place, list(some), began)

    def end(self, seconds: float = END_SECONDS) -> None:
        """Those under way have a moment; what is cut off is unclear, and looked up."""
        until = time.monotonic() + seconds
        for thread in list(self._at_work.values()):
            thread.join(max(until - time.monotonic(), 0.0))

    def _begin(self, place: tuple[str, str], held: Sequence[MessageClaim], began: float) -> None:
        thread = threading.Thread(
            target=self._send_all, args=(held, began), name=f"messages to {place[0]}", daemon=True
        )
        self._at_work[place] = thread
        thread.start()

    def _send_all(self, held: Sequence[MessageClaim], began: float) -> None:
        try:
            for number, one in enumerate(held):
                if time.monotonic() - began > BEGUN_WITHIN_SECONDS:
                    _give_back(held[number:])
                    return
                if number and one.message.channel == MessageChannel.SLACK:
                    time.sleep(CHANNEL_PACE_SECONDS)
                self.send(one, until=began + SENT_WITHIN_SECONDS)
        except DATABASE_AWAY as error:
            log.warning("Postgres is away, what was sent is looked up later", exc_info=error)
        except Exception as error:  # of this target alone; the leases of the rest run out
            log.exception("messages were not sent", exc_info=error)
        finally:
            connections.close_all()

    def send(self, held: MessageClaim, *, until: float) -> None:
        """One message, to its mark. `until`, by time.monotonic(): its lease."""
        message = held.message
        target = targets.find_target(message.channel, message.target)
        if isinstance(target, Refusal):
            mark_send_outcome(held, _not_tried(message, f"TARGET {target.detail}"))
            return
        if (wait := self._paused_until.get(target.source.name, 0.0) - time.monotonic()) > 0:
            mark_send_outcome(held, _not_tried(message, "429", after_seconds=wait))
            return
        try:
            outcome = self._outcome(message, target, until)
        except credentials.NoCredentials as missing:
            outcome = _not_tried(message, f"CREDENTIALS_MISSING {missing}")
        if isinstance(outcome, NotSent) and outcome.pauses_source:
            self._paused_until[target.source.name] = time.monotonic() + outcome.after_seconds
        mark_send_outcome(held, outcome)

    def _outcome(self, message: AutomationMessage, target: Target, until: float) -> SendOutcome:
        known = credentials.credentials_of(target.source)
        thread = _thread_now(message)
        connections.close_all()  # back to the pool: what is outside may take its time
        if message.channel == MessageChannel.WEBHOOK:
            secrets = known.live(clock.now())
            if not secrets:
                raise credentials.NoCredentials("it has no signing secret")
            return webhook.send_webhook_message(
                message,
                url=str(target.source.settings["url"]),
                secrets=tuple(secrets),
                outside=self._outside,
                caller=target.source.name,
            )
        if not known.token:
            raise credentials.NoCredentials("it has no token")
        base_url = str(target.source.settings.get("base_url") or slack.BASE_URL)
        place = slack.SlackPlace(
            self._outside, base_url, known.token, target.channel_id, caller=target.source.name, until=until
        )
        if message.unclear and (became := slack.look_up(place, message, thread=thread)) is not None:
            return became
        return slack.post_to_slack(place, message, thread=thread)


def _not_tried(message: AutomationMessage, why: str, *, after_seconds: float = 0.0) -> NotSent | Unclear:
    """Certain of this turn alone: of one that may have arrived before, nothing more is known than was."""
    return Unclear(why, after_seconds) if message.unclear else NotSent(why, after_seconds)


def _thread_now(message: AutomationMessage) -> str:
    """One queued before its task's first message was sent goes to the thread that this one has begun since."""
    if message.thread or message.task_id is None:
        return message.thread
    place = {"channel": message.channel, "target": message.target}
    mapped = ThreadMapping.objects.filter(task_id=message.task_id, **place).first()
    return "" if mapped is None else mapped.thread


def mark_send_outcome(held: MessageClaim, outcome: SendOutcome) -> CasOutcome:
    """What came of it, as a row; that a message has failed is said by the transaction in which it has.

    LOST: another has taken the message over meanwhile, and looks it up.
    """
    left = (held.message.created_at + GIVEN_UP_AFTER - database_now()).total_seconds()
    with transaction.atomic():
        marked = _mark(held, outcome, left=left)
        _report_send_outcome(held, outcome, marked, is_over=left <= 0)
    return marked


def _mark(held: MessageClaim, outcome: SendOutcome, *, left: float) -> CasOutcome:
    """`left`: the seconds of its day."""
    attempts = held.message.attempts
    match outcome:
        case Arrived(external_id, thread):
            return message_steps.mark_message_sent(held, external_id=external_id, thread=thread)
        case ThreadGone(left_as):
            return _tell_thread_gone(held, left_as)
        case RefusedForGood(why):
            return message_steps.fail_message(held, error=why)
        case NotSent(why) | Unclear(why) if left <= 0:
            return message_steps.fail_message(held, error=f"not sent within 24 hours: {why}")
        case NotSent(why, after_seconds):
            wait = max(after_seconds, _message_retry_seconds(attempts))
            return message_steps.put_off_message(held, seconds=min(wait, left), error=why)
        case Unclear(why, after_seconds):
            wait = max(DOUBT_SECONDS, after_seconds, _message_retry_seconds(attempts))
            return message_steps.doubt_message(held, seconds=min(wait, left), error=why)


def _tell_thread_gone(held: MessageClaim, left_as: str) -> CasOutcome:
    """FAILED, its thread forgotten, and the alarm at the channel's root: one transaction. Later ones begin a thread."""
    message = held.message
    thread = _thread_now(message)
    place = {"channel": message.channel, "target": message.target}
    stands = f" It stands at the channel's root as {left_as}." if left_as else ""
    with transaction.atomic():
        marked = message_steps.fail_message(held, error=f"THREAD_GONE {left_as}".strip())
        if marked is CasOutcome.WON:
            ThreadMapping.objects.filter(thread=thread, **place).delete()
            queue_message(
                channel=MessageChannel(message.channel),
                target=message.target,
                body=f"The thread that {message.number} answers in was deleted, so it was not posted.{stands}"
                " The console has its text.",
                rule=message.rule,
                kind=MessageKind.ALARM,
                key=f"thread-gone:{message.channel}:{message.target}:{thread}",
            )
    return marked


def _give_back(held: Sequence[MessageClaim]) -> None:
    """Not begun: due as before, as clear or unclear as before, and no attempt is counted."""
    for one in held:
        message_steps.give_back(one)


def _message_retry_seconds(attempts: int) -> float:
    step = STEPS_SECONDS[min(attempts, len(STEPS_SECONDS) - 1)]
    return step * (1 - JITTER + 2 * JITTER * random.random())  # noqa: S311  it only spreads retries


def _report_send_outcome(held: MessageClaim, outcome: SendOutcome, marked: CasOutcome, *, is_over: bool) -> None:
    message = held.message
    came = "lost" if marked is CasOutcome.LOST else type(outcome).__name__.lower()
    metrics.SENT.labels(message.channel, came).inc()
    ends = isinstance(outcome, RefusedForGood | ThreadGone) or (is_over and not isinstance(outcome, Arrived))
    if marked is CasOutcome.WON and ends:
        metrics.GIVEN_UP.labels(message.channel).inc()
        why = getattr(outcome, "why", "") or came
        log.error("a message was not sent", message=message.number, channel=message.channel, why=why)
        if not isinstance(outcome, ThreadGone) and message.kind != MessageKind.ALARM:
            telling.tell_platform(
                body=f"{message.number} to {message.channel} {message.target} was not sent: {why}. The console has it.",
                kind=MessageKind.ALARM,
                key=f"not-sent:{message.pk}",
            )
