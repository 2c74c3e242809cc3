"""The threads that call the handler."""

import collections
import threading
import traceback

from .current import Expired


class Pool:
    """Runs tasks on at most limit threads, started when needed.

    The thread that became idle last is used first: its memory is still in the
    CPU's caches, and a Function with few calls at once needs few threads.
    A task that raises Expired takes its thread with it; abandon frees a slot for
    another one before that.
    """

    def __init__(self, limit):
        self._limit = limit
        self._count = 0
        self._lock = threading.Lock()
        self._idle = []
        self._queue = collections.deque()

    def add_task(self, task):
        """Run the task as soon as a thread is free."""
        with self._lock:
            if self._idle:
                thread = self._idle.pop()
                thread.task = task
                thread.wake.release()
                return
            if self._count >= self._limit:
                self._queue.append(task)
                return
            self._count += 1
        _Thread(self, task).start()

    def abandon(self):
        """Count a thread as lost."""
        with self._lock:
            self._count -= 1
            task = self._queue.popleft() if self._queue else None
        if task is not None:
            self.add_task(task)

    def full(self):
        """Report whether a new task would have to wait."""
        return not self._idle and self._count >= self._limit

    def shutdown(self, cancel_pending=True, timeout=5):
        """Do nothing: the threads end with the process. The name is waitress's."""

    def _next(self, thread):
        """Return the next waiting task for a thread, or note that the thread is idle."""
        with self._lock:
            if self._queue:
                return self._queue.popleft()
            self._idle.append(thread)
            return None


class _Thread(threading.Thread):
    def __init__(self, pool, task):
        super().__init__(daemon=True)
        self.pool = pool
        self.task = task
        self.wake = threading.Lock()
        self.wake.acquire()

    def run(self):
        while True:
            try:
                self.task.service()
            except Expired:
                return
            except BaseException:
                traceback.print_exc()
            self.task = self.pool._next(self)
            if self.task is None:
                self.wake.acquire()
