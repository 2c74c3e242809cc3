def main(event, context):
    event.emitCloudEvent("order.noted", "orders", "grüß dich", {"not-valid": "x"})
    return {"emitted": True}
