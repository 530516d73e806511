//! The sender's side of credits: how much it may still send, and how much it asks for.

use super::{to_bytes, to_quanta};

/// A connection's credit at its sender.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SendCredit {
    /// The bytes that may still be sent. Below zero by less than a packet, because any credit allows a whole packet.
    credit: i64,
    /// The total that the receiver has granted, in quanta.
    granted: u32,
    /// The largest credit and the largest demand: 1.5 bandwidth-delay products.
    limit: i64,
    /// Whether the connection has not heard from its receiver yet. It starts with credit of its own.
    is_speculating: bool,
    /// The largest total that the connection has asked for, in quanta.
    pub(crate) asked: u32,
}

/// What a connection has to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Demand {
    /// The bytes that wait to be sent or retransmitted, with headers.
    pub(crate) backlog: u64,
    /// Whether new bytes wait.
    pub(crate) has_new_data: bool,
    /// The law's window plus one packet, in bytes with headers.
    pub(crate) window: u64,
    /// The size of a full packet.
    pub(crate) packet: u64,
    /// The number of the host's connections that wait for their turn to send.
    pub(crate) active: u64,
}

impl SendCredit {
    pub(crate) fn new(limit: u64) -> Self {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        Self { credit: limit, granted: 0, limit, is_speculating: true, asked: 0 }
    }

    /// Returns whether the connection may send a packet.
    pub(crate) const fn allows_packet(&self) -> bool {
        self.credit > 0
    }

    /// Spends credit on a packet of `size` bytes.
    pub(crate) fn spend(&mut self, size: u64) {
        self.credit = self.credit.saturating_sub_unsigned(size);
    }

    /// Ends speculation: the receiver has replied, and from now on only its credit counts.
    pub(crate) fn on_reply(&mut self) {
        if self.is_speculating {
            self.is_speculating = false;
            self.credit = self.credit.min(0);
        }
    }

    /// Processes a pull packet with the receiver's total.
    pub(crate) fn on_pull(&mut self, granted: u32) {
        self.on_reply();
        if granted > self.granted {
            let new = to_bytes(granted - self.granted).get();
            self.credit = self.credit.saturating_add_unsigned(new).min(self.limit);
            self.granted = granted;
        }
    }

    /// Returns the total that the sender asks for, in quanta.
    pub(crate) fn pull_target(&self, demand: &Demand) -> u32 {
        let backlog = demand.backlog.min(demand.window);
        let wanted = i64::try_from(backlog).unwrap_or(i64::MAX).min(self.limit) - self.credit;
        let packet = i64::try_from(demand.packet).unwrap_or(i64::MAX);
        let wanted = if self.is_speculating && demand.has_new_data { wanted.max(packet) } else { wanted };
        let share = u64::try_from(wanted).unwrap_or(0) / demand.active.max(1);
        to_quanta(to_bytes(self.granted).get() + share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKET: u64 = 4_150;

    fn demand(backlog: u64) -> Demand {
        Demand { backlog, has_new_data: backlog > 0, window: u64::MAX, packet: PACKET, active: 1 }
    }

    #[test]
    fn speculation_ends_with_the_first_reply() {
        let mut credit = SendCredit::new(10_000);
        credit.spend(PACKET);
        credit.spend(PACKET);
        assert!(credit.allows_packet());
        credit.on_reply();
        assert!(!credit.allows_packet());
        credit.on_pull(to_quanta(PACKET));
        assert!(credit.allows_packet(), "replies end speculation only once");
        credit.on_reply();
        assert!(credit.allows_packet());
    }

    #[test]
    fn any_credit_allows_a_packet_and_the_debt_is_kept() {
        let mut credit = SendCredit::new(1);
        credit.spend(PACKET);
        assert!(!credit.allows_packet());
        credit.on_reply();
        credit.on_pull(16);
        assert!(!credit.allows_packet(), "16 quanta are 4,096 B, less than the debt of 4,149 B");
        credit.on_pull(17);
        assert!(credit.allows_packet());
    }

    #[test]
    fn repeated_and_overtaken_pulls_grant_nothing() {
        let mut credit = SendCredit::new(100_000);
        credit.on_pull(64);
        let once = credit.clone();
        credit.on_pull(64);
        credit.on_pull(10);
        assert_eq!(credit, once);
    }

    #[test]
    fn target_covers_the_backlog_without_the_credit_and_within_the_limits() {
        let mut credit = SendCredit::new(262_926);
        credit.on_pull(64);
        // 16,384 B of credit: the rest of 20,000 B is 3,616 B, 15 quanta.
        assert_eq!(credit.pull_target(&demand(20_000)), 64 + 15);
        assert_eq!(credit.pull_target(&demand(10_000)), 64, "no more is wanted");
        assert_eq!(credit.pull_target(&demand(1 << 40)), 64 + to_quanta(262_926 - 16_384));
        let windowed = Demand { window: 30_000, ..demand(1 << 40) };
        assert_eq!(credit.pull_target(&windowed), 64 + to_quanta(30_000 - 16_384));
        let shared = Demand { active: 4, ..demand(20_000) };
        assert_eq!(credit.pull_target(&shared), 64 + to_quanta(3_616 / 4));
    }

    #[test]
    fn speculating_sender_always_asks_for_a_packet() {
        let credit = SendCredit::new(262_926);
        assert_eq!(credit.pull_target(&demand(20_000)), to_quanta(PACKET));
        assert_eq!(credit.pull_target(&demand(0)), 0);
    }
}
