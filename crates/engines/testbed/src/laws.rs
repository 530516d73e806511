//! Maps a plan's laws to Linux congestion controls. Poseidon, Swift and DCTCP are our BPF programs. The kernel
//! provides the other congestion controls.
//!
//! Poseidon is registered under a name that contains the process id, so `poseidon tcp enable` still works during a run.

use crate::layout::Layout;
use crate::private_netns::Cgroup;
use crate::{Result, machine_error};
use poseidon_laws::AnyParams;
use poseidon_linux::peers::Peer;
use poseidon_linux::tcp::{self, ControlName, Settings};
use poseidon_plan::{Plan, PlanError};

/// The laws whose parameters are fixed by Linux.
const FIXED_LAWS: [&str; 3] = ["cubic", "bbr", "dctcp"];

/// Returns whether the parameters match those that Linux uses.
fn are_linux_parameters(params: &AnyParams) -> bool {
    let Some(plain) = AnyParams::for_law(params.law_name()) else { return false };
    let mut linux = plain.clone();
    // If the law has no such preset, its parameters do not change.
    let _ = linux.apply_preset("linux");
    [plain, linux].contains(params)
}

/// The congestion controls used in a run. Dropping this value unregisters them.
pub(crate) struct Laws {
    /// The names for `setsockopt`, indexed by the plan's law number.
    names: Vec<String>,
    _peers: Vec<Peer>,
    poseidon_cgroup: Option<Cgroup>,
}

impl Laws {
    pub(crate) fn register(plan: &Plan, layout: &Layout) -> Result<Self> {
        let mut laws = Self { names: Vec::new(), _peers: Vec::new(), poseidon_cgroup: None };
        let mut registered: Vec<&AnyParams> = Vec::new();
        for (index, params) in (0..).zip(&plan.laws) {
            if plan.stacks.iter().any(|stack| stack.law == index) {
                // The connections of this law do not run in TCP.
                laws.names.push(String::new());
                continue;
            }
            let name = params.law_name();
            let is_registered = registered.iter().any(|other| other.law_name() == name);
            if is_registered && !registered.contains(&params) {
                return Err(PlanError::Unsupported(
                    "one law with two sets of parameters; run them in separate cells",
                ));
            }
            if !is_registered {
                laws.add(params, plan, layout)?;
                registered.push(params);
            }
            laws.names.push(match params {
                AnyParams::Poseidon(_) => control_name().to_string(),
                _ => name.to_owned(),
            });
        }
        Ok(laws)
    }

    fn add(&mut self, params: &AnyParams, plan: &Plan, layout: &Layout) -> Result<()> {
        match params {
            AnyParams::Poseidon(law) => {
                let cgroup = Cgroup::join().map_err(|error| machine_error("creating a cgroup", error))?;
                let settings = Settings {
                    law: law.clone(),
                    // Connections open while the network is idle, so each connection measures the empty path.
                    base_rtt: None,
                    delay_guard: None,
                    // Each socket chooses its law.
                    default: false,
                    ack_every_packet: true,
                    coexistence: plan.transport.coexistence,
                    cgroup: Some(cgroup.path.clone()),
                    control_name: control_name(),
                };
                let enabled = tcp::enable(&settings);
                self.poseidon_cgroup = Some(cgroup);
                enabled.map(drop).map_err(|error| machine_error("enabling Poseidon in TCP", error))
            }
            AnyParams::Swift(law) => {
                // All connections share the target of the longest path.
                let hops =
                    plan.connections.iter().map(|c| layout.route(c.from, c.to).len()).max().unwrap_or(1);
                let peer = Peer::swift(law, u8::try_from(hops).unwrap_or(u8::MAX));
                self._peers.push(peer.map_err(|error| machine_error("Swift in TCP", error))?);
                Ok(())
            }
            fixed if FIXED_LAWS.contains(&fixed.law_name()) && !are_linux_parameters(fixed) => {
                Err(PlanError::Unsupported(
                    "parameters of cubic, bbr and dctcp, which Linux fixes; leave out all but preset = \"linux\"",
                ))
            }
            AnyParams::Dctcp(_) => {
                self._peers.push(Peer::dctcp().map_err(|error| machine_error("DCTCP in TCP", error))?);
                Ok(())
            }
            fixed if FIXED_LAWS.contains(&fixed.law_name()) => Ok(()),
            _ => Err(PlanError::Unsupported(
                "this law; the testbed has poseidon, swift, dctcp, cubic and bbr, the simulator has all laws",
            )),
        }
    }

    /// Returns a law's name for `setsockopt`.
    pub(crate) fn name(&self, law: u32) -> &str {
        &self.names[law as usize]
    }

    /// Returns whether any flow uses Poseidon.
    pub(crate) const fn has_poseidon(&self) -> bool {
        self.poseidon_cgroup.is_some()
    }
}

impl Drop for Laws {
    fn drop(&mut self) {
        if self.has_poseidon() {
            // Enabling may have failed.
            let _ = tcp::disable();
        }
    }
}

/// Returns the name under which Poseidon is registered in this run.
fn control_name() -> ControlName {
    ControlName::for_process(std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fixed_parameters_cannot_be_changed() {
        let cubic = |change: fn(&mut AnyParams)| {
            let mut params = AnyParams::for_law("cubic").expect("cubic is a law");
            change(&mut params);
            are_linux_parameters(&params)
        };
        assert!(cubic(|_| {}));
        assert!(cubic(|params| params.apply_preset("linux").expect("cubic has this preset")));
        assert!(!cubic(|params| params.set("beta", "0.5").expect("the value is in range")));
    }
}
