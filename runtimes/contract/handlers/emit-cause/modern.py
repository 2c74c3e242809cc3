import sdk


def main():
    sdk.emit_cloud_event("order.noted", "orders", None, {"rousecause": "mine"})
    return {"emitted": True}
