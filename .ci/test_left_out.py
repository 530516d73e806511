"""Tests of left_out.py."""

import json
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import left_out


class LeftOut(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write(self, path, text):
        path = self.folder / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return str(path)

    def test_ignored_tests_are_listed_by_reason(self):
        self.write(
            "tests/a.rs",
            '#[test]\n#[ignore = "an hour: .ci/long"]\nfn slow() {}\n'
            '#[tokio::test]\n#[ignore = "an hour: .ci/long"]\nasync fn slower() {}\n'
            '#[test]\n#[ignore = "needs root: .ci/linux"]\nfn with_root() {}\n'
            '#[test]\n#[ignore = "not a test: a host"]\nfn host() {}\n',
        )
        log = self.write("log", "Summary [ 1.0s] 9 tests run: 9 passed, 4 skipped\n")
        said = left_out.ignored_tests(log, str(self.folder))
        self.assertEqual(said, ["tests: slow, slower: an hour: .ci/long"])

    def test_a_number_that_does_not_fit_is_said(self):
        log = self.write("log", "Summary [ 1.0s] 9 tests run: 9 passed, 4 skipped\n")
        said = left_out.ignored_tests(log, str(self.folder))
        self.assertEqual(said, ["tests: nextest skipped 4 tests, and the sources have 0 ignored ones"])

    def test_ignored_examples_are_counted(self):
        line = "test result: ok. 3 passed; 0 failed; %d ignored; 0 measured; 0 filtered out\n"
        self.assertEqual(len(left_out.ignored_doctests(self.write("log", line % 0))), 0)
        said = left_out.ignored_doctests(self.write("log", line % 2 + line % 1))
        self.assertEqual(said, ["doctests: 3 examples that are marked `ignore`"])

    def test_claims_that_were_not_run_have_their_reason(self):
        listed = self.write("list.json", json.dumps([{"name": "p/a"}, {"name": "p/b"}]))
        self.write("p/a/verdicts.json", json.dumps({"cut": "1 of 9 seeds", "verdicts": [{"outcome": "holds"}]}))
        verdicts = [{"outcome": "holds"}, {"outcome": "not-run"}]
        self.write("p/b/verdicts.json", json.dumps({"cut": "not run: too slow", "verdicts": verdicts}))
        self.assertEqual(left_out.claims(listed, str(self.folder)), ["claims: p/b: 1 of 2 claims: too slow"])


if __name__ == "__main__":
    unittest.main()
