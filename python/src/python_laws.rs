//! Runs laws that are written in Python in the simulator.
//!
//! The simulator calls [`PYTHON_LAWS`] on the thread of the run, which stays attached to the interpreter. There is one run
//! at a time per thread, so the state is local to the thread.

use crate::law::{Ack as PyAck, Path as PyPath, read_decision};
use core::cell::{Cell, RefCell};
use poseidon_laws::custom::{CustomLaws, FlowId};
use poseidon_laws::{Ack, Decision, Loss, Pacing, Path, Timeout, Trim};
use poseidon_types::{Nanos, Packets};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::rc::Rc;
use std::time::Instant;

/// The laws of the run on this thread.
pub(crate) static PYTHON_LAWS: PythonLaws = PythonLaws;

#[derive(Debug)]
pub(crate) struct PythonLaws;

/// A flow of a law in Python.
struct Flow {
    on_ack: Py<PyAny>,
    on_loss: Option<Py<PyAny>>,
    on_timeout: Option<Py<PyAny>>,
    on_trim: Option<Py<PyAny>>,
    is_congested: Option<Py<PyAny>>,
    decision: Cell<Decision>,
    rtt: Cell<Nanos>,
}

/// The laws and flows of a run.
#[derive(Default)]
struct RunState {
    /// Called with a path, each returns the law of one flow.
    factories: Vec<Py<PyAny>>,
    flows: Vec<Rc<Flow>>,
    /// The first exception. Later events keep the decision of their flow.
    error: Option<PyErr>,
}

thread_local! {
    static STATE: RefCell<RunState> = RefCell::default();
    /// The number of calls, and the time and the number of the timed ones.
    static CALLS: Cell<Calls> = const { Cell::new(Calls::NONE) };
}

/// How often laws in Python were called, and how long the calls took.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Calls {
    /// The number of calls.
    pub(crate) count: u64,
    timed: u64,
    timed_ns: u64,
}

/// One call of this many is timed, because reading the clock takes time, too.
const TIMED_SHARE: u64 = 64;

impl Calls {
    const NONE: Self = Self { count: 0, timed: 0, timed_ns: 0 };

    /// Returns the mean duration of a call in nanoseconds.
    pub(crate) fn mean_ns(self) -> Option<f64> {
        (self.timed > 0).then(|| self.timed_ns as f64 / self.timed as f64)
    }
}

/// Runs `run` with these laws on this thread. Returns the first exception of a law.
pub(crate) fn with_laws<R>(factories: Vec<Py<PyAny>>, run: impl FnOnce() -> R) -> (R, Calls, Option<PyErr>) {
    STATE.with_borrow_mut(|state| *state = RunState { factories, ..RunState::default() });
    CALLS.set(Calls::NONE);
    let result = run();
    let state = STATE.take();
    (result, CALLS.get(), state.error)
}

/// Forgets the flows of the last run.
pub(crate) fn clear_flows() {
    STATE.with_borrow_mut(|state| state.flows.clear());
}

/// Returns whether a law has raised an exception on this thread.
pub(crate) fn has_failed() -> bool {
    STATE.with_borrow(|state| state.error.is_some())
}

fn keep_error(error: PyErr) {
    STATE.with_borrow_mut(|state| {
        state.error.get_or_insert(error);
    });
}

/// Returns a flow. The state is not borrowed while Python runs, because a law could start a run of its own.
fn flow_of(id: FlowId) -> Option<Rc<Flow>> {
    STATE.with_borrow(|state| {
        let index = usize::try_from(id).ok()?;
        if state.error.is_some() { None } else { state.flows.get(index).cloned() }
    })
}

/// The decision before the law has decided, and after an exception.
const INITIAL: Decision = Decision { window: Packets::ONE, pacing: Pacing::Off };

impl Flow {
    fn new(py: Python<'_>, factory: &Py<PyAny>, path: &Path) -> PyResult<Self> {
        let law = factory.bind(py).call1((Py::new(py, PyPath::from(path))?,))?;
        let optional = |name| -> PyResult<Option<Py<PyAny>>> {
            Ok(law.getattr_opt(name)?.filter(|method| !method.is_none()).map(Bound::unbind))
        };
        let window = law.getattr_opt(intern!(py, "window_packets"))?;
        let decision = match window {
            Some(window) => read_decision(&window, path.base_rtt)?,
            None => {
                // One bandwidth-delay product, as most laws start.
                let bytes = path.line_rate.bytes_in_floor(path.base_rtt);
                let packets = bytes.get().div_ceil(path.mtu.get()).max(1);
                Decision { window: Packets::whole(packets).min(Packets::MAX_WINDOW), pacing: Pacing::Off }
            }
        };
        Ok(Self {
            on_ack: law.getattr(intern!(py, "on_ack"))?.unbind(),
            on_loss: optional(intern!(py, "on_loss"))?,
            on_timeout: optional(intern!(py, "on_timeout"))?,
            on_trim: optional(intern!(py, "on_trim"))?,
            is_congested: optional(intern!(py, "is_congested"))?,
            decision: Cell::new(decision),
            rtt: Cell::new(path.base_rtt),
        })
    }
}

