import time


def main():
    time.sleep(1.5)
    return {"finished": True}
