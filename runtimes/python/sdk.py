"""The module that a handler imports as `sdk`."""

from function_server import cloudevent, current


def get_cloud_event():
    """Return the request's CloudEvent, or None when the request carries none."""
    environ = current.environ()
    return cloudevent.to_cloud_event(environ) if environ is not None else None


def get_tracer():
    """Return a tracer of OpenTelemetry's library; its spans belong to the call's trace."""
    return current.runtime().tracing.tracer()


def emit_cloud_event(type, source, data, optional_attributes=None):  # noqa: A002 (the contract's name)
    """Publish a CloudEvent; raises when the publisher does not accept it."""
    current.runtime().publisher.emit(type, source, data, optional_attributes)


def get_function_name():
    """Return the Function's name."""
    return current.runtime().config.function_name


def get_namespace():
    """Return the Function's namespace."""
    return current.runtime().config.namespace


def get_runtime():
    """Return the runtime's name, such as python314."""
    return current.runtime().config.runtime


def get_timeout():
    """Return the seconds that a call may take."""
    return current.runtime().config.timeout


def get_body_size_limit():
    """Return the largest request body in MB."""
    return current.runtime().config.body_limit // (1024 * 1024)
