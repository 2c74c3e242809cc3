def connect():
    raise TypeError("no address of the database")


connect()


def main(event, context):
    return {"answer": 42}
