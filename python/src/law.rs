//! Laws outside the simulator: one flow whose ACKs the caller supplies.

use crate::error::invalid;
use core::str::FromStr;
use poseidon_laws::types::{CounterWrap, HopPath, HopRecord};
use poseidon_laws::{self as rust, AnyLaw, AnyParams, LAWS, Law as _, Loss, Pacing, Timeout, Trim};
use poseidon_types::{BitRate, Bytes, Nanos, Packets, Signals};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyString};

/// Returns the names of the laws.
#[pyfunction]
pub(crate) fn laws() -> Vec<&'static str> {
    LAWS.iter().map(|law| law.name).collect()
}

/// Reads a quantity: a text with a unit, or a number in the base unit.
fn quantity<T: FromStr<Err: core::fmt::Display>>(
    value: &Bound<'_, PyAny>,
    name: &str,
    from_number: fn(u64) -> T,
) -> PyResult<T> {
    if let Ok(text) = value.cast::<PyString>() {
        return text.to_str()?.parse().map_err(|error| invalid(format!("{name}: {error}")));
    }
    value
        .extract()
        .map(from_number)
        .map_err(|_| invalid(format!("{name}: write a text with a unit or a whole number")))
}

/// Converts a parameter to the text that scenarios contain.
fn parameter_text(value: &Bound<'_, PyAny>, name: &str) -> PyResult<String> {
    if value.is_instance_of::<PyBool>() {
        return Ok(value.extract::<bool>()?.to_string());
    }
    if value.is_instance_of::<PyString>()
        || value.is_instance_of::<PyInt>()
        || value.is_instance_of::<PyFloat>()
    {
        return Ok(value.str()?.to_str()?.to_owned());
    }
    Err(invalid(format!("the parameter {name} is {value}; write a text, a number or a bool")))
}

/// Reads a set of signals from their names.
pub(crate) fn signals_of(names: &Bound<'_, PyAny>) -> PyResult<Signals> {
    let names: Vec<String> = match names.cast::<PyString>() {
        Ok(text) => text.to_str()?.split(',').map(|name| name.trim().to_owned()).collect(),
        Err(_) => names.extract().map_err(|_| invalid("signals: write a list of names"))?,
    };
    names.iter().try_fold(Signals::NONE, |signals, name| {
        let signal = Signals::from_name(name).ok_or_else(|| {
            let known = Signals::ALL.names().collect::<Vec<_>>().join(", ");
            invalid(format!("there is no signal {name:?}; there are {known}"))
        })?;
        Ok(signals | signal)
    })
}

/// What is known about a path when a flow starts.
#[pyclass(frozen, get_all, module = "poseidon_cc")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Path {
    pub(crate) mtu_bytes: u64,
    pub(crate) line_rate_bps: u64,
    pub(crate) base_rtt_ns: u64,
}

impl From<&rust::Path> for Path {
    fn from(path: &rust::Path) -> Self {
        let rust::Path { mtu, line_rate, base_rtt } = path;
        Self { mtu_bytes: mtu.get(), line_rate_bps: line_rate.get(), base_rtt_ns: base_rtt.get() }
    }
}

#[pymethods]
impl Path {
    /// The bandwidth-delay product in packets.
    #[getter]
    fn bdp_packets(&self) -> f64 {
        self.line_rate_bps as f64 * self.base_rtt_ns as f64 / (8e9 * self.mtu_bytes as f64)
    }

    fn __repr__(&self) -> String {
        let Self { mtu_bytes, line_rate_bps, base_rtt_ns } = self;
        format!("Path(mtu_bytes={mtu_bytes}, line_rate_bps={line_rate_bps}, base_rtt_ns={base_rtt_ns})")
    }
}

/// The telemetry of one hop.
#[pyclass(frozen, get_all, module = "poseidon_cc")]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hop {
    timestamp_ns: u64,
    sent_bytes: u64,
    queue_bytes: u64,
    rate_bps: u64,
}

impl From<&HopRecord> for Hop {
    fn from(record: &HopRecord) -> Self {
        Self {
            timestamp_ns: record.timestamp.get(),
            sent_bytes: record.sent.get(),
            queue_bytes: record.queue.get(),
            rate_bps: record.rate.get(),
        }
    }
}

