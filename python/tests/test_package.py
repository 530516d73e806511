"""Tests of the installed package, without other libraries than pytest."""

import doctest
import os
import signal
import threading
import time

import pytest

import poseidon_cc as pc

SHORT = {"stop": "2 ms"}


def run(law=None, **options):
    options = {"seeds": 1, "overrides": SHORT, "progress": False, **options}
    return pc.run("quickstart", law=law, **options)


class Window:
    """A constant window."""

    signals = []

    def __init__(self, path):
        self.window_packets = 5

    def on_ack(self, ack):
        return 5


def wrap(name, signals, **params):
    """A registered law, as a law in Python."""

    class Wrapped:
        def __init__(self, path):
            self.law = pc.Law(
                name, mtu=path.mtu_bytes, line_rate=path.line_rate_bps, base_rtt=path.base_rtt_ns, params=params
            )
            self.window_packets = self.law.decision
            self.on_ack = self.law.on_ack
            self.on_loss = self.law.on_loss
            self.on_timeout = self.law.on_timeout

    Wrapped.name = f"python-{name}"
    Wrapped.signals = signals
    return Wrapped


def arrivals(run):
    """The rows of the receivers without the name of the law."""
    rows = run.receivers.to_dict()
    del rows["law"], rows["cell"]
    return rows


@pytest.mark.parametrize("name, signals", [("poseidon", ["rtt", "max-hop-delay"]), ("swift", ["rtt", "hop-count"])])
def test_a_law_in_python_gives_the_same_run_as_in_rust(name, signals):
    python, rust = run(wrap(name, signals)), run(name)
    assert arrivals(python) == arrivals(rust)
    assert python.queues["waiting_bytes"] == rust.queues["waiting_bytes"]


def test_equal_runs_have_equal_results():
    first, second = run("poseidon", seeds=2, jobs=1), run("poseidon", seeds=2, jobs=2)
    assert first.result_hash == second.result_hash
    assert first.queues.to_dict() == second.queues.to_dict()
    assert run("poseidon", seeds=range(2, 3)).result_hash != first.result_hash


def test_a_run_has_verdicts_figures_and_metrics(tmp_path):
    result = pc.run("quickstart", seeds=1, progress=False)
    assert {verdict["outcome"] for verdict in result.verdicts} == {"holds"}
    figure = result.figure("rate")
    assert figure.svg.startswith("<svg") and figure.svg in figure._repr_html_()
    assert result.figure(0).title == result.figures[0]
    with pytest.raises(KeyError, match="victim"):
        result.figure("no such figure")
    metrics = result.metrics.to_dict()
    shares = [v for v, metric, law in zip(metrics["value"], metrics["metric"], metrics["law"])
              if metric == "victim.share" and law == "poseidon"]
    assert shares == [result.summary["law poseidon"]["all"]["victim.share"]]
    assert "Poseidon's victim" in result._repr_html_()
    page = result.save(tmp_path / "results")
    assert os.path.getsize(page) > 10_000
    assert (tmp_path / "results/quickstart/scenario.toml").exists()


def test_where_selects_runs():
    result = run(["poseidon", "swift"])
    swift = result.where(law="swift")
    assert set(swift.queues["cell"]) == {"law swift"}
    assert list(swift.summary) == ["law swift"]
    assert len(swift.queues) < len(result.queues)
    with pytest.raises(ValueError, match="poseidon, swift"):
        result.where(law="cubic")


def test_a_law_of_ones_own_and_its_cost():
    result = run(Window)
    assert set(result.receivers["law"]) == {"window"}
    assert "on one thread" in result.python_law_cost
    assert run("poseidon").python_law_cost is None


@pytest.mark.parametrize(
    "value, message",
    [
        (0.0, "return a number from 0.001 to 32768"),
        (float("nan"), "the window is NaN"),
        ("ten", "return the window in packets"),
        ((1.0, -5.0), "the pacing rate is -5"),
        ([], "return the window in packets"),
    ],
)
def test_an_invalid_decision_ends_the_run(value, message):
    class Bad(Window):
        def on_ack(self, ack):
            return value

    with pytest.raises((ValueError, TypeError), match=message):
        run(Bad)


def test_an_exception_of_a_law_reaches_the_caller():
    class Bad(Window):
        def on_ack(self, ack):
            raise LookupError(f"at {ack.now_ns} ns")

    with pytest.raises(LookupError, match="at .* ns"):
        run(Bad)

    def no_law(path):
        return object()

    with pytest.raises(AttributeError, match="on_ack"):
        run(no_law)


def test_laws_in_python_are_checked_before_the_run():
    class Needy(Window):
        signals = ["circuit-state"]

    with pytest.raises(pc.ScenarioError, match="circuit-state"):
        run(Needy)

    class Unknown(Window):
        signals = ["hope"]

    with pytest.raises(ValueError, match="there is no signal \"hope\"; there are rtt"):
        run(Unknown)
    with pytest.raises(ValueError, match="one thread"):
        run(Window, jobs=2)

    class Poseidon(Window):
        pass

    with pytest.raises(ValueError, match="another name"):
        run(Poseidon)


def test_a_run_inside_of_a_law():
    class Nested(Window):
        def __init__(self, path):
            self.window_packets = 1 + len(run("poseidon").queues) % 5

    assert len(run(Nested).queues) > 0


def test_pacing_and_none():
    class Paced(Window):
        def on_ack(self, ack):
            return (5, 1e9) if ack.packets else None

    slow, fast = run(Paced), run(Window)
    assert max(slow.receivers["received_bytes"]) < max(fast.receivers["received_bytes"])


