def main(event, context):
    pass