#[pymethods]
impl Hop {
    #[new]
    #[pyo3(signature = (*, timestamp_ns, sent_bytes, queue_bytes, rate_bps))]
    const fn new(timestamp_ns: u64, sent_bytes: u64, queue_bytes: u64, rate_bps: u64) -> Self {
        Self { timestamp_ns, sent_bytes, queue_bytes, rate_bps }
    }

    fn __repr__(&self) -> String {
        let Self { timestamp_ns, sent_bytes, queue_bytes, rate_bps } = self;
        format!(
            "Hop(timestamp_ns={timestamp_ns}, sent_bytes={sent_bytes}, queue_bytes={queue_bytes}, rate_bps={rate_bps})"
        )
    }
}

/// An ACK and the signals that it carries.
#[pyclass(frozen, module = "poseidon_cc")]
#[derive(Clone, Debug)]
pub(crate) struct Ack {
    /// The ACK without its hop records.
    ack: rust::Ack<'static>,
    hops: Vec<HopRecord>,
    wrap: CounterWrap,
}

impl Ack {
    pub(crate) fn new(ack: &rust::Ack<'_>) -> Self {
        let (hops, wrap) = (ack.hops.records.to_vec(), ack.hops.wrap);
        Self { ack: rust::Ack { hops: HopPath::NONE, ..*ack }, hops, wrap }
    }

    /// Returns the ACK as laws read it.
    fn event(&self) -> rust::Ack<'_> {
        rust::Ack { hops: HopPath { records: &self.hops, wrap: self.wrap }, ..self.ack }
    }
}

macro_rules! ack_getters {
    ($($name:ident: $ty:ty = $value:expr;)*) => {
        #[pymethods]
        impl Ack {
            #[new]
            #[pyo3(signature = (
                *, now_ns = 0, rtt_ns = 0, packets = 0, acked_bytes = 0, marked_bytes = 0, acked_seq = 0, next_seq = 0,
                in_flight_bytes = 0, rtt_ambiguous = false, max_hop_delay_ns = None, reverse_max_hop_delay_ns = None, hops = Vec::new(), wrap_timestamp_ns = 0,
                wrap_sent_bytes = 0, endpoint_delay_ns = 0, hop_count = 0, circuit_up = false, app_limited = false,
                random = 0
            ))]
            #[expect(clippy::too_many_arguments, reason = "Python has keyword arguments")]
            fn py_new(
                now_ns: u64,
                rtt_ns: u64,
                packets: u32,
                acked_bytes: u64,
                marked_bytes: u64,
                acked_seq: u64,
                next_seq: u64,
                in_flight_bytes: u64,
                rtt_ambiguous: bool,
                max_hop_delay_ns: Option<u64>,
                reverse_max_hop_delay_ns: Option<u64>,
                hops: Vec<PyRef<'_, Hop>>,
                wrap_timestamp_ns: u64,
                wrap_sent_bytes: u64,
                endpoint_delay_ns: u64,
                hop_count: u8,
                circuit_up: bool,
                app_limited: bool,
                random: u32,
            ) -> Self {
                let record = |hop: &PyRef<'_, Hop>| HopRecord {
                    timestamp: Nanos::new(hop.timestamp_ns),
                    sent: Bytes::new(hop.sent_bytes),
                    queue: Bytes::new(hop.queue_bytes),
                    rate: BitRate::from_bps(hop.rate_bps),
                };
                let ack = rust::Ack {
                    now: Nanos::new(now_ns),
                    rtt: Nanos::new(rtt_ns),
                    packets,
                    bytes: Bytes::new(acked_bytes),
                    marked: Bytes::new(marked_bytes),
                    in_flight: Bytes::new(in_flight_bytes),
                    rtt_ambiguous,
                    acked_seq,
                    next_seq,
                    max_hop_delay: max_hop_delay_ns.map(Nanos::new),
                    reverse_max_hop_delay: reverse_max_hop_delay_ns.map(Nanos::new),
                    hops: HopPath::NONE,
                    endpoint_delay: Nanos::new(endpoint_delay_ns),
                    hop_count,
                    circuit_up,
                    app_limited,
                    random,
                };
                let wrap =
                    CounterWrap { timestamp: Nanos::new(wrap_timestamp_ns), sent: Bytes::new(wrap_sent_bytes) };
                Self { ack, hops: hops.iter().map(record).collect(), wrap }
            }

            $(
                #[getter]
                fn $name(&self) -> $ty {
                    let value: fn(&Self) -> $ty = $value;
                    value(self)
                }
            )*

            fn __repr__(&self) -> String {
                format!("Ack({})", [$( format!("{}={:?}", stringify!($name), self.$name()) ),*].join(", "))
            }
        }
    };
}