def test_errors_are_those_of_the_command():
    scenario = pc.Scenario("quickstart")
    text = scenario.text.replace('law = "poseidon"', 'law = "poseidom"', 1)
    with pytest.raises(pc.ScenarioError):
        pc.Scenario.from_toml(text.replace("[topology]", "[topologie]"), name="mine.toml")
    with pytest.raises(pc.ScenarioError, match=r'quickstart.toml:.*"posseidon".*poseidon'):
        run("posseidon")
    with pytest.raises(pc.ScenarioError, match="lightyears"):
        run(overrides={"stop": "2 lightyears"})
    with pytest.raises(ValueError, match="quickstrat"):
        pc.run("quickstrat")
    for seeds in (0, range(3, 3), range(0, 8, 2), "many"):
        with pytest.raises(ValueError, match="seeds"):
            run(seeds=seeds)


def test_a_scenario_from_a_dict_equals_the_one_from_toml():
    tomllib = pytest.importorskip("tomllib")
    scenario = pc.Scenario("quickstart")
    again = pc.Scenario(tomllib.loads(scenario.text))
    assert again.cells == scenario.cells and len(scenario.cells) == 3
    assert again.check() == scenario.check()
    loop = {}
    loop["loop"] = loop
    with pytest.raises(ValueError, match="32 levels"):
        pc.Scenario(loop)
    with pytest.raises(ValueError, match="None"):
        pc.Scenario({"title": None})


def test_compare_decides_like_the_gate():
    result = pc.run("quickstart", law=["poseidon", "swift"], seeds=8, overrides=SHORT, progress=False)
    poseidon, swift = result.where(law="poseidon"), result.where(law="swift")
    assert pc.compare(poseidon, poseidon).verdict == "pass"
    worse = pc.compare(poseidon, swift, fail_if=["victim.rate_gbps < -5%"])
    assert worse.verdict == "fail" and not worse
    assert worse.to_dict()["comparisons"][0]["verdict"] == "fail"
    assert "law poseidon" in worse.to_text() and "law swift" in worse.to_text()
    with pytest.raises(ValueError, match="fail_if"):
        pc.compare(poseidon, swift, fail_if=["fast"])


def test_other_threads_run_meanwhile():
    count, stop = 0, threading.Event()

    def spin():
        nonlocal count
        while not stop.is_set():
            count += 1
            time.sleep(0.001)

    thread = threading.Thread(target=spin, daemon=True)
    thread.start()
    run("poseidon", overrides={"stop": "5 ms"})
    stop.set()
    thread.join()
    assert count > 10


@pytest.mark.parametrize("law", ["poseidon", Window])
def test_ctrl_c_ends_a_run(law):
    # A shell ignores the signal in commands that it starts in the background, and Python then installs no handler.
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    began = time.monotonic()
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            run(law, seeds=1000, overrides={"stop": "50 ms"}, rows=False)
        assert time.monotonic() - began < 20
    finally:
        timer.cancel()
        timer.join()
        signal.signal(signal.SIGINT, handler)


def test_progress_reaches_a_function():
    calls = []
    run("poseidon", seeds=3, overrides={"stop": "10 ms"}, progress=lambda *call: calls.append(call))
    assert all(total in (0, 3) and 0 <= share <= 1 for _, total, share in calls)

    def stop(*_):
        raise StopIteration("enough")

    with pytest.raises(StopIteration, match="enough"):
        run("poseidon", seeds=1000, overrides={"stop": "50 ms"}, rows=False, progress=stop)


def test_a_law_by_hand():
    law = pc.Law("poseidon", mtu=4096, line_rate="200 Gbps", base_rtt="8 us", params={"step": 0.5})
    assert law.params["step"] == "0.5" and "max-hop-delay" in law.needs
    before = law.decision.window_packets
    ack = pc.Ack(now_ns=30_000, rtt_ns=20_000, packets=1, max_hop_delay_ns=5_000_000)
    assert law.on_ack(ack).window_packets < before
    assert law.is_congested(ack) and law.delay_ns(ack) == 5_000_000 and law.target_ns() > 0
    with pytest.raises(ValueError, match="line rate"):
        pc.Law("poseidon", mtu=4096, line_rate=0, base_rtt="8 us")
    with pytest.raises(ValueError, match="there is no law"):
        pc.Law("custom", mtu=4096, line_rate=10**9, base_rtt="8 us")
    with pytest.raises(ValueError, match="max-hop-delay"):
        pc.Law("poseidon", mtu=4096, line_rate=10**9, base_rtt="8 us", signals=["rtt"])
    with pytest.raises(OverflowError):
        pc.Ack(now_ns=-1)


def test_every_law_can_be_stepped():
    for name in pc.laws():
        law = pc.Law(name, mtu=1500, line_rate=10**10, base_rtt=20_000)
        law.on_ack(now_ns=50_000, rtt_ns=25_000, packets=1, acked_bytes=1500)
        assert law.on_loss(60_000) == law.decision
        law.on_trim(65_000, trimmed_bytes=1500, in_flight_bytes=3000, rtt_ns=25_000)
        assert law.on_timeout(70_000, lost_bytes=3000).window_packets > 0


def test_docstrings_and_the_readme():
    here = os.path.dirname(__file__)
    assert doctest.testmod(pc).failed == 0
    readme = os.path.join(here, "..", "README.md")
    assert doctest.testfile(readme, module_relative=False).failed == 0
