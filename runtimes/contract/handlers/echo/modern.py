from flask import request


def main():
    return {"method": request.method, "data": request.get_json()}
