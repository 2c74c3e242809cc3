import time


def main():
    print("began", flush=True)
    time.sleep(1.5)
    return {"finished": True}
