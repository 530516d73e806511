//! A cut that takes a round trip: the window falls with each packet that is acknowledged, and not at once.
//!
//! A sender that is cut at once is silent until its flight fits the new window, and the silence comes back every round trip, because ACKs
//! are the clock. Linux spreads every cut of a loss-based law (RFC 9937, proportional rate reduction); the bound of the pipe, which
//! RFC 9937 adds for heavy losses, is not needed for a window.

/// How far a cut has come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SpreadCut {
    /// The window before it, packets; zero where none is under way.
    from: f64,
    /// Packets acknowledged since.
    delivered: f64,
}

impl SpreadCut {
    /// None under way.
    pub const OVER: Self = Self { from: 0.0, delivered: 0.0 };

    /// A cut from this window begins.
    pub const fn begin(from: f64) -> Self {
        Self { from, delivered: 0.0 }
    }

    /// So many packets were acknowledged; whether the cut is still under way.
    #[inline]
    pub fn goes_on(&mut self, packets: f64) -> bool {
        self.delivered += packets;
        let goes_on = self.delivered < self.from;
        if !goes_on {
            *self = Self::OVER;
        }
        goes_on
    }

    /// The window at this moment of a cut that ends at `goal`.
    #[inline]
    pub fn window(&self, goal: f64) -> f64 {
        if self.from <= goal { goal } else { self.from - (self.from - goal) * self.delivered / self.from }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn falls_evenly_over_one_window_of_packets() {
        let mut cut = SpreadCut::begin(100.0);
        assert_eq!(cut.window(70.0), 100.0);
        assert!(cut.goes_on(50.0));
        assert_eq!(cut.window(70.0), 85.0);
        assert!(cut.goes_on(49.0));
        assert!(!cut.goes_on(1.0));
        assert_eq!(cut.window(70.0), 70.0);
    }

    #[test]
    fn without_a_cut_the_window_is_what_it_is() {
        assert_eq!(SpreadCut::OVER.window(3.0), 3.0);
    }
}
