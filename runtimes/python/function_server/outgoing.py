"""Passes the trace on with every request that goes through http.client: requests, urllib3, urllib, boto3 and others.

http.client is changed when it is imported, and not imported for that.
"""

import sys

MODULE = "http.client"


def install(tracing):
    """Change the module now, or as soon as it is imported."""
    if MODULE in sys.modules:
        _change(sys.modules[MODULE], tracing)
    else:
        sys.meta_path.insert(0, _Finder(tracing))


class _Finder:
    def __init__(self, tracing):
        self._tracing = tracing

    def find_spec(self, name, path, target=None):
        if name != MODULE:
            return None
        import importlib.machinery

        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None:
            load = spec.loader.exec_module

            def exec_module(module):
                load(module)
                _change(module, self._tracing)

            spec.loader.exec_module = exec_module
        return spec


def _change(module, tracing):
    connection = module.HTTPConnection
    putrequest, putheader, endheaders, getresponse = (
        connection.putrequest,
        connection.putheader,
        connection.endheaders,
        connection.getresponse,
    )

    def begin(self, method, url, *args, **kwargs):
        self._function_request = (method, url)
        self._function_span = None
        return putrequest(self, method, url, *args, **kwargs)

    def send_headers(self, *args, **kwargs):
        method, url = getattr(self, "_function_request", ("", ""))
        traced = method and not getattr(self, "_function_untraced", False)
        if traced and not any(line.lower().startswith(b"traceparent:") for line in self._buffer):
            span = self._function_span = tracing.client(method, _full(self, url))
            for name, value in span.headers():
                putheader(self, name, value)
        try:
            return endheaders(self, *args, **kwargs)
        except BaseException as error:
            _end(self, None, type(error).__name__)
            raise

    def receive(self, *args, **kwargs):
        try:
            response = getresponse(self, *args, **kwargs)
        except BaseException as error:
            _end(self, None, type(error).__name__)
            raise
        _end(self, response.status)
        return response

    connection.putrequest, connection.endheaders, connection.getresponse = begin, send_headers, receive


def _end(connection, status, error=None):
    span = getattr(connection, "_function_span", None)
    if span is not None:
        connection._function_span = None
        span.end(status, error)


def _full(connection, url):
    """Return the whole URL without its query, which may have secrets."""
    url = url.partition("?")[0]
    if "://" in url:
        return url
    scheme = "https" if connection.default_port == 443 else "http"
    port = "" if connection.port == connection.default_port else f":{connection.port}"
    return f"{scheme}://{connection.host}{port}{url}"
