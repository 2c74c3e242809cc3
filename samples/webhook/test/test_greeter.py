"""The handler of the pushes, called as the runtime calls it."""

import contextlib
import io
import json
import pathlib
import textwrap
import unittest

SAMPLE = pathlib.Path(__file__).resolve().parent.parent


def load():
    """Takes the handler out of the manifest: the block below "source: |"."""
    block = (SAMPLE / "greeter.yaml").read_text().split("source: |\n", 1)[1].split("\n---", 1)[0]
    names = {}
    exec(compile(textwrap.dedent(block), "greeter", "exec"), names)
    return names["main"]


class GreeterTest(unittest.TestCase):
    def test_a_push_is_told(self):
        body = (SAMPLE / "push.http").read_text().split("\n\n", 1)[1]
        with contextlib.redirect_stdout(io.StringIO()) as out:
            load()({"ce-type": "github.push", "ce-subject": "shop/orders", "data": json.loads(body)}, {})
        self.assertEqual(out.getvalue().strip(), "ada pushed 2 commits to shop/orders, branch main")


if __name__ == "__main__":
    unittest.main()
