//! Connections by their ends.

use super::{Class, Traffic};
use std::collections::BTreeMap;

/// One persistent connection per pair of hosts, made when it is first used.
#[derive(Default)]
pub(super) struct Pairs(BTreeMap<(u32, u32), u32>);

impl Pairs {
    /// The index of the connection from one host to another.
    pub(super) fn connection(&mut self, traffic: &mut Traffic, class: &Class, from: u32, to: u32) -> u32 {
        *self.0.entry((from, to)).or_insert_with(|| traffic.connect(class.connection(from, to, 0)))
    }
}

/// Numbers the connections that have the same ends, so that what one draws does not depend on those with others.
#[derive(Default)]
pub(super) struct Twins(BTreeMap<(u32, u32), u64>);

impl Twins {
    /// How many with these ends came before.
    pub(super) fn next(&mut self, from: u32, to: u32) -> u64 {
        let count = self.0.entry((from, to)).or_default();
        *count += 1;
        *count - 1
    }
}
