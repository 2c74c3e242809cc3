import bottle


def main(event, context):
    return bottle.HTTPResponse('{"created": true}', 201, {"X-Order": "7", "Content-Type": "application/vnd.order+json"})
