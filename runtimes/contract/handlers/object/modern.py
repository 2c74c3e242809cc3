def main():
    return {"answer": 42}
