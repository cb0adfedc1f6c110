"""Every rule of the client once, in virtual time."""

from __future__ import annotations

import logging
import unittest
from typing import Any
from unittest import mock

from holdfast import (
    ClosedError,
    Defaults,
    HoldfastError,
    InvalidRequestError,
    LeaseLostError,
    LockHeldError,
    OnceFailedError,
    Signal,
    StaleFenceError,
    TooManyRetriesError,
    UnavailableError,
    WaitCancelledError,
    WaitTimeoutError,
)
from holdfast.core import Hold
from holdfast.flow import Wait
from holdfast.jobs import Candidate, run_once

from .virtual import LOST, Reply, Sent, Service, World, acquired, granted, problem, waiting


class RuleTest(unittest.TestCase):
    """Also checks, in every test, that no secret is logged. All secrets of a world begin with "secret-"."""

    def setUp(self) -> None:
        self.world = World()
        self.world.service = Service(self.world)
        self.core = self.world.core()
        self.logged: list[str] = []
        handler = logging.Handler()
        handler.emit = lambda record: self.logged.append(record.getMessage())  # type: ignore[method-assign]
        logger = logging.getLogger("holdfast")
        logger.addHandler(handler)
        logger.setLevel(logging.DEBUG)
        logger.propagate = False
        self.addCleanup(logger.removeHandler, handler)
        self.addCleanup(lambda: self.assertNotIn("secret-", "\n".join(self.logged)))

    def replies(self, *replies: Any) -> None:
        """These first, then those of the usual service. A function gets the request."""
        usual, left = self.world.service, list(replies)

        def service(sent: Sent) -> Reply:
            if not left:
                return usual(sent)
            reply = left.pop(0)
            chosen: Reply = reply(sent) if callable(reply) else reply
            return chosen

        self.world.service = service

    def on(self, operation: str, answer: Any) -> None:
        """From now on, this operation is answered like this."""
        usual = self.world.service

        def service(sent: Sent) -> Reply:
            if sent.operation != operation:
                return usual(sent)
            reply: Reply = answer(sent) if callable(answer) else answer
            return reply

        self.world.service = service

    def sent(self, operation: str) -> list[Sent]:
        return [one for one in self.world.sent if one.operation == operation]

    def hold(self, **options: Any) -> Hold:
        return acquired(self.world, self.core, **options)


