def main(event, context):
    return {"method": event["extensions"]["request"].method, "data": event["data"]}
