def main():
    return '{"created": true}', 201, {"X-Order": "7", "Content-Type": "application/vnd.order+json"}
