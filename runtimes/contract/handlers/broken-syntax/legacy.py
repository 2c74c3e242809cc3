def main(event, context:
    return {"answer": 42}
