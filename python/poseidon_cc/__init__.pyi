from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any, Literal, Protocol, TypedDict, final

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

__version__: str

_Quantity = str | int
_Overrides = dict[str, Any]
_Progress = bool | Callable[[int, int, float], object] | None

class PoseidonError(Exception):
    """A run, a result or a comparison failed."""

class ScenarioError(ValueError):
    """A scenario is invalid. The message names the file, the line, the key and a remedy."""

@final
class Path:
    """What is known about a path when a flow starts."""

    @property
    def mtu_bytes(self) -> int: ...
    @property
    def line_rate_bps(self) -> int: ...
    @property
    def base_rtt_ns(self) -> int: ...
    @property
    def bdp_packets(self) -> float:
        """The bandwidth-delay product in packets."""

@final
class Hop:
    """The telemetry of one hop."""

    def __init__(self, *, timestamp_ns: int, sent_bytes: int, queue_bytes: int, rate_bps: int) -> None: ...
    @property
    def timestamp_ns(self) -> int: ...
    @property
    def sent_bytes(self) -> int: ...
    @property
    def queue_bytes(self) -> int: ...
    @property
    def rate_bps(self) -> int: ...

@final
class Ack:
    """An ACK and the signals that it carries."""

    def __init__(
        self,
        *,
        now_ns: int = 0,
        rtt_ns: int = 0,
        packets: int = 0,
        acked_bytes: int = 0,
        marked_bytes: int = 0,
        acked_seq: int = 0,
        next_seq: int = 0,
        in_flight_bytes: int = 0,
        rtt_ambiguous: bool = False,
        max_hop_delay_ns: int | None = None,
        reverse_max_hop_delay_ns: int | None = None,
        hops: Sequence[Hop] = (),
        wrap_timestamp_ns: int = 0,
        wrap_sent_bytes: int = 0,
        endpoint_delay_ns: int = 0,
        hop_count: int = 0,
        circuit_up: bool = False,
        app_limited: bool = False,
        random: int = 0,
    ) -> None: ...
    @property
    def now_ns(self) -> int:
        """When the ACK arrived."""
    @property
    def rtt_ns(self) -> int:
        """The round-trip time of the acknowledged packet."""
    @property
    def packets(self) -> int:
        """The number of newly acknowledged packets; zero for a duplicate ACK."""
    @property
    def acked_bytes(self) -> int: ...
    @property
    def marked_bytes(self) -> int:
        """The newly acknowledged bytes that carried a congestion mark."""
    @property
    def acked_seq(self) -> int:
        """All bytes before this sequence number are acknowledged."""
    @property
    def next_seq(self) -> int:
        """The sequence number of the next new byte."""
    @property
    def in_flight_bytes(self) -> int:
        """The bytes in flight after this ACK."""
    @property
    def rtt_ambiguous(self) -> bool:
        """Whether `rtt_ns` may belong to another transmission of the packet."""
    @property
    def max_hop_delay_ns(self) -> int | None:
        """The largest queueing delay of any hop on the data path; `None` without telemetry."""
    @property
    def reverse_max_hop_delay_ns(self) -> int | None: ...
    @property
    def hops(self) -> list[Hop]: ...
    @property
    def wrap_timestamp_ns(self) -> int: ...
    @property
    def wrap_sent_bytes(self) -> int: ...
    @property
    def endpoint_delay_ns(self) -> int: ...
    @property
    def hop_count(self) -> int: ...
    @property
    def circuit_up(self) -> bool: ...
    @property
    def app_limited(self) -> bool:
        """Whether less than half of the window was in flight."""
    @property
    def random(self) -> int:
        """A uniform random number of 32 bits, which depends only on the seed."""

@final
class Decision:
    """How much a host may send, and how fast."""

    def __init__(
        self, window_packets: float, *, pacing_bps: float | None = None, gap_ns: int | None = None
    ) -> None: ...
    @property
    def window_packets(self) -> float:
        """The window in packets, which may be below one."""
    @property
    def pacing_bps(self) -> int | None: ...
    @property
    def gap_ns(self) -> int | None: ...

