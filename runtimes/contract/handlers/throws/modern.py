def main():
    raise ValueError("the secret reason")
