from flask import request


def main():
    return request.path + "?" + request.query_string.decode()
