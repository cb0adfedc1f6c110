"""The whole client against a real service, whose address is in HOLDFAST_TEST_URL. Each test has locks of its own."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
import unittest
import uuid
from typing import Any

from holdfast import (
    AsyncHoldfast,
    Holdfast,
    LeaseLostError,
    Lock,
    Patience,
    Signal,
    StaleFenceError,
    WaitCancelledError,
    WaitTimeoutError,
    locked,
    once,
)
from holdfast.threads import has_websockets

from .test_drivers import Context

URL = os.environ.get("HOLDFAST_TEST_URL", "")
# A busy machine may need longer for an answer than a user would wait.
PATIENT = Patience(request_ms=60_000, retry_ms=60_000, try_ms=30_000, release_ms=60_000)


def client(**more: Any) -> Holdfast:
    return Holdfast(URL, "python", patience=PATIENT, **more)


@unittest.skipUnless(URL, "HOLDFAST_TEST_URL is not set")
class ThreadsTest(unittest.TestCase):
    def setUp(self) -> None:
        self.locks = client()
        self.addCleanup(self.locks.close)
        self.name = f"lock:{uuid.uuid4()}"

    def until_waiting(self, count: int = 1) -> None:
        while self.locks.inspect(self.name).queue_depth < count:
            time.sleep(0.05)

    def test_holds_a_lock_in_a_block(self) -> None:
        with self.locks.lock(self.name) as lock:
            self.assertTrue(lock.is_held())
            self.assertFalse(lock.lost.is_set())
            self.assertIsNone(self.locks.try_lock(self.name))
            self.assertTrue(self.locks.check_fence(self.name, lock.fence).valid)
        self.assertEqual(self.locks.inspect(self.name).state, "free")

    def test_renews_in_the_background(self) -> None:
        with self.locks.lock(self.name, lease_ms=12_000) as lock:
            left_ms = lock.remaining_ms()
            while lock.is_held() and lock.remaining_ms() <= left_ms:
                left_ms = lock.remaining_ms()
                time.sleep(0.05)
            lock.check()
            self.assertEqual(self.locks.inspect(self.name).holders[0].fence, lock.fence)

    def test_hands_the_lock_over_in_order(self) -> None:
        order: list[int] = []

        def work(number: int) -> None:
            with self.locks.lock(self.name, wait_ms=120_000) as lock:
                order.append(number)
                lock.check()

        with self.locks.lock(self.name):
            workers = []
            for number in range(3):
                workers.append(threading.Thread(target=work, args=[number]))
                workers[-1].start()
                self.until_waiting(number + 1)
        for worker in workers:
            worker.join()
        self.assertEqual(order, [0, 1, 2])

    def test_gives_its_place_up(self) -> None:
        cancel = Signal()
        errors: list[BaseException] = []

        def wait() -> None:
            try:
                self.locks.acquire(self.name, wait_ms=120_000, cancel=cancel)
            except WaitCancelledError as error:
                errors.append(error)

        with self.locks.lock(self.name):
            waiter = threading.Thread(target=wait)
            waiter.start()
            self.until_waiting()
            cancel.fire()
            waiter.join()
            while self.locks.inspect(self.name).queue_depth > 0:
                time.sleep(0.05)
        self.assertEqual(len(errors), 1)

    def test_says_that_its_wait_is_over(self) -> None:
        with self.locks.lock(self.name), self.assertRaises(WaitTimeoutError) as caught:
            self.locks.acquire(self.name, wait_ms=200)
        self.assertEqual(len(caught.exception.holders), 1)

    def test_learns_that_it_was_revoked(self) -> None:
        with self.assertRaises(LeaseLostError) as caught, self.locks.lock(self.name, lease_ms=12_000) as lock:
            self.locks.revoke(self.name, fence=lock.fence, reason="test")
            self.assertTrue(lock.lost.wait(120))
        self.assertEqual(caught.exception.reason, "revoked")

    def test_takes_several_locks_semaphores_and_read_locks(self) -> None:
        names = [f"{self.name}:{one}" for one in "ba"]
        with self.locks.all(names) as both:
            self.assertEqual(list(both.fences), names)
        with self.locks.semaphore(self.name, 2), self.locks.semaphore(self.name, 2) as second:
            self.assertEqual(second.limit, 2)
        shared = f"{self.name}:rw"
        with self.locks.read_lock(shared), self.locks.read_lock(shared):
            self.assertIsNone(self.locks.try_lock(shared, mode="exclusive"))
        with self.locks.write_lock(shared):
            pass

    def test_keeps_locks_by_a_session(self) -> None:
        with self.locks.session(ttl_ms=60_000) as session:
            lock = session.acquire(self.name)
            self.assertEqual([one.lock for one in session.locks()], [self.name])
        self.assertFalse(lock.is_held())
        self.assertEqual(self.locks.inspect(self.name).state, "free")

    def test_refuses_a_stale_fence(self) -> None:
        record = self.locks.record(self.name)
        with self.locks.lock(self.name) as first:
            pass
        with self.locks.lock(self.name) as second:
            record.put({"n": 1}, version=None, fence=second.fence)
        with self.assertRaises(StaleFenceError):
            record.update(lambda now: {"n": now["n"] + 1}, fence=first.fence)
        found = record.get()
        assert found is not None
        record.delete(version=found.version, fence=second.fence)
        self.assertIsNone(record.get())

    def test_updates_without_a_lost_write(self) -> None:
        record = self.locks.record(self.name)
        workers = [threading.Thread(target=record.update, args=[lambda now: (now or 0) + 1]) for _ in range(5)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        found = record.get()
        self.assertEqual(found and found.value, 5)

    def test_does_a_job_once_in_many_threads(self) -> None:
        runs: list[int] = []

        def work(lock: Lock) -> str:
            runs.append(lock.fence)
            time.sleep(0.5)
            return "done"

        results: list[Any] = []
        workers = [threading.Thread(target=lambda: results.append(self.locks.once(self.name, work))) for _ in range(5)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        self.assertEqual(len(runs), 1)
        self.assertEqual({one.value for one in results}, {"done"})

    def test_elects_one_leader_after_the_other(self) -> None:
        epochs: list[int] = []

        def lead(term: Any) -> None:
            epochs.append(term.epoch)
            term.over.wait()

        first = self.locks.elect(self.name, lead)
        while not first.is_leader:
            time.sleep(0.05)
        second = self.locks.elect(self.name, lead)
        self.until_waiting()
        first.close()
        while not second.is_leader:
            time.sleep(0.05)
        self.assertGreater(epochs[1], epochs[0])
        second.close()

    def test_goes_on_in_another_process(self) -> None:
        lock = self.locks.acquire(self.name)
        with client() as other, other.adopt(lock.detach()) as adopted:
            self.assertEqual(adopted.fence, lock.fence)
        self.assertFalse(lock.is_held())
        self.assertEqual(self.locks.inspect(self.name).state, "free")

    def test_lists_locks_and_their_history(self) -> None:
        with self.locks.lock(self.name, owner="somebody"):
            held = [one.lock for one in self.locks.list(prefix=self.name, state="held")]
        self.assertEqual(held, [self.name])
        while [one.type for one in self.locks.history(self.name)] != ["released", "granted"]:
            time.sleep(0.05)

    @unittest.skipUnless(hasattr(os, "fork"), "this system has no fork")
    def test_leaves_the_lock_to_the_parent_after_a_fork(self) -> None:
        context = multiprocessing.get_context("fork")
        with self.locks.lock(self.name) as lock:
            held: Any = context.Queue()

            def child() -> None:
                with lock:
                    held.put((lock.is_held(), self.locks.inspect(self.name).state))

            process = context.Process(target=child)
            process.start()
            process.join()
            self.assertEqual(held.get(), (False, "held"))
            self.assertTrue(self.locks.check_fence(self.name, lock.fence).valid)

    def test_gives_its_place_up_when_the_process_is_interrupted(self) -> None:
        program = f"from holdfast import Holdfast; Holdfast({URL!r}, 'python').acquire({self.name!r}, wait_ms=120_000)"
        with self.locks.lock(self.name):
            process = subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE)
            self.until_waiting()
            process.send_signal(signal.SIGINT)
            _, printed = process.communicate()
            self.assertIn(b"KeyboardInterrupt", printed)
            while self.locks.inspect(self.name).queue_depth > 0:
                time.sleep(0.05)

    def test_waits_by_push_or_by_polling(self) -> None:
        for push in (False, has_websockets()):
            with self.subTest(push=push), client(push=push) as other:
                holder = self.locks.acquire(self.name)
                granted: list[Any] = []
                waiter = threading.Thread(
                    target=lambda other=other, granted=granted: granted.append(
                        other.acquire(self.name, wait_ms=120_000)
                    )
                )
                waiter.start()
                self.until_waiting()
                # After two seconds, a client with WebSockets has parked its wait.
                while push and other._core.sockets._live is None:
                    time.sleep(0.05)
                holder.release()
                waiter.join()
                granted[0].check()
                granted[0].release()

    def test_locks_handlers(self) -> None:
        @locked(self.locks, self.name)
        def handler(event: Any, context: Any, lock: Lock) -> Any:
            return {"fence": lock.fence, "id": event["id"]}

        @once(self.locks, lambda event, _: f"event:{self.name}:{event['id']}")
        def webhook(event: Any, context: Any, lock: Lock) -> Any:
            return {"statusCode": 200, "fence": lock.fence}

        self.assertEqual(handler({"id": 1}, Context(60_000))["id"], 1)
        first = webhook({"id": 1}, Context(60_000))
        self.assertEqual(webhook({"id": 1}, Context(60_000)), first)
        self.assertEqual(self.locks.inspect(self.name).state, "free")


@unittest.skipUnless(URL, "HOLDFAST_TEST_URL is not set")
class AsyncTest(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self) -> None:
        self.locks = AsyncHoldfast(URL, "python", patience=PATIENT)
        self.addAsyncCleanup(self.locks.close)
        self.name = f"lock:{uuid.uuid4()}"

    async def until_waiting(self, count: int) -> None:
        while (await self.locks.inspect(self.name)).queue_depth != count:
            await asyncio.sleep(0.05)

    async def test_holds_and_renews_a_lock_in_a_block(self) -> None:
        async with self.locks.lock(self.name, lease_ms=12_000) as lock:
            left_ms = lock.remaining_ms()
            while lock.is_held() and lock.remaining_ms() <= left_ms:
                left_ms = lock.remaining_ms()
                await asyncio.sleep(0.05)
            lock.check()
            self.assertFalse(lock.lost.is_set())
            self.assertIsNone(await self.locks.try_lock(self.name))
        self.assertEqual((await self.locks.inspect(self.name)).state, "free")

    async def test_gives_its_place_up_when_its_task_is_cancelled(self) -> None:
        async with self.locks.lock(self.name):
            task = asyncio.create_task(self.locks.acquire(self.name, wait_ms=120_000))
            await self.until_waiting(1)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
            await self.until_waiting(0)

    async def test_is_handed_the_lock_by_push_or_by_polling(self) -> None:
        for push in (False, has_websockets()):
            other = AsyncHoldfast(URL, "python", patience=PATIENT, push=push)
            lock = await self.locks.acquire(self.name)
            task = asyncio.create_task(other.acquire(self.name, wait_ms=120_000))
            await self.until_waiting(1)
            while push and other._core.sockets._live is None:
                await asyncio.sleep(0.05)
            await lock.release()
            async with await task as granted:
                granted.check()
            await other.close()

    async def test_does_everything_else_too(self) -> None:
        async with self.locks.all([f"{self.name}:1", f"{self.name}:2"]) as both:
            self.assertEqual(len(both.fences), 2)
        async with self.locks.semaphore(self.name, 2), self.locks.semaphore(self.name, 2):
            pass
        async with self.locks.session() as session, session.lock(f"{self.name}:3"):
            self.assertEqual(len(await session.locks()), 1)

        async def count(now: Any) -> int:
            return (now or 0) + 1

        self.assertEqual(await self.locks.record(self.name).update(count), 1)

        async def work(lock: Any) -> str:
            lock.check()
            return "done"

        self.assertEqual((await self.locks.once(self.name, work)).value, "done")
        self.assertEqual(len([one async for one in self.locks.list(prefix=self.name)]), 4)

    async def test_elects_a_leader(self) -> None:
        elected = asyncio.Event()

        async def lead(term: Any) -> None:
            elected.set()
            await term.over.wait()

        election = self.locks.elect(self.name, lead)
        await elected.wait()
        self.assertTrue(election.is_leader)
        await election.close()
        self.assertEqual((await self.locks.inspect(self.name)).state, "free")


if __name__ == "__main__":
    unittest.main()
