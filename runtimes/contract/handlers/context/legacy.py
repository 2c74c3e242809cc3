def main(event, context):
    return {
        "name": context["function-name"],
        "namespace": context["namespace"],
        "runtime": context["runtime"],
        "timeout": context["timeout"],
    }