class Calling(RuleTest):
    def test_repeats_a_request_without_an_answer_with_the_same_lease_id(self) -> None:
        self.replies(LOST, problem("unavailable", 503), problem("internal", 500))
        hold = self.hold(wait_ms=60_000)
        self.assertEqual(hold.body["fence"], 7)
        self.assertEqual(len({one.body["leaseId"] for one in self.world.sent}), 1)
        self.assertEqual(len(self.world.sent), 4)

    def test_says_that_a_lease_id_is_new_only_in_its_very_first_request(self) -> None:
        self.replies(LOST, waiting)
        self.hold(wait_ms=60_000)
        self.assertEqual([one.body.get("place") for one in self.world.sent], ["new", None, None])

    def test_waits_as_long_as_a_throttling_service_asks(self) -> None:
        self.replies(problem("throttled", 429, retryAfterMs=700), problem("throttled", 429, retryAfterMs=900))
        self.hold(wait_ms=5_000)
        first, second, third = (one.at_ms for one in self.world.sent)
        self.assertGreaterEqual(second - first, 700)
        self.assertGreaterEqual(third - second, 900)

    def test_reads_retry_after_of_a_gateway_that_has_no_code(self) -> None:
        self.replies(Reply(429, None, 10, {"retry-after": "2"}))
        self.hold(wait_ms=5_000)
        self.assertGreaterEqual(self.world.sent[1].at_ms, 2_000)

    def test_takes_a_refusal_as_final(self) -> None:
        self.replies(problem("lock-held", 409, holders=[{"owner": "b", "fence": 3, "remainingMs": 5}], queueDepth=2))
        with self.assertRaises(LockHeldError) as caught:
            self.hold(wait_ms=0)
        self.assertEqual(caught.exception.holders[0].owner, "b")
        self.assertEqual(caught.exception.queue_depth, 2)
        self.assertEqual(self.world.operations(), ["acquireLock"])

    def test_takes_an_answer_that_is_not_json_for_no_answer(self) -> None:
        self.replies(Reply(200, None))
        self.assertEqual(self.hold(wait_ms=5_000).body["fence"], 7)

    def test_does_not_load_a_service_that_is_unavailable(self) -> None:
        self.world.service = lambda _: problem("unavailable", 503)
        with self.assertRaises(UnavailableError):
            self.hold(wait_ms=30_000)
        # Five failures open the breaker. Then there is one probe in two seconds, besides the release at the end.
        self.assertLess(len(self.world.sent), 5 + 31 / 2 + 5)
        with self.assertRaises(UnavailableError) as caught:
            self.world.run(self.core.inspect("a"))
        self.assertTrue(caught.exception.circuit_open)

    def test_sends_again_after_the_breaker_closed(self) -> None:
        down = [True]
        usual = self.world.service
        self.world.service = lambda sent: problem("unavailable", 503) if down[0] else usual(sent)
        with self.assertRaises(UnavailableError):
            self.hold(wait_ms=3_000)
        down[0] = False
        self.world.advance(10_000)
        self.assertTrue(self.hold().tenure.is_alive())

    def test_keeps_the_deadline_of_a_call(self) -> None:
        self.world.service = lambda _: LOST
        with self.assertRaises(UnavailableError):
            self.world.run(self.core.ask(_inspect(), deadline_ms=1_200))
        self.assertLessEqual(self.world.now_ms, 1_200)

    def test_gives_a_later_try_no_more_than_the_rest_of_the_deadline(self) -> None:
        count = [0]

        def slow_then_silent(sent: Sent) -> Reply:
            count[0] += 1
            return problem("unavailable", 503, after_ms=700) if count[0] == 1 else LOST

        self.world.service = slow_then_silent
        with self.assertRaises(UnavailableError):
            self.world.run(self.core.ask(_inspect(), deadline_ms=1_200))
        self.assertEqual(len(self.world.sent), 2)
        self.assertLessEqual(self.world.now_ms, 1_201)

    def test_names_the_service_in_the_error_and_no_secret(self) -> None:
        self.world.service = lambda _: LOST
        with self.assertRaises(UnavailableError) as caught:
            self.hold(wait_ms=0)
        self.assertIn("http://service", str(caught.exception))
        self.assertNotIn("secret-", repr(caught.exception))

    def test_refuses_names_and_options_before_it_sends_them(self) -> None:
        for name in ("", "a/b", "a\n", "../x", "-a", "a" * 256):
            with self.assertRaises(InvalidRequestError):
                self.world.run(self.core.acquire(name, {}))
        with self.assertRaisesRegex(TypeError, "leasems"):
            self.world.run(self.core.acquire("a", {"leasems": 3}))  # type: ignore[typeddict-unknown-key]
        self.assertEqual(self.world.sent, [])


