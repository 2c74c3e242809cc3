def main(event, context):
    return "grüß <b>dich</b>"
