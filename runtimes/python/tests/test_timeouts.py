"""Handlers that exceed the timeout, hang, or end their process."""

import os
import re
import signal
import threading
import time

import pytest
from conftest import wait_for

TEXT = "Timeout while processing the function"
LEGACY = {"FUNC_RUNTIME": "python312"}

HANDLER = """
import threading, time

ended = []

def main(event, context):
    query = event["extensions"]["request"].query
    if "ended" in query:
        return ",".join(ended)
    try:
        while query.how == "sleep":
            print("sleeps", flush=True)
            time.sleep(0.2)
        while query.how == "loop":
            pass
        while query.how == "stubborn":
            try:
                time.sleep(0.01)
            except Exception:
                pass
    except BaseException as error:
        ended.append(type(error).__name__)
        raise
    return "ok"
"""


def children(pid):
    """Return the ids of a process's children."""
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(child) for child in file.read().split()]


@pytest.mark.parametrize("how", ["sleep", "loop", "stubborn"])
def test_caller_gets_a_response_in_time_and_the_handlers_call_ends(serve, how):
    server = serve(HANDLER, **LEGACY, FUNC_TIMEOUT="0.4").listening()
    answer = server.request(path=f"/?how={how}")  # does not end by itself
    assert (answer.status, answer.text) == (408, TEXT)
    wait_for(lambda: server.request(path="/?ended").text == "Expired")


def test_the_server_answers_while_handlers_hang(serve):
    server = serve(HANDLER, **LEGACY, CHERRYPY_NUMTHREADS="2").listening()
    threads = [threading.Thread(target=_text, args=(server, "/?how=sleep")) for _ in range(4)]
    for thread in threads:
        thread.start()
    server.printed("(?s)sleeps.*sleeps")
    assert server.request(path="/healthz").text == "OK"
    assert server.request(path="/metrics").status == 200
    assert all(thread.is_alive() for thread in threads)
    server.process.kill()
    for thread in threads:
        thread.join()


def test_hanging_threads_are_replaced_and_finally_the_worker(serve):
    source = """
import os, time

def main(event, context):
    if event["extensions"]["request"].path == "/pid":
        return str(os.getpid())
    time.sleep(600)
"""
    server = serve(source, **LEGACY, CHERRYPY_NUMTHREADS="10", FUNC_TIMEOUT="0.5").listening()

    def pid():
        text = server.request(path="/pid").text
        return text.isdigit() and text  # a busy machine may exceed the timeout here, too

    old = wait_for(pid)
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(server.request().status)) for _ in range(60)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [408] * 60
    wait_for(lambda: (new := pid()) and new != old)
    wait_for(lambda: int(old) not in children(server.process.pid))


def test_worker_that_holds_pythons_lock_forever_is_replaced(serve):
    # The exponential match runs in C and never lets another thread run.
    source = """
import re

def main(event, context):
    if event["extensions"]["request"].path == "/hang":
        re.match(r"(a+)+$", "a" * 64 + "b")
    return "ok"
"""
    server = serve(source, **LEGACY, FUNC_TIMEOUT="0.5").listening()
    threading.Thread(target=lambda: _text(server, "/hang"), daemon=True).start()
    server.printed("a worker hung for .* seconds and is killed")
    wait_for(lambda: _text(server) == "ok")


def test_dead_worker_is_replaced_and_its_counters_continue(serve):
    source = """
import os

def main(event, context):
    if event["extensions"]["request"].path == "/die":
        os._exit(3)
    return "ok"
"""
    server = serve(source, **LEGACY).listening()
    assert server.request().text == "ok"
    with pytest.raises(ConnectionError):
        server.request(path="/die")
    server.printed("a worker ended with exit code 3; another one takes its place")
    assert wait_for(lambda: _text(server)) == "ok"
    assert 'function_calls_total{method="GET"} 2.0' in server.request(path="/metrics").text


def _text(server, path="/"):
    try:
        return server.request(path=path).text
    except OSError:
        return None


def test_a_handler_that_always_ends_its_process_ends_the_server(serve):
    server = serve("import os\ndef main(event, context):\n    os._exit(3)\n", **LEGACY).listening()
    while server.process.poll() is None:
        try:
            server.request()
        except ConnectionError:
            time.sleep(0.05)
    assert server.process.returncode == 1
    assert "ends its process again and again: exit code 3" in server.termination_log.read_text()


def test_sys_exit_in_a_handler_is_an_error_and_does_not_end_the_server(serve):
    server = serve("import sys\ndef main(event, context):\n    sys.exit(1)\n", **LEGACY).listening()
    assert [server.request().status for _ in range(3)] == [500] * 3


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_all_workers_end_with_the_server(serve, number):
    server = serve("def main(event, context):\n    return 'x'\n", FUNC_RUNTIME="python312", SERVER_PROCESSES="3")
    server.listening()
    workers = wait_for(lambda: len(found := children(server.process.pid)) == 3 and found)
    server.process.send_signal(number)
    assert server.exit_code() == 0
    assert not [worker for worker in workers if os.path.exists(f"/proc/{worker}")]


def test_workers_do_not_outlive_a_killed_server(serve):
    server = serve("def main(event, context):\n    return 'x'\n", FUNC_RUNTIME="python312", SERVER_PROCESSES="2")
    server.listening()
    workers = wait_for(lambda: len(found := children(server.process.pid)) == 2 and found)
    server.process.kill()
    wait_for(lambda: not [worker for worker in workers if _runs(worker)])


def _runs(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return not re.search(r"\) [ZX] ", file.read())
    except FileNotFoundError:
        return False


def test_orphans_of_handlers_are_reaped_where_the_server_is_pid_1(serve):
    source = """
import os, subprocess

def main(event, context):
    subprocess.run(["sh", "-c", "sleep 0.05 &"])
    return "x"
"""
    server = serve(source, **LEGACY).listening()
    server.request()
    wait_for(lambda: len(children(server.process.pid)) == 1)


def test_loading_worker_does_not_outlive_the_server(serve):
    server = serve("print('loading', flush=True)\nimport time\ntime.sleep(600)\n", **LEGACY)
    server.printed("loading")
    [worker] = children(server.process.pid)
    server.process.kill()
    wait_for(lambda: not _runs(worker))
