def main(event, context):
    event.emitCloudEvent("order.priced", "orders", {"price": 42, "was": event["data"]}, {"eventtypeversion": "v1"})
    return {"emitted": True}
