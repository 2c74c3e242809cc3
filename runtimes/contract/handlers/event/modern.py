import sdk


def main():
    event = sdk.get_cloud_event()
    return {
        "id": event["id"],
        "type": event["type"],
        "source": event["source"],
        "version": event["eventtypeversion"],
        "data": event.data,
    }
