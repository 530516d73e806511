//! What a law's decision and the RTT mean for the times of a sender: pacing and the retransmission timeout.

use poseidon_laws::{Law as _, Pacing};
use poseidon_types::{Bytes, Nanos, Picos};

use crate::context::ShardContext;
use crate::sender::Sender;

/// Applies the law's current decision. A new pacing gap starts at the last send. Otherwise, a window below
/// one packet would be paced by an outdated RTT, and a connection whose window has grown above one packet
/// would still wait.
#[inline(always)]
pub(super) fn apply_decision(sender: &mut Sender) {
    let gap = |pacing| match pacing {
        Pacing::Gap(gap) => Picos::from_nanos(gap),
        Pacing::Off | Pacing::Rate(_) => Picos::ZERO,
    };
    let last_send = sender.next_send - gap(sender.decision.pacing);
    sender.decision = match &sender.coexistence {
        None => sender.law.decision(),
        Some(coexistence) => coexistence.decision(sender.law.decision()),
    };
    sender.next_send = last_send + gap(sender.decision.pacing);
}

/// Returns the pacing delay after a packet of `size` bytes has been sent.
pub(super) fn pacing_delay(sender: &Sender, size: u16) -> Picos {
    match sender.decision.pacing {
        Pacing::Off => Picos::ZERO,
        Pacing::Gap(gap) => Picos::from_nanos(gap),
        Pacing::Rate(rate) => rate.send_time_ceil(Bytes::new(u64::from(size))),
    }
}

/// Returns the retransmission timeout: twice the smoothed RTT plus the pacing gap, but at least the
/// configured minimum. Before the first RTT sample, returns the configured initial timeout.
pub(super) fn rto(ctx: &ShardContext<'_>, sender: &Sender) -> Picos {
    if sender.srtt.is_zero() {
        return Picos::from_nanos(ctx.plan.transport.first_rto);
    }
    let gap = match sender.decision.pacing {
        Pacing::Gap(gap) => gap,
        Pacing::Off | Pacing::Rate(_) => Nanos::ZERO,
    };
    let timeout = ctx.plan.transport.min_rto.max(Nanos::new(2 * sender.srtt.get()) + gap);
    Picos::from_nanos(timeout)
}

#[cfg(test)]
mod tests {
    use super::*;
    use poseidon_laws::{Ack, AnyParams, Path};
    use poseidon_types::{BitRate, Signals};

    #[test]
    fn new_pacing_gap_starts_at_the_last_send() {
        let path = Path {
            mtu: Bytes::new(4_096),
            line_rate: BitRate::from_gbps(200),
            base_rtt: Nanos::from_micros(10),
        };
        let mut params = AnyParams::for_law("poseidon").expect("the law exists");
        params.set("initial-window", "0.5 packets").expect("the value is valid");
        let mut sender = Sender::new(params.build(&path, Signals::ALL).expect("the law builds"), 0);
        // The last packet left at 7 us, so the next packet may leave 10 us / 0.5 later.
        sender.next_send = Picos::new(7_000_000) + pacing_delay(&sender, 4_096);
        assert_eq!(sender.next_send, Picos::new(27_000_000));
        let slow = Ack { now: Nanos::from_micros(22), rtt: Nanos::from_micros(15), ..Ack::EMPTY };
        sender.law.on_ack(&slow);
        apply_decision(&mut sender);
        assert_eq!(sender.next_send, Picos::new(37_000_000));
        // After four ACKs that report empty queues, the window exceeds one packet, and pacing ends.
        for _ in 0..4 {
            sender.law.on_ack(&Ack { packets: 1, max_hop_delay: Some(Nanos::ZERO), ..slow });
        }
        apply_decision(&mut sender);
        assert_eq!(sender.next_send, Picos::new(7_000_000));
    }
}
