"""Tests of module_cycles.py."""

import tempfile
import unittest
from pathlib import Path

from module_cycles import expand, find_cycles


class Cycles(unittest.TestCase):
    def cycles(self, **files: str) -> list[str]:
        with tempfile.TemporaryDirectory() as folder:
            for name, text in files.items():
                path = Path(folder) / (name.replace("__", "/") + ".rs")
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            return find_cycles(Path(folder))[1]

    def test_nested_use_trees_are_expanded(self):
        self.assertEqual(expand("crate::{a::B, c::{D, e::F}}"), [["crate", "a", "B"], ["crate", "c", "D"], ["crate", "c", "e", "F"]])

    def test_a_cycle_is_found(self):
        self.assertEqual(len(self.cycles(lib="mod a; mod b;", a="use crate::b::B;", b="fn f() { crate::a::g() }")), 1)

    def test_a_cycle_through_a_reexport_is_found(self):
        self.assertEqual(len(self.cycles(lib="mod a; mod b; pub use a::A;", a="use super::b::B;", b="use crate::A;")), 1)

    def test_tests_comments_and_one_direction_are_no_cycle(self):
        b = "// crate::a::A\n#[cfg(test)]\nmod tests { use crate::a::A; }"
        self.assertEqual(self.cycles(lib="mod a; mod b;", a="use crate::b::B;", b=b), [])

    def test_siblings_in_a_folder_are_checked(self):
        self.assertEqual(len(self.cycles(lib="mod p;", p__mod="mod a; mod b;", p__a="use super::b::B;", p__b="use super::a::A;")), 1)


if __name__ == "__main__":
    unittest.main()
