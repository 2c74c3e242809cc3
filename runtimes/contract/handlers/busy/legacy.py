def main(event, context):
    while True:
        pass
