def main(event, context):
    raise ValueError("the secret reason")