class Keeping(RuleTest):
    def test_renews_after_each_third_of_the_lease(self) -> None:
        self.hold(lease_ms=30_000)
        self.world.advance(60_500)
        self.assertEqual([round(one.at_ms, -3) for one in self.sent("renewLock")], [10_000 * n for n in range(1, 7)])

    def test_counts_the_lease_from_before_the_request_was_sent(self) -> None:
        self.replies(lambda sent: granted(sent, lease_ms=30_000, after_ms=8_000))
        hold = self.hold(lease_ms=30_000, wait_ms=5_000, deadline_ms=20_000)
        # A slow answer costs its holder the time that it took. A second is the margin to stop in.
        self.assertAlmostEqual(hold.tenure.remaining_ms(), 30_000 - 8_000 - 1_000, delta=20)

    def test_counts_a_renewed_lease_from_before_its_renewal_was_sent(self) -> None:
        hold = self.hold(lease_ms=30_000)
        self.on("renewLock", lambda sent: granted(sent, after_ms=6_000))
        self.world.run(hold.tenure.renew())
        self.assertAlmostEqual(hold.tenure.remaining_ms(), 30_000 - 6_000 - 1_000, delta=20)

    def test_is_lost_before_the_lease_can_end_if_the_service_falls_silent(self) -> None:
        hold = self.hold(lease_ms=6_000)
        self.world.service = lambda _: LOST
        self.world.advance(5_300)
        self.assertTrue(hold.tenure.is_alive())
        self.world.advance(200)
        self.assertTrue(hold.tenure.lost.fired)
        self.assertIsInstance(hold.tenure.lost.reason, LeaseLostError)
        with self.assertRaises(LeaseLostError):
            hold.check()

    def test_never_lets_a_renewal_go_on_after_the_rest_of_the_lease(self) -> None:
        self.hold(lease_ms=6_000)
        self.world.service = lambda _: LOST
        self.world.advance(20_000)
        self.assertGreaterEqual(len(self.sent("renewLock")), 2)
        for one in self.sent("renewLock"):
            self.assertLessEqual(one.at_ms + one.timeout_ms, 6_000)

    def test_knows_after_a_freeze_that_its_lease_is_over_before_any_timer_ran(self) -> None:
        hold = self.hold(lease_ms=30_000)
        self.world.freeze(29_500)
        self.assertFalse(hold.tenure.is_alive())
        self.assertTrue(hold.tenure.lost.fired)
        self.assertEqual(hold.tenure.remaining_ms(), 0)

    def test_does_not_trust_a_wall_clock_that_was_set_back(self) -> None:
        hold = self.hold(lease_ms=6_000)
        self.world.service = lambda _: LOST
        self.world.freeze(-3_600_000)
        self.world.advance(6_000)
        self.assertFalse(hold.tenure.is_alive())

    def test_is_lost_as_soon_as_the_service_says_so(self) -> None:
        hold = self.hold(lease_ms=30_000)
        self.on("renewLock", problem("lease-lost", 409, reason="revoked"))
        self.world.advance(12_000)
        reason = hold.tenure.lost.reason
        assert isinstance(reason, LeaseLostError)
        self.assertEqual(reason.reason, "revoked")

    def test_survives_two_renewals_that_fail(self) -> None:
        hold = self.hold(lease_ms=30_000)
        self.replies(LOST, problem("unavailable", 503))
        self.world.advance(29_000)
        self.assertTrue(hold.tenure.is_alive())

    def test_renews_no_faster_against_a_slow_service(self) -> None:
        self.hold(lease_ms=30_000)
        self.on("renewLock", lambda sent: granted(sent, after_ms=4_000))
        self.world.advance(120_000)
        self.assertLessEqual(len(self.sent("renewLock")), 13)

    def test_stops_renewing_after_hold_ms_max_and_asks_for_no_longer_lease(self) -> None:
        hold = self.hold(lease_ms=30_000, hold_ms_max=25_000)
        self.world.advance(60_000)
        self.assertFalse(hold.tenure.is_alive())
        for one in self.sent("renewLock"):
            self.assertLessEqual(one.at_ms + one.body["leaseMs"], 26_010)

    def test_does_not_renew_if_the_caller_does_not_want_it(self) -> None:
        self.hold(lease_ms=30_000, auto_renew=False)
        self.world.advance(60_000)
        self.assertEqual(self.sent("renewLock"), [])

    def test_relies_on_no_more_than_a_shorter_renewal_from_its_sending_on(self) -> None:
        hold = self.hold(lease_ms=30_000)
        self.on("renewLock", LOST)
        self.world.start(hold.tenure.renew(2_000))
        self.assertLessEqual(hold.tenure.remaining_ms(), 2_000)

    def test_ignores_the_answer_to_a_renewal_from_before_a_shorter_one(self) -> None:
        hold = self.hold(lease_ms=30_000)
        self.replies(lambda sent: granted(sent, after_ms=5_000), LOST)
        self.world.start(hold.tenure.renew())
        self.world.advance(1_000)
        self.world.start(hold.tenure.renew(8_000))
        self.on("renewLock", LOST)
        self.world.advance(4_100)
        self.assertLessEqual(hold.tenure.remaining_ms(), 8_000 - 4_100)

    def test_stops_at_its_release(self) -> None:
        hold = self.hold(lease_ms=30_000)
        self.world.run(hold.release())
        self.world.advance(60_000)
        self.assertEqual(self.world.operations(), ["acquireLock", "releaseLock"])
        self.assertFalse(hold.tenure.lost.fired)

    def test_is_not_held_by_a_forked_child_which_releases_nothing(self) -> None:
        hold = self.hold()
        with mock.patch("os.getpid", return_value=-1):
            self.assertFalse(hold.tenure.is_alive())
            with self.assertRaises(LeaseLostError):
                hold.check()
            self.world.run(hold.release())
        self.assertEqual(self.world.operations(), ["acquireLock"])
        self.assertTrue(hold.tenure.is_alive())


