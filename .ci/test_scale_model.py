"""Tests of the model of tools/scale/check.py, with closed forms."""

import importlib.util
import unittest
from pathlib import Path

PATH = Path(__file__).resolve().parent.parent / "tools/scale/check.py"
SPEC = importlib.util.spec_from_file_location("scale_check", PATH)
check = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(check)

WINDOWS = 100


class FixedExchange:
    """An exchange takes 3 us, whatever its size."""

    def us(self, _size):
        return 3.0


def time_per_window(computations, delay):
    """Returns the time of a window. `computations` has a function of the window for each machine."""
    compute = [[times(window) for window in range(WINDOWS)] for times in computations]
    sizes = [[0] * WINDOWS for _ in computations]
    return check.run_time_us(compute, sizes, FixedExchange(), delay) / WINDOWS


class Model(unittest.TestCase):
    def test_equal_machines_pay_the_delay_in_each_window(self):
        self.assertAlmostEqual(time_per_window([lambda _: 10.0] * 2, 4), 10 + 4 + 3)

    def test_one_machine_exchanges_nothing(self):
        self.assertAlmostEqual(time_per_window([lambda _: 10.0], 4), 10)

    def test_each_further_machine_costs_an_exchange(self):
        self.assertAlmostEqual(time_per_window([lambda _: 10.0] * 4, 4), 10 + 4 + 3 + 2 * 3)

    def test_a_machine_that_is_always_slower_does_not_wait(self):
        self.assertAlmostEqual(time_per_window([lambda _: 10.0, lambda _: 2.0], 4), 10 + 3)

    def test_random_imbalance_is_hidden_by_a_long_delay(self):
        slow_at = lambda chosen: lambda w: 14.0 if (w * 7919 // 13) % 2 == chosen else 10.0
        # In each window one of the machines is slow, in irregular order.
        machines = [slow_at(0), slow_at(1)]
        self.assertAlmostEqual(time_per_window(machines, 0), 14 + 3)
        self.assertLess(time_per_window(machines, 100), 13 + 100 + 3)


if __name__ == "__main__":
    unittest.main()
