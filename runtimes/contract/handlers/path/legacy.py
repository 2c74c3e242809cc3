def main(event, context):
    request = event["extensions"]["request"]
    return request.path + ("?" + request.query_string if request.query_string else "")
