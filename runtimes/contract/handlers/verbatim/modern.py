TEXT = "$$$ b $(FUNC_NAME) c \\n d \u00e9 ü 漢 🦉 `"


def main():
    return TEXT
