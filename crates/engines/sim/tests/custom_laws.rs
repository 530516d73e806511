//! Laws that the program supplies at run time.

use poseidon_laws::custom::{CustomLaws, FlowId};
use poseidon_laws::{Ack, AnyLaw, AnyParams, Decision, Law, Loss, Path, Timeout, Trim};
use poseidon_plan::records::MemorySink;
use poseidon_plan::{Backend, Plan, PlanError, Topology};
use poseidon_sim::Simulator;
use poseidon_testkit::plans::{LINK, plan};
use poseidon_types::Signals;
use std::sync::Mutex;

/// Runs a law of the registry as if the program had supplied it.
#[derive(Debug)]
struct Registered {
    law: &'static str,
    flows: Mutex<Vec<AnyLaw>>,
}

impl Registered {
    fn with_flow<R>(&self, flow: FlowId, change: impl FnOnce(&mut AnyLaw) -> R) -> (R, Decision) {
        let mut flows = self.flows.lock().expect("no test panics while it holds the lock");
        let law = &mut flows[usize::try_from(flow).expect("there are few flows")];
        (change(law), law.decision())
    }
}

impl CustomLaws for Registered {
    fn start_flow(&self, id: u32, path: &Path) -> (FlowId, Decision) {
        assert_eq!(id, 3);
        let params = AnyParams::for_law(self.law).expect("the law is registered");
        let law = params.build(path, Signals::ALL).expect("the law builds");
        let decision = law.decision();
        let mut flows = self.flows.lock().expect("no test panics while it holds the lock");
        flows.push(law);
        (flows.len() as u64 - 1, decision)
    }

    fn on_ack(&self, flow: FlowId, ack: &Ack<'_>) -> Decision {
        self.with_flow(flow, |law| law.on_ack(ack)).1
    }

    fn on_loss(&self, flow: FlowId, loss: &Loss) -> Decision {
        self.with_flow(flow, |law| law.on_loss(loss)).1
    }

    fn on_timeout(&self, flow: FlowId, timeout: &Timeout) -> Decision {
        self.with_flow(flow, |law| law.on_timeout(timeout)).1
    }

    fn on_trim(&self, flow: FlowId, trim: &Trim) -> Decision {
        self.with_flow(flow, |law| law.on_trim(trim)).1
    }

    fn is_congested(&self, flow: FlowId, ack: &Ack<'_>) -> bool {
        self.with_flow(flow, |law| law.is_congested(ack)).0
    }
}

/// Three flows that share a link.
fn incast(law: &str) -> Plan {
    plan(Topology::star(4, LINK), law, &[(0, 3), (1, 3), (2, 3)])
}

fn custom_plan(signals: &str) -> Plan {
    let mut plan = incast("custom");
    plan.laws[0].set("id", "3").expect("the parameter exists");
    plan.laws[0].set("signals", signals).expect("the parameter exists");
    plan
}

#[test]
fn a_supplied_law_gives_the_same_run_as_the_registered_law() {
    for law in ["poseidon", "swift"] {
        let supplied: &'static Registered =
            Box::leak(Box::new(Registered { law, flows: Mutex::new(Vec::new()) }));
        let simulator = Simulator { custom_laws: Some(supplied), ..Simulator::default() };
        let (mut custom_rows, mut rows) = (MemorySink::default(), MemorySink::default());
        let custom = simulator.run(&custom_plan("rtt, max-hop-delay"), &mut custom_rows);
        let registered = Simulator::default().run(&incast(law), &mut rows);
        assert_eq!(custom.expect("the plan runs"), registered.expect("the plan runs"), "{law}");
        assert_eq!(custom_rows, rows, "{law}");
    }
}

#[test]
fn a_program_without_laws_rejects_the_plan() {
    let error = Simulator::default().run(&custom_plan("rtt"), &mut MemorySink::default());
    assert!(matches!(error, Err(PlanError::Unsupported(reason)) if reason.contains("custom")), "{error:?}");
}

#[test]
fn a_missing_signal_is_refused() {
    let supplied: &'static Registered =
        Box::leak(Box::new(Registered { law: "poseidon", flows: Mutex::new(Vec::new()) }));
    let simulator = Simulator { custom_laws: Some(supplied), ..Simulator::default() };
    let error = simulator.run(&custom_plan("circuit-state"), &mut MemorySink::default());
    assert!(matches!(error, Err(PlanError::Law { .. })), "{error:?}");
}