class PythonLaw(Protocol):
    """One flow of a law in Python. `on_loss(now_ns)`, `on_timeout(now_ns)`, `is_congested(ack)` and
    `on_trim(now_ns, *, trimmed_bytes, in_flight_bytes, last_hop, rtt_ns)` are optional.

    The attribute `window_packets`, if there is one, is the window until the first ACK.
    """

    def on_ack(self, ack: Ack, /) -> float | tuple[float, float | None] | Decision | None: ...

_Law = str | Callable[[Path], PythonLaw]

@final
class Law:
    """One flow of a registered law, whose ACKs the caller supplies.

    >>> law = Law("poseidon", mtu=4096, line_rate="200 Gbps", base_rtt="8 us")
    >>> law.on_ack(now_ns=30_000, rtt_ns=20_000, packets=1, max_hop_delay_ns=12_000).window_packets < 50
    True
    """

    def __init__(
        self,
        name: str,
        *,
        mtu: _Quantity,
        line_rate: _Quantity,
        base_rtt: _Quantity,
        params: dict[str, str | float | bool] | None = None,
        signals: Sequence[str] | str | None = None,
    ) -> None: ...
    @property
    def name(self) -> str: ...
    @property
    def needs(self) -> list[str]:
        """The signals that the law needs."""
    @property
    def params(self) -> dict[str, str]: ...
    @property
    def decision(self) -> Decision: ...
    def on_ack(self, ack: Ack | None = None, **fields: Any) -> Decision:
        """Processes an ACK, which is an `Ack` or its fields."""
    def on_loss(self, now_ns: int) -> Decision:
        """Reacts to packet loss. Call it once when fast recovery begins."""
    def on_timeout(self, now_ns: int, *, lost_bytes: int = 0) -> Decision: ...
    def on_trim(
        self,
        now_ns: int,
        *,
        trimmed_bytes: int,
        in_flight_bytes: int,
        last_hop: bool = False,
        rtt_ns: int | None = None,
    ) -> Decision:
        """Reacts to a packet that a switch trimmed to its header."""
    def is_congested(self, ack: Ack) -> bool: ...
    def delay_ns(self, ack: Ack) -> int | None:
        """The delay that the law compares with its target."""
    def target_ns(self, hop_count: int = 1) -> int | None: ...

