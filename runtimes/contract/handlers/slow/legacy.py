import time


def main(event, context):
    time.sleep(1.5)
    return {"finished": True}
