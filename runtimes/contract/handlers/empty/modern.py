def main():
    return ""
