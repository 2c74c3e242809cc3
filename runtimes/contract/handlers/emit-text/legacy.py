def main(event, context):
    event.emitCloudEvent("order.noted", "orders", "grüß dich")
    return {"emitted": True}
