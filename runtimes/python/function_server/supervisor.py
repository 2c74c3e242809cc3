"""PID 1: starts and ends the workers, and replaces a worker that dies, hangs or has lost too many threads.

It does nothing else, so that a handler cannot stop it: it fetches signals
instead of receiving them, and reaps every child, also those of handlers.
"""

import contextlib
import fcntl
import gc
import os
import signal
import sys
import time

from . import board, failure

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD, signal.SIGUSR1)
F_SETSIG = 10  # Linux's number; Python has no name for it
TICK_SECONDS = 1
HANG_GRACE_SECONDS = 10
DEATHS, DEATHS_WITHIN_SECONDS = 5, 60
RETRY_SECONDS = 5


class Supervisor:
    """Runs config.processes workers until a signal ends it; each calls work(slot, first)."""

    def __init__(self, config, shared, work):
        self._config = config
        self._board = shared
        self._work = work
        self._workers = {}  # by process id
        self._deaths = []
        self._stopping = False
        self._retry_at = None

    def run(self):
        """Run until the end, and return the exit code."""
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        # A shell's background jobs ignore it, and a worker that has just started would lose an ignored signal.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        gc.freeze()  # existing objects stay, and processes share their pages until one writes to them
        # Start one worker first: it has the CPU to itself, and a load failure is reported once.
        self._start(first=True)
        if self._config.ready is not None:
            with contextlib.suppress(OSError):
                os.close(self._config.ready)  # the first worker has a copy, and writes the port
        code = None
        while self._workers and code is None:
            received = signal.sigtimedwait(SIGNALS, TICK_SECONDS)
            if received and received.si_signo in (signal.SIGTERM, signal.SIGINT):
                self._stopping = True
                self._signal_all(received.si_signo)
            code = self._reap()
            if not self._stopping and code is None:
                self._watch()
                self._replace()
        return code or 0

    def _start(self, first=False):
        taken = {worker.slot for worker in self._workers.values()}
        slot = next(slot for slot in self._board.slots if slot not in taken)
        slot.state = board.STARTING
        rope = os.pipe()
        pid = os.fork()
        if pid == 0:
            self._become_worker(slot, first, rope)
        os.close(rope[0])
        slot.pid = pid
        self._workers[pid] = _Worker(slot, rope[1])

    def _become_worker(self, slot, first, rope):
        code = 1
        try:
            _end_with_supervisor(*rope)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
            code = self._work(slot, first)
        except SystemExit as error:
            code = error.code
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            with contextlib.suppress(OSError, ValueError):
                sys.stdout.flush()
            os._exit(code)  # hanging threads must not keep the process

    def _reap(self):
        """Reap every child that has ended; return an exit code when the server has to end."""
        code = None
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return code
            if pid == 0:
                return code
            worker = self._workers.pop(pid, None)
            if worker is None:
                continue
            worker.slot.vacate()
            os.close(worker.rope)
            if not self._stopping and not worker.retired:
                code = self._judge(worker, os.waitstatus_to_exitcode(status)) or code

    def _judge(self, worker, status):
        """Return an exit code when a worker's end also ends the server."""
        reason = f"signal {-status}" if status < 0 else f"exit code {status}"
        if worker.slot.state == board.STARTING:
            if not any(other.slot.state == board.SERVING for other in self._workers.values()):
                return self._give_up(None if status > 0 else f"handler did not load: its process ended with {reason}")
            self._retry_at = time.monotonic() + RETRY_SECONDS
            return None
        now = time.monotonic()
        self._deaths = [then for then in self._deaths if now - then < DEATHS_WITHIN_SECONDS] + [now]
        if len(self._deaths) > DEATHS:
            return self._give_up(f"the handler ends its process again and again: {reason}")
        print(f"a worker ended with {reason}; another one takes its place", file=sys.stderr, flush=True)
        return None

    def _give_up(self, text):
        if text:
            failure.report(text, self._config.termination_log)
        self._stopping = True
        self._signal_all(signal.SIGKILL)
        return 1

    def _watch(self):
        """Kill workers whose main loop hangs: Python's lock is held for longer than the timeout of calls."""
        for pid, worker in self._workers.items():
            if worker.hangs(self._config.timeout + HANG_GRACE_SECONDS):
                print(f"a worker hung for {worker.silent_seconds} seconds and is killed", file=sys.stderr, flush=True)
                os.kill(pid, signal.SIGKILL)

    def _replace(self):
        """Start missing workers; stop a worker that has lost too many threads once another serves in its place."""
        if any(worker.slot.state == board.STARTING for worker in self._workers.values()):
            return
        retiring = [pid for pid, worker in self._workers.items() if worker.slot.state == board.RETIRING]
        missing = self._config.processes - (len(self._workers) - len(retiring))
        if missing > 0:
            if self._retry_at is None or time.monotonic() >= self._retry_at:
                self._retry_at = None
                for _ in range(missing):
                    self._start()
            return
        for pid in retiring:
            if not self._workers[pid].retired:
                self._workers[pid].retired = True
                os.kill(pid, signal.SIGTERM)

    def _signal_all(self, number):
        for pid in self._workers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)


def _end_with_supervisor(read, write):
    """Have the kernel end this process when no process holds the other end of the pipe, even in a hang."""
    os.close(write)
    fcntl.fcntl(read, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(read, F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(read, fcntl.F_SETFL, fcntl.fcntl(read, fcntl.F_GETFL) | os.O_ASYNC)


class _Worker:
    def __init__(self, slot, rope):
        self.slot = slot
        self.rope = rope
        self.retired = False
        self._heartbeat = None
        self._ticks = 0
        self._checked = time.monotonic()

    @property
    def silent_seconds(self):
        return self._ticks * TICK_SECONDS

    def hangs(self, limit):
        """Count ticks instead of time, because time also passes while the whole container is frozen."""
        now = time.monotonic()
        if now - self._checked < TICK_SECONDS / 2:
            return False
        self._checked = now
        if self.slot.state == board.STARTING or self.slot.heartbeat != self._heartbeat:
            self._heartbeat = self.slot.heartbeat
            self._ticks = 0
            return False
        self._ticks += 1
        return self.silent_seconds > limit