class WaitingTest(RuleTest):
    def test_repeats_the_request_in_its_place_with_the_rest_of_its_wait(self) -> None:
        self.replies(
            lambda sent: waiting(sent, place=3, after_ms=10_000), lambda sent: waiting(sent, place=2, after_ms=10_000)
        )
        self.hold(wait_ms=60_000, lease_ms=30_000)
        asked = self.sent("acquireLock")
        self.assertEqual([one.body["waitMs"] for one in asked], [60_000, 50_000, 40_000])
        self.assertEqual([one.body.get("place") for one in asked], ["new", 3, 2])
        self.assertEqual(len({one.body["leaseId"] for one in asked}), 1)

    def test_is_delayed_and_not_ended_by_a_breaker_that_other_calls_opened(self) -> None:
        self.replies(lambda sent: waiting(sent, retryAfterMs=3_000, after_ms=10))
        self.on("inspectLock", problem("unavailable", 503))
        task = self.world.start(self.core.acquire("a", {"wait_ms": 60_000}))
        self.world.advance(2_000)
        with self.assertRaises(UnavailableError):
            self.world.run(self.core.ask(_inspect(), deadline_ms=900))
        self.assertEqual(len(self.sent("inspectLock")), 5)
        self.world.advance(6_000)
        self.assertIsNone(task.error)
        self.assertTrue(task.result.tenure.is_alive())

    def test_comes_back_when_the_service_asks(self) -> None:
        self.replies(lambda sent: waiting(sent, retryAfterMs=3_000, after_ms=10))
        self.hold(wait_ms=60_000)
        self.assertGreaterEqual(self.world.sent[1].at_ms, 3_000)

    def test_is_no_busy_loop_if_the_service_keeps_no_request_open(self) -> None:
        self.on("acquireLock", lambda sent: waiting(sent, after_ms=1))
        with self.assertRaises(WaitTimeoutError):
            self.hold(wait_ms=5_000)
        self.assertLessEqual(len(self.sent("acquireLock")), 72)

    def test_gives_its_place_up_if_it_is_cancelled(self) -> None:
        self.on("acquireLock", lambda sent: waiting(sent, after_ms=20_000))
        cancel = Signal()
        task = self.world.start(self.core.acquire("a", {"wait_ms": 60_000, "cancel": cancel}))
        self.world.advance(5_000)
        cancel.fire()
        self.world.advance(100)
        self.assertIsInstance(task.error, WaitCancelledError)
        self.assertEqual(self.world.sent[-1].body, {"leaseId": self.world.sent[0].body["leaseId"]})
        self.assertEqual(self.world.operations()[-1], "releaseLock")

    def test_gives_its_place_up_if_it_is_interrupted(self) -> None:
        self.on("acquireLock", lambda sent: waiting(sent, after_ms=20_000))
        task = self.world.start(self.core.acquire("a", {"wait_ms": 60_000}))
        self.world.advance(5_000)
        task.interrupt(KeyboardInterrupt())
        self.world.advance(1_000)
        self.assertIsInstance(task.error, KeyboardInterrupt)
        self.assertEqual(self.world.operations(), ["acquireLock", "releaseLock"])

    def test_gives_its_place_up_if_the_service_is_gone(self) -> None:
        self.on("acquireLock", LOST)
        with self.assertRaises(UnavailableError):
            self.hold(wait_ms=0)
        self.world.advance(1_000)
        self.assertEqual(self.world.operations()[-1], "releaseLock")

    def test_has_no_place_after_a_refusal(self) -> None:
        self.on("acquireLock", problem("queue-full", 429, retryAfterMs=9))
        with self.assertRaises(HoldfastError):
            self.hold(wait_ms=1_000)
        self.world.advance(1_000)
        self.assertEqual(self.world.operations(), ["acquireLock"])

    def test_ends_by_its_deadline_whatever_the_service_does(self) -> None:
        for reply in (LOST, waiting, problem("unavailable", 503), problem("throttled", 429, retryAfterMs=800)):
            with self.subTest(reply=reply):
                self.setUp()
                self.on("acquireLock", reply)
                with self.assertRaises(HoldfastError):
                    self.hold(wait_ms=60_000, deadline_ms=4_000)
                self.assertLessEqual(self.world.now_ms, 4_100)

    def test_renews_a_grant_that_took_long_before_it_relies_on_it(self) -> None:
        self.replies(lambda sent: granted(sent, lease_ms=6_000, after_ms=3_000))
        hold = self.hold(lease_ms=6_000, wait_ms=20_000)
        self.assertEqual(self.world.operations(), ["acquireLock", "renewLock"])
        self.assertGreater(hold.tenure.remaining_ms(), 5_000)

    def test_asks_again_with_a_new_lease_if_the_grant_ended_before_it_arrived(self) -> None:
        self.replies(problem("lease-lost", 409, reason="expired"))
        self.hold(wait_ms=20_000)
        first, second = self.sent("acquireLock")
        self.assertNotEqual(first.body["leaseId"], second.body["leaseId"])

    def test_goes_on_without_the_lock_only_if_told_so(self) -> None:
        self.world.service = lambda _: LOST
        with self.assertRaises(InvalidRequestError):
            self.hold(on_unavailable="fail-open")
        self.world.service = lambda _: problem("unavailable", 503)
        hold = self.hold(on_unavailable="fail-open", tier="efficiency", wait_ms=60_000)
        self.assertTrue(hold.failed_open)
        # It goes on soon, and does not try for the whole wait.
        self.assertLess(self.world.now_ms, 2_000)
        self.assertFalse(hold.tenure.is_alive())
        self.assertEqual(hold.body["fence"], 0)

    def test_asks_for_several_locks_with_the_whole_wait_each_time(self) -> None:
        grants: dict[str, Any] = {"grants": [{"lock": "a", "fence": 1}, {"lock": "b", "fence": 2}]}
        self.replies(lambda sent: waiting(sent, blockedBy=["b"], after_ms=5_000), lambda sent: granted(sent, **grants))
        hold = self.world.run(self.core.acquire_all(["a", "b"], {"wait_ms": 30_000}))
        self.assertEqual([one.body["waitMs"] for one in self.sent("acquireLocks")], [30_000, 30_000])
        self.on("releaseLocks", Reply(200, {"released": ["a", "b"], "failed": []}))
        self.assertTrue(self.world.run(hold.release()).released)