/// Calls a method of a law, and keeps the decision that it returns. `None` keeps the last decision.
fn decide(flow: FlowId, call: impl FnOnce(Python<'_>, &Flow) -> PyResult<Option<Py<PyAny>>>) -> Decision {
    let Some(flow) = flow_of(flow) else { return INITIAL };
    let mut calls = CALLS.get();
    let is_timed = calls.count.is_multiple_of(TIMED_SHARE);
    calls.count += 1;
    #[expect(clippy::disallowed_methods, reason = "the duration of a call is not part of the result")]
    let started = is_timed.then(Instant::now);
    let result = Python::attach(|py| match call(py, &flow)? {
        Some(value) if !value.is_none(py) => read_decision(value.bind(py), flow.rtt.get()).map(Some),
        _ => Ok(None),
    });
    if let Some(started) = started {
        calls.timed += 1;
        calls.timed_ns += u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
    }
    CALLS.set(calls);
    match result {
        Ok(Some(decision)) => flow.decision.set(decision),
        Ok(None) => {}
        Err(error) => keep_error(error),
    }
    flow.decision.get()
}

impl CustomLaws for PythonLaws {
    fn start_flow(&self, id: u32, path: &Path) -> (FlowId, Decision) {
        let result = Python::attach(|py| {
            let factory =
                STATE.with_borrow(|state| state.factories.get(id as usize).map(|law| law.clone_ref(py)));
            factory.map(|factory| Flow::new(py, &factory, path))
        });
        let flow = match result {
            Some(Ok(flow)) => flow,
            Some(Err(error)) => {
                keep_error(error);
                return (FlowId::MAX, INITIAL);
            }
            None => return (FlowId::MAX, INITIAL),
        };
        let decision = flow.decision.get();
        let number = STATE.with_borrow_mut(|state| {
            state.flows.push(Rc::new(flow));
            state.flows.len() as u64 - 1
        });
        (number, decision)
    }

    fn on_ack(&self, flow: FlowId, ack: &Ack<'_>) -> Decision {
        decide(flow, |py, flow| {
            flow.rtt.set(ack.rtt);
            let ack = Py::new(py, PyAck::new(ack))?;
            flow.on_ack.call1(py, (ack,)).map(Some)
        })
    }

    fn on_loss(&self, flow: FlowId, loss: &Loss) -> Decision {
        decide(flow, |py, flow| {
            let call = |method: &Py<PyAny>| method.call1(py, (loss.now.get(),));
            flow.on_loss.as_ref().map(call).transpose()
        })
    }

    fn on_timeout(&self, flow: FlowId, timeout: &Timeout) -> Decision {
        decide(flow, |py, flow| {
            let call = |method: &Py<PyAny>| method.call1(py, (timeout.now.get(),));
            flow.on_timeout.as_ref().map(call).transpose()
        })
    }

    fn on_trim(&self, flow: FlowId, trim: &Trim) -> Decision {
        decide(flow, |py, flow| {
            let call = |method: &Py<PyAny>| {
                let fields = PyDict::new(py);
                fields.set_item("trimmed_bytes", trim.bytes.get())?;
                fields.set_item("in_flight_bytes", trim.in_flight.get())?;
                fields.set_item("last_hop", trim.last_hop)?;
                fields.set_item("rtt_ns", trim.rtt.map(Nanos::get))?;
                method.call(py, (trim.now.get(),), Some(&fields))
            };
            flow.on_trim.as_ref().map(call).transpose()
        })
    }

    fn is_congested(&self, flow: FlowId, ack: &Ack<'_>) -> bool {
        let Some(flow) = flow_of(flow) else { return false };
        let Some(method) = &flow.is_congested else { return false };
        let result = Python::attach(|py| {
            let ack = Py::new(py, PyAck::new(ack))?;
            method.call1(py, (ack,))?.extract::<bool>(py)
        });
        result.unwrap_or_else(|error| {
            keep_error(error);
            false
        })
    }
}
