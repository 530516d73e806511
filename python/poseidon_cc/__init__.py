"""Congestion-control laws and a packet-level simulator of datacenter networks.

>>> import poseidon_cc as pc
>>> run = pc.run("quickstart", law="poseidon", seeds=1, progress=False)
>>> run.verdicts[0]["outcome"]
'holds'
>>> len(run.queues) > 0
True

`run` runs a scenario and returns its rows, verdicts and figures. `Law` steps one flow of a law by hand. A class with
`on_ack` is a law of your own.
"""

from ._core import (
    Ack,
    Comparison,
    Decision,
    Figure,
    Hop,
    Law,
    Path,
    PoseidonError,
    Run,
    Scenario,
    ScenarioError,
    Table,
    __version__,
    compare,
    laws,
    scenarios,
)
from ._core import run as _run
from ._progress import choose_progress as _choose_progress

__all__ = [
    "Ack",
    "Comparison",
    "Decision",
    "Figure",
    "Hop",
    "Law",
    "Path",
    "PoseidonError",
    "Run",
    "Scenario",
    "ScenarioError",
    "Table",
    "__version__",
    "compare",
    "laws",
    "run",
    "scenarios",
]


def _name_of(law):
    """Returns the name of a law in Python, as tables and figures show it."""
    name = getattr(law, "name", None) or getattr(law, "__name__", None)
    if not isinstance(name, str):
        raise TypeError(f"the law {law!r} has no name; use a class or a function, or set its attribute name")
    return name.lower()


def run(
    scenario,
    *,
    law=None,
    seeds=None,
    overrides=None,
    jobs=None,
    quick=False,
    rows=True,
    progress=None,
):
    """Runs a scenario.

    Args:
        scenario: the name of a built-in scenario, a file, a dict or a `Scenario`.
        law: the name of a law, a law in Python, or a list of them. Replaces the laws of the scenario.
        seeds: the number of seeds, which start at 1, or a range of seeds. By default, as the scenario says.
        overrides: values of keys, such as ``{"laws.hpcc.paced": True, "stop": "2 ms"}``.
        jobs: the number of parallel runs. By default, one per core; with laws in Python, one.
        quick: whether to use the shorter runs that the scenario defines.
        rows: whether to keep the rows (`Run.messages`, `Run.queues`, ...) in memory.
        progress: whether to show progress, or a function of (finished runs, all runs, share of the work).
            By default, on a terminal and in notebooks.

    The call releases the GIL and can be interrupted with Ctrl-C. It raises `ScenarioError` if the scenario is invalid.

    A law in Python is a class. It is called with a `Path` for each flow, and its method ``on_ack(ack)`` returns the
    window in packets, a pair of the window and a pacing rate in bit/s, or a `Decision`:

    >>> class Halving:
    ...     signals = ["rtt"]
    ...     def __init__(self, path):
    ...         self.base = path.base_rtt_ns
    ...         self.window = 1.0
    ...     def on_ack(self, ack):
    ...         if ack.rtt_ns > 2 * self.base:
    ...             self.window /= 2
    ...         else:
    ...             self.window += ack.packets / self.window
    ...         self.window = min(max(self.window, 0.01), 1000)
    ...         return self.window
    >>> run = run("quickstart", law=Halving, seeds=1, overrides={"stop": "1 ms"}, progress=False)
    >>> run.python_law_cost.split(":")[0]
    'laws in Python'
    """
    if law is None:
        chosen = []
    elif isinstance(law, (list, tuple)):
        chosen = list(law)
    else:
        chosen = [law]
    names = [entry if isinstance(entry, str) else _name_of(entry) for entry in chosen]
    python_laws = [
        (name, entry, getattr(entry, "signals", ["rtt"]))
        for name, entry in zip(names, chosen)
        if not isinstance(entry, str)
    ]
    builtin = set(laws())
    for name, _, _ in python_laws:
        if name in builtin or names.count(name) > 1:
            raise ValueError(f"there are two laws {name!r}; give the law in Python another name")
    reporter = _choose_progress(progress)
    with reporter:
        return _run(
            scenario,
            laws=names,
            python_laws=python_laws,
            seeds=seeds,
            overrides=overrides,
            jobs=jobs,
            quick=quick,
            rows=rows,
            on_progress=reporter.callback,
        )
