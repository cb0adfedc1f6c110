"""The Python client under the fault kit. docs/clients.md has the protocol."""

# ruff: noqa: A001, A002, T201
from __future__ import annotations

import json
import logging
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from holdfast import Holdfast, HoldfastError, Lock, Signal, sigv4

TICK_S = 0.02
# What users log must contain no secret.
logging.basicConfig(level=logging.DEBUG, stream=sys.stderr)

printing = threading.Lock()


def now_ms() -> float:
    return time.time() * 1_000


def tell(**line: Any) -> None:
    with printing:
        print(json.dumps(line), flush=True)


class Driver:
    def __init__(self) -> None:
        auth = sigv4() if os.environ.get("HOLDFAST_AUTH") == "sigv4" else None
        self.locks = Holdfast(os.environ["HOLDFAST_URL"], os.environ["HOLDFAST_NAMESPACE"], auth=auth)
        self.held: dict[str, Lock] = {}
        self.waiting: dict[str, Signal] = {}

    def acquire(self, id: str, lock: str, learns: str = "by the clock", **options: Any) -> None:
        names = {"leaseMs": "lease_ms", "waitMs": "wait_ms", "deadlineMs": "deadline_ms"}
        wanted = {names[key]: value for key, value in options.items()}
        cancel = self.waiting[id]
        try:
            held = self.locks.acquire(lock, cancel=cancel, **wanted)
        except HoldfastError as error:
            logging.exception("refused: %r", vars(error))
            tell(id=id, **{"is": "refused"}, code=error.code, at=now_ms())
            return
        logging.info("held: %r %r", held, vars(held))
        self.held[id] = held
        lost = held.lost
        self.work(id, held.fence, held.is_held if learns == "by the clock" else lambda: not lost.is_set())

    def work(self, id: str, fence: int, look: Callable[[], bool]) -> None:
        """Says that it works, as long as it may. The time is taken first: a pause before the look makes it no later."""
        while id in self.held:
            at = now_ms()
            is_held = look()
            if id not in self.held:
                return
            if not is_held:
                tell(id=id, **{"is": "lost"}, at=now_ms())
                return
            tell(id=id, **{"is": "working"}, at=at, fence=fence)
            time.sleep(TICK_S)

    def release(self, id: str) -> None:
        held = self.held.pop(id)
        try:
            result: Any = held.release()._asdict()
        except HoldfastError as error:
            result = str(error)
        tell(id=id, **{"is": "released"}, result=result, at=now_ms())

    def run(self) -> None:
        for line in sys.stdin:
            command = json.loads(line)
            do, id = command.pop("do"), command.get("id", "")
            if do == "acquire":
                self.waiting[id] = Signal()
                threading.Thread(target=self.acquire, kwargs=command, daemon=True).start()
            elif do == "release":
                threading.Thread(target=self.release, args=[id], daemon=True).start()
            elif do == "abort":
                self.waiting[id].fire()
            else:
                break
        self.locks.close()


Driver().run()
