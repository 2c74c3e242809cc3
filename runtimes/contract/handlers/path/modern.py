from flask import request


def main():
    query = request.query_string.decode()
    return request.path + ("?" + query if query else "")
