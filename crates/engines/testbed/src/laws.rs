//! Which congestion control a law of a plan is in Linux: Poseidon, Swift and DCTCP are ours, in BPF; the others are the kernel's own.

use crate::layout::Layout;
use crate::room::Cgroup;
use crate::{Result, failed};
use poseidon_laws::AnyParams;
use poseidon_linux::peers::Peer;
use poseidon_linux::tcp::{self, Settings};
use poseidon_plan::{Plan, PlanError};

/// Laws whose parameters Linux has fixed.
const AS_THEY_ARE: [&str; 3] = ["cubic", "bbr", "dctcp"];

/// Whether a plan asks for nothing that Linux does not do.
fn is_left_to_linux(params: &AnyParams) -> bool {
    let Some(plain) = AnyParams::of(params.law()) else { return false };
    let mut linux = plain.clone();
    // Where there is no such preset, this stays as it is.
    let _ = linux.preset("linux");
    [plain, linux].contains(params)
}

/// The congestion controls of a run, in the kernel until this is dropped.
pub(crate) struct Laws {
    /// By law of the plan: what a socket asks for.
    names: Vec<&'static str>,
    _peers: Vec<Peer>,
    poseidon: Option<Cgroup>,
}

impl Laws {
    pub(crate) fn register(plan: &Plan, layout: &Layout) -> Result<Self> {
        let mut laws = Self { names: Vec::new(), _peers: Vec::new(), poseidon: None };
        let mut ours: Vec<&AnyParams> = Vec::new();
        for params in &plan.laws {
            let name = params.law();
            let is_there = ours.iter().any(|other| other.law() == name);
            if is_there && !ours.contains(&params) {
                return Err(PlanError::Unsupported(
                    "one law with two sets of parameters; run them in cells of their own",
                ));
            }
            if !is_there {
                laws.add(params, plan, layout)?;
                ours.push(params);
            }
            laws.names.push(name);
        }
        Ok(laws)
    }

    fn add(&mut self, params: &AnyParams, plan: &Plan, layout: &Layout) -> Result<()> {
        match params {
            AnyParams::Poseidon(law) => {
                let cgroup = Cgroup::join().map_err(|why| failed("making a cgroup", why))?;
                let settings = Settings {
                    law: law.clone(),
                    // Connections are opened while nothing waits, so each has seen the empty path.
                    base_rtt: None,
                    delay_guard: None,
                    // Sockets ask for their law themselves.
                    default: false,
                    ack_every_packet: true,
                    coexistence: plan.transport.coexistence,
                    cgroup: Some(cgroup.path.clone()),
                };
                let on = tcp::enable(&settings);
                self.poseidon = Some(cgroup);
                on.map(drop).map_err(|why| failed("switching Poseidon on in TCP", why))
            }
            AnyParams::Swift(law) => {
                // One target for all: that of the longest way.
                let hops =
                    plan.connections.iter().map(|c| layout.route(c.from, c.to).len()).max().unwrap_or(1);
                let peer = Peer::swift(law, u8::try_from(hops).unwrap_or(u8::MAX));
                self._peers.push(peer.map_err(|why| failed("Swift in TCP", why))?);
                Ok(())
            }
            own if AS_THEY_ARE.contains(&own.law()) && !is_left_to_linux(own) => Err(PlanError::Unsupported(
                "parameters of cubic, bbr and dctcp, which run as Linux has them; leave out all but preset = \"linux\"",
            )),
            AnyParams::Dctcp(_) => {
                self._peers.push(Peer::dctcp().map_err(|why| failed("DCTCP in TCP", why))?);
                Ok(())
            }
            own if AS_THEY_ARE.contains(&own.law()) => Ok(()),
            _ => Err(PlanError::Unsupported(
                "this law; Linux has poseidon, swift, dctcp, cubic and bbr here, the simulator has all",
            )),
        }
    }

    /// What a socket of this law asks for.
    pub(crate) fn name(&self, law: u32) -> &'static str {
        self.names[law as usize]
    }

    /// Whether some flows run Poseidon.
    pub(crate) const fn has_poseidon(&self) -> bool {
        self.poseidon.is_some()
    }
}

impl Drop for Laws {
    fn drop(&mut self) {
        if self.poseidon.is_some() {
            // It may never have been on.
            let _ = tcp::disable();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_linux_fixes_may_not_be_set() {
        let cubic = |change: fn(&mut AnyParams)| {
            let mut params = AnyParams::of("cubic").expect("a law of the table");
            change(&mut params);
            is_left_to_linux(&params)
        };
        assert!(cubic(|_| {}));
        assert!(cubic(|params| params.preset("linux").expect("it has one")));
        assert!(!cubic(|params| params.set("beta", "0.5").expect("within the domain")));
    }
}
