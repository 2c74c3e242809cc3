from flask import request


def main():
    return "got " + request.get_data(as_text=True)