class Pushing(RuleTest):
    def setUp(self) -> None:
        super().setUp()
        self.core = self.world.core(has_sockets=True)
        self.message: Any = None
        self.closed: Any = None
        self.opened = 0

        def sockets(on_message: Any, on_closed: Any) -> bool:
            self.opened += 1
            self.message, self.closed = on_message, on_closed
            connection = {"type": "connected", "connectionId": f"c{self.opened}"}
            self.world.after(8, lambda: on_message(connection))
            return True

        self.world.sockets = sockets
        self.on("createTicket", Reply(201, {"ticket": "secret-t", "url": "ws://x/v1", "expiresInMs": 60_000}))
        self.on("acquireLock", lambda sent: waiting(sent, after_ms=min(sent.body.get("pollMs", 5), 2_000)))
        self.task = self.world.start(self.core.acquire("a", {"wait_ms": 300_000}))
        self.world.advance(2_500)

    def parked(self) -> list[Sent]:
        return [one for one in self.sent("acquireLock") if "notify" in one.body]

    def test_parks_after_two_seconds_and_renews_what_it_is_told(self) -> None:
        self.assertEqual(self.parked()[0].body["notify"], {"type": "websocket", "connectionId": "c1"})
        self.message({"type": "granted", "lock": "a", "leaseId": self.parked()[0].body["leaseId"], "fence": 7})
        self.world.advance(100)
        self.assertTrue(self.task.result.tenure.is_alive())
        self.assertEqual(self.world.operations()[-1], "renewLock")

    def test_asks_now_and_then_because_a_message_may_be_lost(self) -> None:
        self.world.advance(60_000)
        self.assertEqual(len(self.parked()), 3)

    def test_parks_on_a_new_connection_if_the_old_one_broke(self) -> None:
        self.closed()
        self.world.advance(1_000)
        self.assertEqual([one.body["notify"]["connectionId"] for one in self.parked()], ["c1", "c2"])
        self.assertEqual(len({one.body["leaseId"] for one in self.parked()}), 1)

    def test_asks_the_service_why_its_wait_ended(self) -> None:
        self.on("acquireLock", problem("wait-timeout", 409))
        self.message({"type": "wait-ended", "leaseId": self.parked()[0].body["leaseId"], "reason": "wait-timeout"})
        self.world.advance(1_000)
        self.assertIsInstance(self.task.error, WaitTimeoutError)
        # The wait is over, so it is not parked again: a poll asks.
        self.assertEqual(len(self.parked()), 1)

    def test_polls_if_the_service_has_no_tickets(self) -> None:
        self.setUpWithoutTickets()
        self.assertEqual(self.parked(), [])
        self.assertGreater(len(self.sent("acquireLock")), 1)
        # It never asks for a ticket again.
        self.assertEqual(len(self.sent("createTicket")), 1)
        self.assertFalse(self.core.sockets.is_possible)

    def setUpWithoutTickets(self) -> None:  # noqa: N802
        self.world.sent.clear()
        self.core = self.world.core(has_sockets=True)
        self.on("createTicket", problem("not-found", 404))
        self.world.start(self.core.acquire("a", {"wait_ms": 300_000}))
        self.world.advance(30_000)
        self.world.sent[:] = [one for one in self.world.sent if one.body.get("leaseId") != "secret-0000000001"]

    def test_closes_the_socket_when_nobody_waits(self) -> None:
        self.message({"type": "granted", "lock": "a", "leaseId": self.parked()[0].body["leaseId"], "fence": 7})
        self.world.advance(100)
        self.assertIsNone(self.core.sockets._live)