ack_getters! {
    now_ns: u64 = |ack| ack.ack.now.get();
    rtt_ns: u64 = |ack| ack.ack.rtt.get();
    packets: u32 = |ack| ack.ack.packets;
    acked_bytes: u64 = |ack| ack.ack.bytes.get();
    marked_bytes: u64 = |ack| ack.ack.marked.get();
    acked_seq: u64 = |ack| ack.ack.acked_seq;
    next_seq: u64 = |ack| ack.ack.next_seq;
    in_flight_bytes: u64 = |ack| ack.ack.in_flight.get();
    rtt_ambiguous: bool = |ack| ack.ack.rtt_ambiguous;
    max_hop_delay_ns: Option<u64> = |ack| ack.ack.max_hop_delay.map(Nanos::get);
    reverse_max_hop_delay_ns: Option<u64> = |ack| ack.ack.reverse_max_hop_delay.map(Nanos::get);
    hops: Vec<Hop> = |ack| ack.hops.iter().map(Hop::from).collect();
    wrap_timestamp_ns: u64 = |ack| ack.wrap.timestamp.get();
    wrap_sent_bytes: u64 = |ack| ack.wrap.sent.get();
    endpoint_delay_ns: u64 = |ack| ack.ack.endpoint_delay.get();
    hop_count: u8 = |ack| ack.ack.hop_count;
    circuit_up: bool = |ack| ack.ack.circuit_up;
    app_limited: bool = |ack| ack.ack.app_limited;
    random: u32 = |ack| ack.ack.random;
}

/// How much a host may send, and how fast.
#[pyclass(frozen, eq, module = "poseidon_cc")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Decision {
    pub(crate) decision: rust::Decision,
}

/// The smallest window that a program may return. It is Poseidon's smallest window.
const MIN_WINDOW: f64 = 0.001;

/// Converts a window in packets.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range is checked")]
fn window_of(packets: f64) -> PyResult<Packets> {
    let max = Packets::MAX_WINDOW.q24() as f64 / Packets::ONE.q24() as f64;
    if !(MIN_WINDOW..=max).contains(&packets) {
        return Err(invalid(format!(
            "the window is {packets} packets; return a number from {MIN_WINDOW} to {max}"
        )));
    }
    Ok(Packets::from_q24((packets * Packets::ONE.q24() as f64) as u64))
}

/// Returns a decision without pacing. A window below one packet needs pacing: one packet per `rtt / window`.
fn unpaced(window: Packets, rtt: Nanos) -> rust::Decision {
    if window >= Packets::ONE {
        return rust::Decision { window, pacing: Pacing::Off };
    }
    let gap = (u128::from(rtt.get()) << Packets::FRACTION_BITS) / u128::from(window.q24().max(1));
    rust::Decision { window, pacing: Pacing::Gap(Nanos::new(u64::try_from(gap).unwrap_or(u64::MAX))) }
}

