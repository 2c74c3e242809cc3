def main():
    return "grüß <b>dich</b>"
