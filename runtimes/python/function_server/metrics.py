"""Renders /metrics with prometheus_client, which is imported by the first scrape.

The numbers are those of all workers. What a handler registers with the library
itself is there too, as the answering worker knows it.
"""

import threading

from . import board

_lock = threading.Lock()
_ready = []


def render(shared, environ):
    """Return content type and text in the format that the client requests."""
    import prometheus_client

    with _lock:
        if not _ready:
            _prepare(prometheus_client, shared)
            _ready.append(True)
    encode, content_type = prometheus_client.exposition.choose_encoder(environ.get("HTTP_ACCEPT"))
    return content_type, encode(prometheus_client.REGISTRY)


def _prepare(library, shared):
    """Replace the library's collectors for one process by collectors for all processes."""
    for collector in (library.PROCESS_COLLECTOR, library.GC_COLLECTOR):
        library.REGISTRY.unregister(collector)
    library.REGISTRY.register(_Function(shared))
    library.REGISTRY.register(_Processes(shared))


class _Function:
    def __init__(self, shared):
        self._board = shared

    def collect(self):
        from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily

        calls = CounterMetricFamily("function_calls", "Calls of the handler.", labels=["method"])
        failures = CounterMetricFamily("function_failures", "Calls that the handler failed.", labels=["method"])
        duration = HistogramMetricFamily("function_duration_seconds", "Duration of calls.", labels=["method"])
        for method, called, failed, created, seconds, counts in self._board.methods():
            calls.add_metric([method], called, created=created)
            failures.add_metric([method], failed, created=created)
            duration.add_metric([method], _cumulated(counts), seconds)
            duration.add_sample("function_duration_seconds_created", {"method": method}, created)
        return [calls, failures, duration]


def _cumulated(counts):
    total = 0
    buckets = []
    for limit, count in zip(board.BUCKETS, counts, strict=True):
        total += count
        buckets.append(("+Inf" if limit == float("inf") else str(limit), total))
    return buckets


class _Processes:
    """Adds up the process_* metrics of all processes, and the garbage collector's."""

    def __init__(self, shared):
        self._board = shared

    def collect(self):
        from prometheus_client import ProcessCollector
        from prometheus_client.core import CounterMetricFamily

        families = {}
        for pid in self._board.processes():
            for family in ProcessCollector(pid=lambda pid=pid: pid, registry=None).collect():
                known = families.setdefault(family.name, family)
                if known is not family:
                    known.samples[:] = map(_joined, known.samples, family.samples)
        for key in board.GC_KEYS:
            text = "Objects" if key != "collections" else "Runs"
            name = "python_gc_collections" if key == "collections" else f"python_gc_objects_{key}"
            families[key] = CounterMetricFamily(name, f"{text} by generation.", labels=["generation"])
        for generation, key, value in self._board.collections():
            families[key].add_metric([str(generation)], value)
        return families.values()


def _joined(one, other):
    if one.name == "process_start_time_seconds":
        return one._replace(value=min(one.value, other.value))
    if one.name == "process_max_fds":
        return one
    return one._replace(value=one.value + other.value)
