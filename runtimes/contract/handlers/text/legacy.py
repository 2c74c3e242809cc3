def main(event, context):
    return "got " + event["extensions"]["request"].body.read().decode()
