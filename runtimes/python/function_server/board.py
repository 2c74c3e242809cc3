"""Memory that all processes of the server share: each worker writes its own slot, every process reads all.

It shows the supervisor whether a worker serves and is alive, and adds up the
Function's metrics and its load, which any worker can serve.
"""

import gc
import mmap
import os
import signal
import time

STARTING, SERVING, RETIRING = 0.0, 1.0, 2.0
OTHER, GATEWAY, EVENTBRIDGE = range(3)  # the senders of requests
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, float("inf"))
GC_KEYS = ("collected", "uncollectable", "collections")
GENERATIONS = 3

_STATE, _HEARTBEAT, _PID, _REQUESTS, _RUNNING, _GC = 0, 1, 2, 3, 4, 7
_METHODS = _GC + GENERATIONS * len(GC_KEYS)
_CALLS, _FAILURES, _CREATED, _SUM, _BUCKETS = range(5)
_PER_METHOD = _BUCKETS + len(BUCKETS)
_SIZE = _METHODS + len(METHODS) * _PER_METHOD


class Board:
    """The memory; made before the workers are forked."""

    def __init__(self, slots):
        self._numbers = memoryview(mmap.mmap(-1, slots * _SIZE * 8)).cast("d")
        self.supervisor = os.getpid()
        self.slots = [Slot(self._numbers[i * _SIZE : (i + 1) * _SIZE], self.supervisor) for i in range(slots)]

    def processes(self):
        """Return the ids of the supervisor and of the workers that run."""
        return [self.supervisor, *(slot.pid for slot in self.slots if slot.pid)]

    def serving(self):
        """Return the slots of the workers that serve."""
        return [slot for slot in self.slots if slot.pid and slot.state == SERVING]

    def load(self):
        """Return the numbers of requests received, in progress, and in progress for a gateway and for the bridge."""
        requests, *running = (sum(column) for column in zip(*(slot.load for slot in self.slots), strict=True))
        return requests, sum(running), running[GATEWAY], running[EVENTBRIDGE]

    def methods(self):
        """Give, for each method in use: calls, failures, time of the first, seconds in all, counts by bucket."""
        for index, method in enumerate(METHODS):
            rows = [slot.method(index) for slot in self.slots]
            rows = [row for row in rows if row[_CALLS]]
            if rows:
                created = min(row[_CREATED] for row in rows)
                total = [sum(column) for column in zip(*rows, strict=True)]
                yield method, total[_CALLS], total[_FAILURES], created, total[_SUM], total[_BUCKETS:]

    def collections(self):
        """Return the garbage collector's numbers as (generation, key, value)."""
        for generation in range(GENERATIONS):
            for offset, key in enumerate(GC_KEYS):
                index = _GC + generation * len(GC_KEYS) + offset
                yield generation, key, sum(slot.numbers[index] for slot in self.slots)


class Slot:
    """The part of one worker. A worker that replaces it continues its counters."""

    def __init__(self, numbers, supervisor):
        self.numbers = numbers
        self._supervisor = supervisor
        self._collected = None

    @property
    def state(self):
        """STARTING, SERVING or RETIRING."""
        return self.numbers[_STATE]

    @state.setter
    def state(self, value):
        self.numbers[_STATE] = value

    def tell(self, state):
        """Change the state and wake the supervisor."""
        self.state = state
        if os.getppid() != self._supervisor:
            os._exit(1)
        os.kill(self._supervisor, signal.SIGUSR1)

    @property
    def heartbeat(self):
        """Changes while the worker's main loop turns."""
        return self.numbers[_HEARTBEAT]

    @property
    def pid(self):
        """The process id of the worker, 0 without one."""
        return int(self.numbers[_PID])

    @pid.setter
    def pid(self, value):
        self.numbers[_PID] = value

    def vacate(self):
        """Note that the worker has ended, and with it its requests."""
        self.pid = 0
        for index in range(_RUNNING, _GC):
            self.numbers[index] = 0

    @property
    def load(self):
        """The number of requests received, and the number of each sender's in progress, as a list."""
        return self.numbers[_REQUESTS:_GC].tolist()

    @property
    def running(self):
        """The number of requests in progress."""
        return sum(self.numbers[_RUNNING:_GC])

    def begin(self, sender):
        """Add a received request; not safe for threads."""
        self.numbers[_REQUESTS] += 1
        self.numbers[_RUNNING + sender] += 1

    def end(self, sender):
        """Remove a request in progress; not safe for threads."""
        self.numbers[_RUNNING + sender] -= 1

    def method(self, index):
        """Return the numbers of a method as a list."""
        begin = _METHODS + index * _PER_METHOD
        return self.numbers[begin : begin + _PER_METHOD].tolist()

    def count(self, index, seconds, failed):
        """Add one call; not safe for threads."""
        numbers = self.numbers
        begin = _METHODS + index * _PER_METHOD
        if not numbers[begin]:
            numbers[begin + _CREATED] = time.time()
        numbers[begin] += 1
        if failed:
            numbers[begin + _FAILURES] += 1
        numbers[begin + _SUM] += seconds
        bucket = begin + _BUCKETS
        for limit in BUCKETS:
            if seconds <= limit:
                break
            bucket += 1
        numbers[bucket] += 1

    def fail(self, index):
        """Add a failure to a call that is counted already; not safe for threads."""
        self.numbers[_METHODS + index * _PER_METHOD + _FAILURES] += 1

    def beat(self):
        """Show that the main loop turns, and record the garbage collector's numbers."""
        self.numbers[_HEARTBEAT] += 1
        stats = [stat[key] for stat in gc.get_stats() for key in GC_KEYS]
        if self._collected is None:  # continue from the numbers of an earlier worker
            self._collected = [self.numbers[_GC + i] for i in range(len(stats))]
        for i, value in enumerate(stats):
            self.numbers[_GC + i] = self._collected[i] + value
