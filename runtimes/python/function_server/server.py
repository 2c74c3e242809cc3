"""Starts a Function: binds its address, and starts workers that load the handler and serve."""

import os
import socket
import sys

from . import app, board, failure, handler, listener, path, process
from .config import Config
from .stop import Stop
from .supervisor import Supervisor

DIRECTORY = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def main():
    """Run until a signal ends the server; return the exit code of the process."""
    config = _configure()
    try:
        bound = _bind(config)
    except OSError as error:
        failure.report(f"cannot listen on {config.host}:{config.port}: {error}", config.termination_log)
        sys.exit(1)
    shared = board.Board(2 * config.processes + 1)
    supervisor = Supervisor(config, shared, lambda slot, first: _work(config, bound, shared, slot, first))
    sys.exit(supervisor.run())


def _configure():
    if not os.environ.get("FUNC_STAND_IN"):
        return Config(os.environ)
    from . import standin

    descriptor = standin.wait(os.environ)
    config = Config(os.environ)
    config.ready, config.ready_text = descriptor, standin.READY
    return config


def _bind(config):
    """Bind without listening: the first worker with a loaded handler listens."""
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.bind((config.host, config.port))
    return bound


def _work(config, bound, shared, slot, first):
    """Load the handler, and only then listen, so that a server that accepts can serve."""
    stop = Stop()
    traces = process.begin(config)
    path.arrange(config, DIRECTORY)
    try:
        application = app.create(handler.load(config), config, shared, slot)
    except BaseException as error:  # a module may raise SystemExit while it loads
        failure.report(failure.describe(error), config.termination_log)
        return 1
    traces.join_library()
    server = listener.create(application, config, bound, shared, slot)
    stop.attach(server.pull_trigger)
    if first:
        print(f"listening on {config.host}:{server.effective_port}", flush=True)
        if config.ready is not None and not _write_ready(config, server.effective_port):
            return 1
    slot.tell(board.SERVING)
    server.serve(lambda: stop.begun)
    traces.flush()
    return 0


def _write_ready(config, port):
    """Write to the process that waits for the server, by default the port; when that fails, the start fails."""
    try:
        os.write(config.ready, config.ready_text or f"{port}\n".encode())
        os.close(config.ready)
    except OSError as error:
        reader = "the controller" if config.ready_text else f"FUNC_READY_FD={config.ready}"
        failure.report(f"cannot write to {reader}: {error}", config.termination_log)
        return False
    return True