class Releasing(RuleTest):
    def test_is_safe_to_repeat_after_a_lost_answer(self) -> None:
        hold = self.hold()
        self.replies(LOST, Reply(200, {"released": False, "reason": "already_released"}))
        self.assertEqual(self.world.run(hold.release()), (True, "ok"))
        self.assertEqual(self.world.run(hold.release()), (True, "ok"))
        self.assertEqual(len(self.sent("releaseLock")), 2)

    def test_says_that_the_lease_had_ended(self) -> None:
        hold = self.hold()
        self.on("releaseLock", problem("lease-lost", 409, reason="expired"))
        self.assertEqual(self.world.run(hold.release()), (False, "expired"))

    def test_raises_after_work_that_succeeded_without_the_lock(self) -> None:
        hold = self.hold()
        self.world.freeze(60_000)
        with self.assertRaises(LeaseLostError):
            self.world.run(hold.release_after_work())

    def test_keeps_the_error_of_the_work(self) -> None:
        hold = self.hold()
        self.on("releaseLock", LOST)
        self.world.run(hold.release_after_failure())
        self.assertLessEqual(self.world.now_ms, 5_100)

    def test_closes_everything(self) -> None:
        hold = self.hold()
        self.on("acquireLock", lambda sent: waiting(sent, after_ms=20_000))
        task = self.world.start(self.core.acquire("b", {"wait_ms": 60_000}))
        self.world.advance(1_000)
        self.world.run(self.core.close())
        self.assertIsInstance(task.error, ClosedError)
        self.assertEqual(len(self.sent("releaseLock")), 2)
        self.assertFalse(hold.tenure.is_alive())
        with self.assertRaises(ClosedError):
            self.world.run(self.core.inspect("a"))


class Sessions(RuleTest):
    def setUp(self) -> None:
        super().setUp()
        opened = {"sessionId": "secret-s", "ttlMs": 15_000, "remainingMs": 15_000, "expiresAt": ""}
        self.on("createSession", Reply(201, opened))
        self.on("keepSessionAlive", Reply(200, opened))
        self.session = self.world.run(self.core.open_session(15_000, None))
        self.lock: Hold = self.world.run(self.core.acquire("a", {}, self.session))

    def test_keeps_the_session_alive_and_not_its_locks(self) -> None:
        self.world.advance(30_500)
        self.assertEqual(len(self.sent("keepSessionAlive")), 6)
        self.assertEqual(self.sent("renewLock"), [])
        self.assertNotIn("leaseMs", self.sent("acquireLock")[0].body)

    def test_loses_all_its_locks_with_it(self) -> None:
        self.on("keepSessionAlive", problem("session-lost", 410))
        self.world.advance(6_000)
        reason = self.lock.tenure.lost.reason
        assert isinstance(reason, LeaseLostError)
        self.assertEqual(reason.reason, "session_lost")

    def test_knows_after_a_freeze_that_its_locks_are_lost(self) -> None:
        self.world.freeze(15_000)
        self.assertFalse(self.lock.tenure.is_alive())
        self.assertTrue(self.lock.tenure.lost.fired)

    def test_ends_once(self) -> None:
        self.on("endSession", Reply(200, {"ended": True, "released": 1}))
        self.assertEqual(self.world.run(self.session.end()).released, 1)
        self.world.run(self.session.end())
        self.assertEqual(len(self.sent("endSession")), 1)


