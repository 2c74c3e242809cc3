import no_such_package


def main(event, context):
    return no_such_package.call()
