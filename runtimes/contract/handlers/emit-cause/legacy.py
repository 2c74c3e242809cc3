def main(event, context):
    event.emitCloudEvent("order.noted", "orders", None, {"rousecause": "mine"})
    return {"emitted": True}
