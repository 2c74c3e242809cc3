import time


def main(event, context):
    print("began", flush=True)
    time.sleep(1.5)
    return {"finished": True}
