import sdk


def main():
    sdk.emit_cloud_event("order.noted", "orders", "grüß dich")
    return {"emitted": True}
