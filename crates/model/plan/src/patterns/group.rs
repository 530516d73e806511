//! Messages that belong together.

use crate::records::ReceivedRow;
use poseidon_types::Picos;

/// Messages that belong together: those of a pattern. For a collective, they are what must arrive before it is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// What they are called.
    pub name: String,
    /// When the first of them is handed over.
    pub start: Picos,
    /// Their indices. Sorted.
    pub messages: Vec<u32>,
}

impl Group {
    /// Whether a message belongs to it.
    pub fn contains(&self, message: u32) -> bool {
        self.messages.binary_search(&message).is_ok()
    }

    /// When the last of its messages was whole at its receiver; `None` while one is missing.
    pub fn finished(&self, rows: &[ReceivedRow]) -> Option<Picos> {
        let of_it = || rows.iter().filter(|row| self.contains(row.message));
        // A message arrives whole once, so as many rows as messages are all of them.
        if of_it().count() < self.messages.len() {
            return None;
        }
        of_it().map(|row| row.at).max()
    }

    /// How long that took from its start: the completion time of a collective.
    pub fn completion_time(&self, rows: &[ReceivedRow]) -> Option<Picos> {
        self.finished(rows).map(|end| end - self.start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collective_is_done_when_its_last_message_has_arrived() {
        let group = Group { name: "ring".into(), start: Picos::new(100), messages: vec![2, 5] };
        let row = |message, at| ReceivedRow { message, at: Picos::new(at) };
        let rows = [row(2, 400), row(3, 900), row(5, 350)];
        assert_eq!(group.completion_time(&rows), Some(Picos::new(300)));
        assert_eq!(group.finished(&rows), Some(Picos::new(400)));
        assert_eq!(group.completion_time(&rows[..2]), None, "message 5 is missing");
    }
}