class Records(RuleTest):
    """A record service in memory, with the service's rules."""

    def setUp(self) -> None:
        super().setUp()
        self.value: Any = None
        self.version = 0
        self.floor = 0
        self.expires_in_ms: int | None = None
        self.writes: dict[str, Reply] = {}
        self.on("getRecord", self.get)
        self.on("putRecord", self.put)

    def get(self, sent: Sent) -> Reply:
        if self.version == 0:
            return problem("not-found", 404)
        return Reply(200, {**self.shown(), "value": self.value})

    def shown(self) -> dict[str, Any]:
        body: dict[str, Any] = {"key": "r", "version": self.version, "fence": self.floor or None}
        body["updatedAt"] = "2026-01-01T12:00:00.000Z"
        if self.expires_in_ms is not None:
            body |= {"expiresAt": "2026-01-01T13:00:00.000Z", "remainingMs": 1_800_000}
        return body

    def put(self, sent: Sent) -> Reply:
        write_id = sent.headers["write-id"]
        if write_id in self.writes:
            return self.writes[write_id]
        expected = None if "if-none-match" in sent.headers else sent.headers["if-match"]
        fence = int(sent.headers.get("fence-token", 0))
        if fence < self.floor:
            return problem("stale-fence", 409, fenceFloor=self.floor)
        if expected != (None if self.version == 0 else f'"{self.version}"'):
            return problem("version-mismatch", 412, version=self.version)
        self.value, self.version, self.floor = sent.body["value"], self.version + 1, fence
        self.expires_in_ms = sent.body.get("expiresInMs")
        self.writes[write_id] = Reply(200, self.shown())
        return self.writes[write_id]

    def test_updates_what_it_has_read(self) -> None:
        for expected in (1, 2):
            value = self.world.run(self.core.update_record("r", lambda now: (now or 0) + 1, {"fence": 4}))
            self.assertEqual((value, self.value, self.floor), (expected, expected, 4))

    def test_begins_again_if_another_writer_came_first(self) -> None:
        seen: list[Any] = []

        def compute(now: Any) -> Any:
            seen.append(now)
            if len(seen) == 1:
                self.value, self.version = "other", self.version + 1
            return "mine"

        self.world.run(self.core.update_record("r", compute, {}))
        self.assertEqual(seen, [None, "other"])

    def test_gives_up_after_ten_tries(self) -> None:
        self.on("putRecord", problem("version-mismatch", 412, version=9))
        with self.assertRaises(TooManyRetriesError):
            self.world.run(self.core.update_record("r", lambda now: 1, {}))
        self.assertEqual(len(self.sent("putRecord")), 10)

    def test_writes_once_if_the_answer_is_lost(self) -> None:
        first = [True]

        def lossy(sent: Sent) -> Reply:
            reply = self.put(sent)
            return LOST if first and first.pop() else reply

        self.on("putRecord", lossy)
        self.world.run(self.core.put_record("r", 1, None, {"deadline_ms": 30_000}))
        self.assertEqual(self.version, 1)

    def test_keeps_null_as_a_value(self) -> None:
        self.world.run(self.core.put_record("r", None, None, {}))
        self.assertEqual(self.sent("putRecord")[0].body, {"value": None})

    def test_does_a_job_once(self) -> None:
        runs: list[int] = []

        def work(hold: Hold) -> Any:
            runs.append(hold.body["fence"])
            return {"paid": 5}

        first = self.world.run(run_once(self.core, "job", {}, work))
        again = self.world.run(run_once(self.core, "job", {}, work))
        self.assertEqual((first, again), ((True, True, {"paid": 5}), (False, True, {"paid": 5})))
        self.assertEqual(runs, [7])
        self.assertEqual(self.expires_in_ms, 86_400_000)
        self.assertEqual([one.headers["fence-token"] for one in self.sent("putRecord")], ["7", "7"])
        self.assertEqual(len(self.sent("releaseLock")), 1)

    def test_does_a_job_again_in_the_next_window(self) -> None:
        self.world.run(run_once(self.core, "job", {"every_ms": 3_600_000}, lambda _: 1))
        # The record says that it is 12:30 now, so the run of 12:00 is still the current one.
        again = self.world.run(run_once(self.core, "job", {"every_ms": 3_600_000}, lambda _: 2))
        self.assertEqual(again, (False, True, 1))
        again = self.world.run(run_once(self.core, "job", {"every_ms": 1_800_000}, lambda _: 2))
        self.assertEqual(again, (True, True, 2))

    def test_does_a_failed_job_again_unless_it_is_closed(self) -> None:
        def work(_: Hold) -> Any:
            raise ZeroDivisionError("no")

        for options in ({}, {"on_failure": "close"}):
            with self.assertRaises(ZeroDivisionError):
                self.world.run(run_once(self.core, "job", options, work))  # type: ignore[arg-type]
        with self.assertRaisesRegex(OnceFailedError, "ZeroDivisionError: no"):
            self.world.run(run_once(self.core, "job", {}, work))

    def test_refuses_a_runner_that_lost_the_lock(self) -> None:
        def work(_: Hold) -> Any:
            self.floor = 8
            return 1

        with self.assertRaises(StaleFenceError):
            self.world.run(run_once(self.core, "job", {}, work))

    def test_waits_for_the_runner_as_a_reader(self) -> None:
        def acquire(sent: Sent) -> Reply:
            if sent.body.get("mode") != "shared":
                return problem("lock-held", 409)
            self.value, self.version = {"once": "done", "startedAt": 1, "value": "theirs"}, 2
            return granted(sent, after_ms=3_000)

        self.on("acquireLock", acquire)
        result = self.world.run(run_once(self.core, "job", {}, lambda _: "mine"))
        self.assertEqual(result, (False, True, "theirs"))

    def test_says_that_another_is_still_working(self) -> None:
        self.on("acquireLock", problem("lock-held", 409))
        result = self.world.run(run_once(self.core, "job", {"wait_ms": 0}, lambda _: 1))
        self.assertEqual(result, (False, False, None))


