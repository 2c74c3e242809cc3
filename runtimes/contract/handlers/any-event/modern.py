import sdk


def main():
    event = sdk.get_cloud_event()
    if event is None:
        return {"event": False}
    return {"event": True, "specversion": event["specversion"], "time": bool(event["time"])}