fn pacing_rate(bps: f64) -> PyResult<Pacing> {
    if !(1.0..=1e18).contains(&bps) {
        return Err(invalid(format!(
            "the pacing rate is {bps} bit/s; return a number from 1 to 1e18, or None"
        )));
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range is checked")]
    Ok(Pacing::Rate(BitRate::from_bps(bps as u64)))
}

/// Reads what a law in Python returned: a window, a window and a pacing rate, or a [`Decision`].
pub(crate) fn read_decision(value: &Bound<'_, PyAny>, rtt: Nanos) -> PyResult<rust::Decision> {
    if let Ok(number) = value.cast_exact::<PyFloat>() {
        return Ok(unpaced(window_of(number.extract()?)?, rtt));
    }
    if let Ok(decision) = value.cast::<Decision>() {
        return Ok(decision.get().decision);
    }
    if let Ok((window, rate)) = value.extract::<(f64, Option<f64>)>() {
        let window = window_of(window)?;
        return Ok(match rate {
            Some(rate) => rust::Decision { window, pacing: pacing_rate(rate)? },
            None => unpaced(window, rtt),
        });
    }
    let window = value.extract().map_err(|_| {
        PyTypeError::new_err(format!(
            "a law returned {value}; return the window in packets, (window, pacing rate in bit/s) or a Decision"
        ))
    })?;
    Ok(unpaced(window_of(window)?, rtt))
}

#[pymethods]
impl Decision {
    #[new]
    #[pyo3(signature = (window_packets, *, pacing_bps = None, gap_ns = None))]
    fn new(window_packets: f64, pacing_bps: Option<f64>, gap_ns: Option<u64>) -> PyResult<Self> {
        let window = window_of(window_packets)?;
        let pacing = match (pacing_bps, gap_ns) {
            (Some(_), Some(_)) => return Err(invalid("a decision has a pacing rate or a gap, not both")),
            (Some(bps), None) => pacing_rate(bps)?,
            (None, Some(gap)) => Pacing::Gap(Nanos::new(gap)),
            (None, None) if window < Packets::ONE => {
                return Err(invalid("a window below one packet needs pacing_bps or gap_ns"));
            }
            (None, None) => Pacing::Off,
        };
        Ok(Self { decision: rust::Decision { window, pacing } })
    }

    /// The window in packets, which may be below one.
    #[getter]
    fn window_packets(&self) -> f64 {
        // Exact: windows have at most 39 bits.
        self.decision.window.q24() as f64 / Packets::ONE.q24() as f64
    }

    /// The pacing rate in bit/s, or `None`.
    #[getter]
    fn pacing_bps(&self) -> Option<u64> {
        match self.decision.pacing {
            Pacing::Rate(rate) => Some(rate.get()),
            Pacing::Off | Pacing::Gap(_) => None,
        }
    }

    /// The time between two packets in nanoseconds, or `None`.
    #[getter]
    fn gap_ns(&self) -> Option<u64> {
        match self.decision.pacing {
            Pacing::Gap(gap) => Some(gap.get()),
            Pacing::Off | Pacing::Rate(_) => None,
        }
    }

    fn __repr__(&self) -> String {
        let window = self.window_packets();
        match self.decision.pacing {
            Pacing::Off => format!("Decision({window})"),
            Pacing::Gap(gap) => format!("Decision({window}, gap_ns={})", gap.get()),
            Pacing::Rate(rate) => format!("Decision({window}, pacing_bps={})", rate.get()),
        }
    }
}

/// One flow of a law.
#[pyclass(module = "poseidon_cc")]
#[derive(Debug)]
pub(crate) struct Law {
    law: AnyLaw,
    params: AnyParams,
}

#[pymethods]
impl Law {
    #[new]
    #[pyo3(signature = (name, *, mtu, line_rate, base_rtt, params = None, signals = None))]
    fn new(
        name: &str,
        mtu: &Bound<'_, PyAny>,
        line_rate: &Bound<'_, PyAny>,
        base_rtt: &Bound<'_, PyAny>,
        params: Option<&Bound<'_, PyDict>>,
        signals: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let path = rust::Path {
            mtu: quantity(mtu, "mtu", Bytes::new)?,
            line_rate: quantity(line_rate, "line_rate", BitRate::from_bps)?,
            base_rtt: quantity(base_rtt, "base_rtt", Nanos::new)?,
        };
        let known = LAWS.iter().any(|law| law.name == name);
        let parameters = if known { AnyParams::for_law(name) } else { None };
        let mut parameters = parameters
            .ok_or_else(|| invalid(format!("there is no law {name:?}; there are {}", laws().join(", "))))?;
        for (key, value) in params.into_iter().flatten() {
            let key: String = key.extract()?;
            let text = parameter_text(&value, &key)?;
            let error = |error| invalid(format!("law {name:?}, parameter {key}: {error}"));
            parameters.set(&key, &text).map_err(error)?;
        }
        let supplied = signals.map_or(Ok(Signals::ALL), signals_of)?;
        let law = parameters.build(&path, supplied).map_err(|error| invalid(error.to_string()))?;
        Ok(Self { law, params: parameters })
    }

    #[getter]
    fn name(&self) -> &'static str {
        self.law.name()
    }

    /// The signals that the law needs.
    #[getter]
    fn needs(&self) -> Vec<&'static str> {
        self.params.needs().names().collect()
    }

    /// The parameters, as text.
    #[getter]
    fn params<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (dict, mut result) = (PyDict::new(py), Ok(()));
        self.params.for_each(&mut |info, value| {
            if result.is_ok() {
                result = dict.set_item(info.name, value.to_string());
            }
        });
        result.map(|()| dict)
    }

    /// The current decision.
    #[getter]
    fn decision(&self) -> Decision {
        Decision { decision: self.law.decision() }
    }

    /// Processes an ACK, which is an `Ack` or its fields.
    #[pyo3(signature = (ack = None, **fields))]
    fn on_ack(
        &mut self,
        py: Python<'_>,
        ack: Option<&Ack>,
        fields: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Decision> {
        match (ack, fields) {
            (Some(ack), None) => self.law.on_ack(&ack.event()),
            (Some(_), Some(_)) => return Err(invalid("pass an Ack or its fields, not both")),
            (None, fields) => {
                let ack = py.get_type::<Ack>().call((), fields)?;
                self.law.on_ack(&ack.cast::<Ack>()?.get().event());
            }
        }
        Ok(self.decision())
    }

    /// Reacts to packet loss.
    fn on_loss(&mut self, now_ns: u64) -> Decision {
        self.law.on_loss(&Loss { now: Nanos::new(now_ns) });
        self.decision()
    }

    /// Reacts to a retransmission timeout.
    #[pyo3(signature = (now_ns, *, lost_bytes = 0))]
    fn on_timeout(&mut self, now_ns: u64, lost_bytes: u64) -> Decision {
        self.law.on_timeout(&Timeout { now: Nanos::new(now_ns), bytes: Bytes::new(lost_bytes) });
        self.decision()
    }

    /// Reacts to a packet that a switch trimmed to its header.
    #[pyo3(signature = (now_ns, *, trimmed_bytes, in_flight_bytes, last_hop = false, rtt_ns = None))]
    fn on_trim(
        &mut self,
        now_ns: u64,
        trimmed_bytes: u64,
        in_flight_bytes: u64,
        last_hop: bool,
        rtt_ns: Option<u64>,
    ) -> Decision {
        self.law.on_trim(&Trim {
            now: Nanos::new(now_ns),
            bytes: Bytes::new(trimmed_bytes),
            in_flight: Bytes::new(in_flight_bytes),
            last_hop,
            rtt: rtt_ns.map(Nanos::new),
        });
        self.decision()
    }

    /// Returns whether an ACK indicates congestion. Call it after `on_ack` with the same ACK.
    fn is_congested(&self, ack: &Ack) -> bool {
        self.law.is_congested(&ack.event())
    }

    /// Returns the delay that the law compares with its target in nanoseconds, or `None`.
    fn delay_ns(&self, ack: &Ack) -> Option<u64> {
        self.law.delay_signal(&ack.event()).map(|signal| signal.delay.get())
    }

    /// Returns the target delay in nanoseconds, or `None`.
    #[pyo3(signature = (hop_count = 1))]
    fn target_ns(&self, hop_count: u8) -> Option<u64> {
        self.law.target(hop_count).map(Nanos::get)
    }

    fn __repr__(&self) -> String {
        format!("<Law {:?}: {}>", self.law.name(), self.decision().__repr__())
    }
}