class Electing(RuleTest):
    def elect(self, work: Any, **options: Any) -> Candidate:
        candidate = Candidate(self.core, "leader", options, work)  # type: ignore[arg-type]
        self.world.start(candidate.run())
        self.world.advance(1_000)
        return candidate

    def test_leads_with_the_fence_as_epoch_until_it_is_closed(self) -> None:
        terms: list[tuple[int, Signal]] = []
        candidate = self.elect(lambda epoch, ended, _: terms.append((epoch, ended)))
        self.assertTrue(candidate.is_leader)
        self.assertEqual(terms[0][0], 7)
        self.world.run(candidate.close())
        self.assertTrue(terms[0][1].fired)
        self.assertEqual(self.world.operations()[-1], "releaseLock")

    def test_does_not_let_another_lead_before_its_work_has_stopped(self) -> None:
        def work(_epoch: int, ended: Signal, _is_leader: Any) -> Any:
            yield Wait(None, (ended,))
            yield Wait(3_000)

        for options, least_ms in (({}, 3_000), ({"hand_over_ms": 1_000}, 1_000)):
            with self.subTest(options=options):
                candidate = self.elect(work, **options)
                began = self.world.now_ms
                self.world.run(candidate.close())
                self.assertAlmostEqual(self.sent("releaseLock")[-1].at_ms - began, least_ms, delta=20)

    def test_is_a_candidate_again_after_its_work_failed(self) -> None:
        epochs: list[int] = []

        def work(epoch: int, _ended: Signal, _is_leader: Any) -> None:
            epochs.append(epoch)
            if len(epochs) == 1:
                raise ValueError("no")

        self.elect(work)
        self.world.advance(20_000)
        self.assertEqual(len(epochs), 2)

    def test_is_a_candidate_again_after_its_lease_was_lost(self) -> None:
        epochs: list[int] = []
        self.elect(lambda epoch, *_: epochs.append(epoch))
        self.world.freeze(60_000)
        self.world.advance(20_000)
        self.assertEqual(len(epochs), 2)


class Defaulting(RuleTest):
    def test_uses_the_defaults_of_the_client(self) -> None:
        self.core = self.world.core(defaults=Defaults(owner="me", lease_ms=9_000, wait_ms=0))
        self.hold()
        body = self.world.sent[0].body
        self.assertEqual((body["owner"], body["leaseMs"], body["waitMs"]), ("me", 9_000, 0))


def _inspect() -> Any:
    from holdfast.caller import request_of

    return request_of("inspectLock", {"ns": "test", "name": "a"})


if __name__ == "__main__":
    unittest.main()
