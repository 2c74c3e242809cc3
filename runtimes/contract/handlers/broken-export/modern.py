def handler(event, context):
    return {"answer": 42}
