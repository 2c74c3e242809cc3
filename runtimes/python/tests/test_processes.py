"""Processes that a handler starts with multiprocessing: they find the handler's module and the sdk."""

import pytest
from test_path import package

POOL = """
import multiprocessing

def square(number):
    return number * number

def main(event, context):
    with multiprocessing.get_context("{method}").Pool(2) as pool:
        return str(pool.map(square, [1, 2, 3]))
"""
METHODS = ["fork", "forkserver", "spawn"]


@pytest.mark.parametrize("method", METHODS)
def test_a_pool_calls_functions_of_a_source_of_the_environment(serve, method):
    server = serve(POOL.format(method=method), FUNC_RUNTIME="python312").listening()
    assert [server.request().text for _ in range(2)] == ["[1, 4, 9]"] * 2


@pytest.mark.parametrize("method", METHODS)
def test_a_pool_calls_functions_of_a_file(serve, tmp_path, method):
    package(tmp_path, "handler", POOL.format(method=method))
    assert serve(None, FUNC_RUNTIME="python312").listening().request().text == "[1, 4, 9]"


@pytest.mark.parametrize("method", ["forkserver", "spawn"])
def test_a_started_process_has_the_sdk_and_the_modules_of_the_handler(serve, tmp_path, publisher, method):
    for place in ("", ".local"):
        package(tmp_path / place, "function_server", "raise ImportError('not the real one')\n")
    package(tmp_path / ".local", "sdk", "raise ImportError('not the real one')\n")
    package(tmp_path / ".local", "requests", "VERSION = 'mine'\n")
    source = f"""
import multiprocessing
import requests, sdk

def work(queue):
    sdk.emit_cloud_event("t", "s", 7)
    queue.put([sdk.get_function_name(), requests.VERSION])

def main():
    context = multiprocessing.get_context("{method}")
    queue = context.Queue()
    process = context.Process(target=work, args=(queue,))
    process.start()
    found = queue.get()
    process.join()
    return [*found, process.exitcode]
"""
    names = {"FUNC_RUNTIME": "python314", "FUNC_NAME": "pricing", "PUBLISHER_PROXY_ADDRESS": publisher.address}
    assert serve(source, **names).listening().request().text == '["pricing","mine",0]\n'
    assert [event["data"] for _, _, event in publisher.events] == [7]


def test_a_forked_process_ends_when_it_is_terminated(serve):
    source = """
import multiprocessing, time

def wait(begun):
    begun.set()
    time.sleep(600)

def main(event, context):
    fork = multiprocessing.get_context("fork")
    begun = fork.Event()
    process = fork.Process(target=wait, args=(begun,))
    process.start()
    begun.wait()
    process.terminate()
    process.join(30)
    return str(process.exitcode)
"""
    server = serve(source, FUNC_RUNTIME="python312").listening()
    assert [server.request().text for _ in range(2)] == ["-15"] * 2
