import sdk


def main():
    sdk.emit_cloud_event("order.noted", "orders", "grüß dich", {"not-valid": "x"})
    return {"emitted": True}
