"""The search path of a handler's modules, and the number of processes."""

import os
import sys

import pytest
from conftest import ROOT

LEGACY = {"FUNC_RUNTIME": "python312"}
MODERN = {"FUNC_RUNTIME": "python314"}


def package(directory, name, text):
    """Write a module into a directory."""
    directory.mkdir(exist_ok=True, parents=True)
    (directory / f"{name}.py").write_text(text)


def test_dependencies_and_modules_of_the_directory_are_found_for_a_source_of_the_environment(serve, tmp_path):
    package(tmp_path / ".local", "dependency", "A = 'a'\n")
    package(tmp_path, "neighbour", "B = 'b'\n")
    source = "import dependency, neighbour\ndef main(event, context):\n    return dependency.A + neighbour.B\n"
    assert serve(source, **LEGACY).listening().request().text == "ab"


def test_without_a_source_in_the_environment_the_directorys_handler_is_loaded(serve, tmp_path):
    package(tmp_path / ".local", "dependency", "A = 'a'\n")
    package(tmp_path, "handler", "import dependency\ndef main(event, context):\n    return dependency.A\n")
    assert serve(None, **LEGACY).listening().request().text == "a"


def test_the_image_has_its_directory_at_kubeless(app):
    assert (app.parents[2] / "kubeless").is_dir()


def test_server_runs_in_a_read_only_directory(serve, tmp_path):
    package(tmp_path, "handler", "def main(event, context):\n    return 'x'\n")
    server = serve(None, **LEGACY).listening()
    assert server.request().text == "x"
    assert sorted(os.listdir(tmp_path)) == ["handler.py", "termination-log"]


@pytest.mark.parametrize("name", ["flask", "bottle", "requests", "opentelemetry", "cloudevents"])
def test_dependency_takes_precedence_over_the_same_package_of_the_runtime(serve, tmp_path, name):
    package(tmp_path / ".local", name, "VERSION = 'mine'\n")
    source = f"def main(event, context):\n    name = '{name[::-1]}'[::-1]\n    return __import__(name).VERSION\n"
    assert serve(source, **LEGACY).listening().request().text == "mine"


@pytest.mark.parametrize("name", ["waitress", "function_server"])
@pytest.mark.parametrize("place", ["", ".local"])
def test_dependency_does_not_replace_the_servers_own_packages(serve, tmp_path, name, place):
    package(tmp_path / place, name, "raise ImportError('not the real one')\n")
    source = f"import {name}\ndef main(event, context):\n    return {name}.__file__\n"
    answer = serve(source, **LEGACY).listening().request()
    assert answer.status == 200
    assert not answer.text.startswith(str(tmp_path))


def test_the_sdk_of_the_new_api_is_always_the_servers(serve, tmp_path):
    package(tmp_path / ".local", "sdk", "raise ImportError('not the real one')\n")
    source = "import sdk\ndef main():\n    return sdk.get_runtime()\n"
    assert serve(source, **MODERN).listening().request().text == "python314"


@pytest.mark.parametrize("name", ["dataclasses", "typing", "enum", "json"])
def test_a_dependency_does_not_replace_the_standard_library(serve, tmp_path, name):
    package(tmp_path / ".local", name, "raise ImportError('an old backport')\n")
    source = f"import {name}, sdk\ndef main():\n    return 'x'\n"
    assert serve(source, **MODERN).listening().request().text == "x"


def test_function_module_takes_precedence_over_a_dependency(serve, tmp_path):
    package(tmp_path, "prices", "A = 'own'\n")
    package(tmp_path / ".local", "prices", "A = 'dependency'\n")
    source = "import prices\ndef main(event, context):\n    return prices.A\n"
    assert serve(source, **LEGACY).listening().request().text == "own"


def test_pth_files_of_dependencies_are_read(serve, tmp_path):
    package(tmp_path / ".local" / "inner", "deep", "A = 'deep'\n")
    (tmp_path / ".local" / "inner.pth").write_text("inner\n")
    source = "import deep\ndef main(event, context):\n    return deep.A\n"
    assert serve(source, **LEGACY).listening().request().text == "deep"


# The packages of Kyma's images, except parts of their servers without a wheel or a use for handlers.
PROVIDED = [
    "bottle",
    "cheroot.wsgi",
    "cloudevents.http",
    "flask",
    "opentelemetry.exporter.otlp.proto.http.trace_exporter",
    "opentelemetry.instrumentation.requests",
    "opentelemetry.propagators.b3",
    "opentelemetry.sdk.trace",
    "prometheus_client",
    "requests",
    "setuptools",
]


@pytest.mark.parametrize("runtime", [LEGACY, MODERN], ids=["legacy", "modern"])
def test_packages_of_the_runtime_are_importable(serve, runtime):
    source = f"import {', '.join(PROVIDED)}\ndef main(*arguments):\n    return 'x'\n"
    assert serve(source, **runtime).listening().request().text == "x"


def test_packages_of_the_runtime_are_not_loaded_until_imported(serve):
    names = {name.partition(".")[0] for name in PROVIDED}
    source = f"import sys\nfound = sorted({names!r} & sys.modules.keys())\ndef main():\n    return found\n"
    # The source contains the names, so a framework may load after the handler.
    assert serve(source, **MODERN).listening().request().text == "[]\n"


GIB = 1024**3
CORES = {
    "no limit": ({"cpu.max": "max 100000\n"}, 4, 4),
    "no files": ({}, 2, 2),
    "no limit on a large machine": ({}, 64, 8),
    "less than a core": ({"cpu.max": "10000 100000\n"}, 4, 1),
    "one core": ({"cpu.max": "100000 100000\n"}, 4, 1),
    "a core and a half": ({"cpu.max": "150000 100000\n"}, 4, 2),
    "more than the machine has": ({"cpu.max": "800000 100000\n"}, 4, 4),
    "cgroup version 1": ({"cpu/cpu.cfs_quota_us": "200000\n", "cpu/cpu.cfs_period_us": "100000\n"}, 8, 2),
    "cgroup version 1 without a limit": ({"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, 3, 3),
    "little memory": ({"cpu.max": "400000 100000\n", "memory.max": str(GIB // 5)}, 4, 2),
    "next to no memory": ({"cpu.max": "400000 100000\n", "memory.max": str(GIB // 64)}, 4, 1),
    "memory without a limit": ({"cpu.max": "200000 100000\n", "memory.max": "max\n"}, 4, 2),
}


@pytest.mark.parametrize("name", CORES)
def test_the_number_of_processes_follows_the_containers_limits(name, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [str(ROOT), *sys.path])
    from function_server import cores

    files, affinity, want = CORES[name]
    for file, text in files.items():
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text(text)
    assert cores.processes(str(tmp_path), affinity) == want
