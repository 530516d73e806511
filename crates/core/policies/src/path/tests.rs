use super::*;
use poseidon_types::Nanos;
use std::collections::BTreeSet;
use std::vec::Vec;

const FLOW: u32 = 0xabcd_1234;
const PATHS: u32 = 16;

fn policy(name: &str) -> AnyPathPolicy {
    let mut policy = AnyPathPolicy::from_name(name).expect("the policy is registered");
    if !policy.is_stateless() {
        policy.set("paths", "16").expect("the policy has paths");
    }
    policy
}

/// A connection that numbers its packets.
struct Flow {
    selector: PathSelector,
    sent: u32,
}

impl Flow {
    fn new(name: &str) -> Self {
        Self { selector: policy(name).start(), sent: 0 }
    }

    /// Returns the EVs of the next packets.
    fn send(&mut self, packets: u32) -> Vec<u32> {
        let evs = (0..packets).map(|_| {
            self.sent += 1;
            let packet = NextPacket { flow: FLOW, transmission: self.sent, sent: self.sent - 1, window: 8 };
            self.selector.choose(&packet)
        });
        evs.collect()
    }

    /// Returns the paths of the next packets.
    fn paths(&mut self, packets: u32) -> Vec<u32> {
        self.send(packets).into_iter().map(|ev| ev & (PATHS - 1)).collect()
    }

    fn report_at(&mut self, us: u64, path: u32, outcome: Outcome) {
        let ev = (outcome != Outcome::TimedOut).then_some(FLOW & !(PATHS - 1) | path);
        let now = Picos::from_nanos(Nanos::from_micros(us));
        self.selector.on_feedback(&Feedback { now, ev, outcome });
    }

    fn report(&mut self, path: u32, outcome: Outcome) {
        self.report_at(0, path, outcome);
    }
}

fn distinct(evs: &[u32]) -> usize {
    BTreeSet::from_iter(evs).len()
}

#[test]
fn ecmp_uses_one_ev() {
    assert_eq!(Flow::new("ecmp").send(4), [FLOW; 4]);
}

#[test]
fn spray_uses_a_different_ev_for_each_packet() {
    assert_eq!(distinct(&Flow::new("spray").send(1_000)), 1_000);
}

#[test]
fn evs_keep_the_upper_bits_of_the_connection() {
    for name in ["oblivious", "bitmap", "reps", "reps-legacy", "mixed"] {
        assert!(Flow::new(name).send(100).iter().all(|ev| ev / PATHS == FLOW / PATHS), "{name}");
    }
}

#[test]
fn oblivious_uses_each_path_once_per_round_in_changing_order() {
    let mut flow = Flow::new("oblivious");
    let rounds: Vec<Vec<u32>> = (0..20).map(|_| flow.paths(PATHS)).collect();
    assert!(rounds.iter().all(|round| distinct(round) == PATHS as usize));
    assert!(BTreeSet::from_iter(&rounds).len() > 5, "the order does not change");
    // Within a round, the path is the position XOR a constant.
    for round in &rounds {
        assert!((0..).zip(round).all(|(position, path)| position ^ path == round[0]), "{round:?}");
    }
}

#[test]
fn bitmap_skips_a_path_once_per_penalty_point() {
    let outcomes = [(Outcome::Good, 0), (Outcome::Marked, 1), (Outcome::Trimmed, 4)];
    for (outcome, points) in outcomes {
        let mut flow = Flow::new("bitmap");
        flow.report(5, outcome);
        let paths = flow.paths(20 * PATHS);
        let first = paths.iter().position(|path| *path == 5).expect("the penalty ends");
        // A round without path 5 has one packet fewer.
        assert!((points * 15..(points + 1) * 15 + 1).contains(&first), "{outcome:?}: {first}");
    }
}

#[test]
fn penalties_of_a_bitmap_saturate_at_fifteen() {
    let mut flow = Flow::new("bitmap");
    for _ in 0..10 {
        flow.report(5, Outcome::Trimmed);
    }
    let paths = flow.paths(20 * PATHS);
    let first = paths.iter().position(|path| *path == 5).expect("the penalty ends");
    assert!((15 * 15..16 * 15 + 1).contains(&first), "{first}");
}

#[test]
fn bitmap_sends_even_if_all_paths_have_penalties() {
    let mut flow = Flow::new("bitmap");
    for path in 0..PATHS {
        flow.report(path, Outcome::Trimmed);
    }
    assert_eq!(flow.paths(64).len(), 64);
    // The packets pay for the penalties, and all paths are used again.
    let _ = flow.paths(1_000);
    // Two rounds contain a whole one, wherever they start.
    assert_eq!(distinct(&flow.paths(2 * PATHS)), PATHS as usize);
}

