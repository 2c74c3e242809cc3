import sdk
from flask import request


def main():
    sdk.emit_cloud_event("order.priced", "orders", {"price": 42, "was": request.get_json()}, {"eventtypeversion": "v1"})
    return {"emitted": True}
