def main(event, context):
    if "ce-id" not in event:
        return {"event": False}
    return {"event": True, "specversion": event["ce-specversion"], "time": bool(event["ce-time"])}