@final
class Scenario:
    """A scenario: a network, its traffic and what to measure.

    `source` is the name of a built-in scenario, a path, or a dict with the keys of a scenario file.
    """

    def __init__(self, source: str | PathLike[str] | dict[str, Any] | Scenario, *, quick: bool = False) -> None: ...
    @staticmethod
    def from_toml(text: str, *, name: str = "scenario", quick: bool = False) -> Scenario: ...
    @staticmethod
    def from_dict(values: dict[str, Any], *, name: str = "scenario", quick: bool = False) -> Scenario: ...
    def with_overrides(self, overrides: _Overrides) -> Scenario:
        """Sets keys such as `laws.hpcc.paced` or `traffic.0.size`."""
    def with_laws(self, *laws: str) -> Scenario:
        """Replaces the values of the sweep `law`."""
    def check(self) -> list[tuple[str, int]]:
        """Checks every cell without running it. Returns each cell's name and its estimated number of packet-hops."""
    @property
    def name(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def text(self) -> str:
        """The scenario as TOML."""
    @property
    def cells(self) -> list[str]: ...

@final
class Table:
    """Rows in columns. Polars, pandas, PyArrow and DuckDB read a table through Arrow's PyCapsule interface."""

    @property
    def name(self) -> str: ...
    @property
    def columns(self) -> list[str]: ...
    @property
    def nbytes(self) -> int: ...
    def __len__(self) -> int: ...
    def __getitem__(self, name: str, /) -> list[Any]: ...
    def to_dict(self) -> dict[str, list[Any]]: ...
    def __arrow_c_schema__(self) -> object: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

@final
class Figure:
    """A figure. Notebooks show it as SVG."""

    @property
    def title(self) -> str: ...
    @property
    def svg(self) -> str: ...
    @property
    def csv(self) -> str:
        """The plotted numbers."""
    def save(self, path: str | PathLike[str]) -> None:
        """Writes the figure as SVG, or its numbers if the name ends with `.csv`."""
    def _repr_svg_(self) -> str: ...
    def _repr_html_(self) -> str: ...
    def _mime_(self) -> tuple[str, str]: ...

class Verdict(TypedDict):
    says: str
    paper: str
    must: str
    near: float | None
    gating: bool
    outcome: Literal["holds", "fails", "not-comparable", "not-run"]
    note: str
    cells: list[dict[str, Any]]

@final
class Run:
    """The results of a scenario."""

    @property
    def scenario(self) -> Scenario: ...
    @property
    def messages(self) -> Table:
        """Completed messages, with their latency."""
    @property
    def received(self) -> Table: ...
    @property
    def drops(self) -> Table: ...
    @property
    def queues(self) -> Table:
        """Samples of the watched queues."""
    @property
    def senders(self) -> Table:
        """Samples of the watched connections at their senders: window, in flight, RTT."""
    @property
    def receivers(self) -> Table:
        """Samples of the watched connections at their receivers: received bytes."""
    @property
    def decisions(self) -> Table:
        """What the law saw in each ACK and decided, if the scenario observes decisions."""
    @property
    def metrics(self) -> Table:
        """One row per cell, seed, phase and metric."""
    @property
    def summary(self) -> dict[str, dict[str, dict[str, float]]]:
        """The mean of each metric over the seeds, by cell and phase."""
    @property
    def verdicts(self) -> list[Verdict]: ...
    @property
    def figures(self) -> list[str]:
        """The titles of the figures."""
    def figure(self, name: str | int | None = None) -> Figure:
        """Returns a figure by its title, by a part of it, or by its number."""
    def where(self, **labels: object) -> Run:
        """Returns only the runs with these values of sweeps."""
    @property
    def result_hash(self) -> str:
        """A hash of all results. The command prints the same hash for the same runs."""
    @property
    def program(self) -> str: ...
    @property
    def python_law_cost(self) -> str | None:
        """How often laws in Python were called, and how long a call took."""
    @property
    def cost(self) -> tuple[int, float]:
        """The packet-hops and the seconds of all runs."""
    def save(self, folder: str | PathLike[str]) -> str:
        """Writes the results as the command does. Returns the path of the page."""
    def _repr_html_(self) -> str: ...
    def _mime_(self) -> tuple[str, str]: ...

@final
class Comparison:
    """The decision about every metric of two runs. It is false if the head is worse."""

    @property
    def verdict(self) -> Literal["pass", "inconclusive", "fail"]: ...
    def to_dict(self) -> dict[str, Any]: ...
    def to_text(self) -> str: ...
    def __bool__(self) -> bool: ...
    def _repr_html_(self) -> str: ...
    def _mime_(self) -> tuple[str, str]: ...

def laws() -> list[str]:
    """Returns the names of the registered laws."""

def scenarios() -> list[str]:
    """Returns the names of the built-in scenarios."""

def compare(
    base: Run, head: Run, *, fail_if: Sequence[str] = ..., margin: str | None = None, alpha: float = ...
) -> Comparison:
    """Decides whether `head` is worse than `base`, as `poseidon gate` does.

    Both are runs of one scenario with the same seeds. If they differ in the value of a sweep, as in
    `compare(run.where(law="swift"), run.where(law="mine"))`, that sweep is what is compared.
    """

def run(
    scenario: str | PathLike[str] | dict[str, Any] | Scenario,
    *,
    law: _Law | Sequence[_Law] | None = None,
    seeds: int | range | None = None,
    overrides: _Overrides | None = None,
    jobs: int | None = None,
    quick: bool = False,
    rows: bool = True,
    progress: _Progress = None,
) -> Run:
    """Runs a scenario. Releases the GIL, and can be interrupted with Ctrl-C."""
