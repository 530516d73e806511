//! The size limit of a trace, divided between the kinds of rows.

/// What a trace contains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TraceSummary {
    /// The size of the file.
    pub bytes: u64,
    /// The number of counter values.
    pub counter_values: u64,
    /// The number of message and pause slices.
    pub slices: u64,
    /// The number of instants.
    pub instants: u64,
    /// The number of rows that exceed the size limit and are not in the file.
    pub omitted: u64,
}

/// The bytes of one kind of rows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    limit: u64,
    used: u64,
    pub(super) written: u64,
    pub(super) omitted: u64,
}

impl Share {
    pub(super) const fn new(limit: u64) -> Self {
        Self { limit, used: 0, written: 0, omitted: 0 }
    }

    /// Returns whether one more row may be written. Otherwise, counts it as omitted.
    pub(super) const fn has_space(&mut self) -> bool {
        let has_space = self.used < self.limit;
        if !has_space {
            self.omitted += 1;
        }
        has_space
    }

    /// Counts a written row.
    pub(super) const fn add(&mut self, bytes: u64) {
        self.used += bytes;
        self.written += 1;
    }
}

/// The shares of all kinds of rows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    pub(super) counters: Share,
    pub(super) slices: Share,
    pub(super) instants: Share,
}

impl Budget {
    /// Divides a size limit.
    pub(super) const fn new(max_bytes: u64) -> Self {
        let percent = max_bytes / 100;
        Self {
            counters: Share::new(65 * percent),
            slices: Share::new(20 * percent),
            instants: Share::new(10 * percent),
        }
    }

    pub(super) const fn summary(&self, bytes: u64) -> TraceSummary {
        TraceSummary {
            bytes,
            counter_values: self.counters.written,
            slices: self.slices.written,
            instants: self.instants.written,
            omitted: self.counters.omitted + self.slices.omitted + self.instants.omitted,
        }
    }
}
