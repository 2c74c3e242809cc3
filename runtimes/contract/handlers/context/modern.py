import sdk


def main():
    return {
        "name": sdk.get_function_name(),
        "namespace": sdk.get_namespace(),
        "runtime": sdk.get_runtime(),
        "timeout": sdk.get_timeout(),
    }
