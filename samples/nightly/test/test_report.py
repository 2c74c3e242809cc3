"""The handler of the nightly report, called as the runtime calls it."""

import contextlib
import io
import pathlib
import textwrap
import unittest

MANIFEST = pathlib.Path(__file__).resolve().parent.parent / "report.yaml"


def load():
    """Takes the handler out of the manifest: the block below "source: |"."""
    block = MANIFEST.read_text().split("source: |\n", 1)[1].split("\n---", 1)[0]
    names = {}
    exec(compile(textwrap.dedent(block), "report", "exec"), names)
    return names["main"]


class ReportTest(unittest.TestCase):
    def printed(self, event):
        with contextlib.redirect_stdout(io.StringIO()) as out:
            load()(event, {})
        return out.getvalue().strip()

    def test_the_report_is_of_the_day_before_it_is_due(self):
        event = {"ce-type": "report.due.v1", "ce-id": "1", "data": {"until": "2027-01-01T01:00:00Z"}}
        self.assertEqual(self.printed(event), "report of 2026-12-31")

    def test_a_pulse_is_printed(self):
        self.assertEqual(self.printed({"ce-type": "pulse.v1", "ce-id": "7"}), "pulse 7")


if __name__ == "__main__":
    unittest.main()