#[test]
fn reps_reuses_good_paths_once_and_in_order() {
    let mut flow = Flow::new("reps");
    for path in [3, 9, 4] {
        flow.report(path, Outcome::Good);
    }
    flow.report(7, Outcome::Marked);
    flow.report(8, Outcome::Trimmed);
    assert_eq!(flow.paths(3), [3, 9, 4]);
    // Nothing is left, so the paths are random.
    assert!(distinct(&flow.paths(200)) > 10);
}

#[test]
fn reps_remembers_the_eight_newest_good_paths() {
    let mut flow = Flow::new("reps");
    for path in 0..12 {
        flow.report(path, Outcome::Good);
    }
    assert_eq!(flow.paths(8), [4, 5, 6, 7, 8, 9, 10, 11]);
}

#[test]
fn frozen_reps_reuses_remembered_paths_and_explores_afterwards() {
    let mut flow = Flow::new("reps");
    for path in [3, 9, 4] {
        flow.report(path, Outcome::Good);
    }
    assert_eq!(flow.paths(3), [3, 9, 4]);
    flow.report_at(100, 0, Outcome::TimedOut);
    assert_eq!(flow.paths(7), [3, 9, 4, 3, 9, 4, 3], "stale paths are reused in turn");
    // The freeze lasts 10 ms.
    flow.report_at(10_100, 9, Outcome::Marked);
    assert_eq!(flow.paths(2), [9, 4]);
    flow.report_at(10_101, 5, Outcome::Good);
    let explored = flow.paths(16);
    assert!(distinct(&explored) > 6, "{explored:?}");
    assert_eq!(flow.paths(1), [5], "the good path is used after 16 random ones");
}

#[test]
fn second_timeout_does_not_prolong_a_freeze() {
    let mut flow = Flow::new("reps");
    flow.report_at(100, 0, Outcome::TimedOut);
    flow.report_at(9_000, 0, Outcome::TimedOut);
    flow.report_at(10_101, 5, Outcome::Good);
    let _ = flow.paths(16);
    assert_eq!(flow.paths(1), [5]);
}

#[test]
fn reps_legacy_walks_over_the_paths_first() {
    let mut flow = Flow::new("reps-legacy");
    flow.report(12, Outcome::Good);
    assert_eq!(flow.paths(8), [1, 2, 3, 4, 5, 6, 7, 8], "the window has eight packets");
    assert_eq!(flow.paths(1), [12]);
    for _ in 0..3 {
        flow.report(2, Outcome::Good);
    }
    assert_eq!(flow.paths(3), [2, 2, 2]);
}

#[test]
fn mixed_prefers_good_paths_and_falls_back_to_the_bitmap() {
    let mut flow = Flow::new("mixed");
    let mut bitmap = Flow::new("bitmap");
    for flow in [&mut flow, &mut bitmap] {
        flow.report(6, Outcome::Trimmed);
    }
    flow.report(6, Outcome::Good);
    assert_eq!(flow.paths(1), [6]);
    bitmap.sent = 1;
    assert_eq!(flow.paths(40), bitmap.paths(40));
}

/// Checks that every policy conforms: the defaults are in range, printed parameters parse to the same values, and the
/// same events give the same EVs.
#[test]
fn every_policy_has_valid_defaults_and_is_deterministic() {
    for info in PATH_POLICIES {
        let policy = AnyPathPolicy::from_name(info.name).expect("the policy is registered");
        assert_eq!(policy.check(), Ok(()), "{}", info.name);
        let mut parsed = policy;
        policy.for_each(&mut |param, value| {
            parsed.set(param.name, &std::format!("{value}")).expect("printed values are valid");
        });
        assert_eq!(parsed, policy);
        let run = || {
            let mut flow = Flow { selector: policy.start(), sent: 0 };
            let mut evs = Vec::new();
            for step in 0..500_u32 {
                let sent = flow.send(1);
                let outcomes =
                    [Outcome::Good, Outcome::Good, Outcome::Marked, Outcome::Trimmed, Outcome::TimedOut];
                flow.report_at(u64::from(step), sent[0], outcomes[step as usize % 5]);
                evs.extend(sent);
            }
            evs
        };
        assert_eq!(run(), run(), "{}", info.name);
    }
}

#[test]
fn number_of_paths_must_be_a_power_of_two() {
    for (text, is_valid) in [("1", true), ("256", true), ("0", false), ("3", false), ("512", false)] {
        let mut policy = AnyPathPolicy::from_name("reps").expect("the policy is registered");
        policy.set("paths", text).expect("a number");
        assert_eq!(policy.check().is_ok(), is_valid, "{text}");
    }
}

#[test]
fn state_of_a_connection_is_small() {
    assert!(size_of::<PathSelector>() <= 448, "{}", size_of::<PathSelector>());
    assert!(size_of::<<Reps as PathPolicy>::State>() <= 32);
}
