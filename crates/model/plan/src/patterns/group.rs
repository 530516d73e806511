//! Message groups.

use crate::records::ReceivedRow;
use poseidon_types::{MessageId, Picos};

/// A named group of messages that belong to one pattern. A collective is complete when all messages in its group have
/// arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// The group name.
    pub name: String,
    /// The start time of the first message.
    pub start: Picos,
    /// The message IDs, in sorted order.
    pub messages: Vec<MessageId>,
}

impl Group {
    /// Returns whether the group contains a message.
    pub fn contains(&self, message: MessageId) -> bool {
        self.messages.binary_search(&message).is_ok()
    }

    /// Returns the time at which the last message was fully received, or `None` if any message is missing.
    pub fn finish_time(&self, rows: &[ReceivedRow]) -> Option<Picos> {
        let group_rows = || rows.iter().filter(|row| self.contains(row.message));
        // Each received message has exactly one row, so a low row count means that a message is missing.
        if group_rows().count() < self.messages.len() {
            return None;
        }
        group_rows().map(|row| row.time).max()
    }

    /// Returns the time from the group's start until its last message was fully received.
    pub fn completion_time(&self, rows: &[ReceivedRow]) -> Option<Picos> {
        self.finish_time(rows).map(|end| end - self.start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn collective_finishes_with_its_last_message() {
        let messages = vec![MessageId::new(2), MessageId::new(5)];
        let group = Group { name: "ring".into(), start: Picos::new(100), messages };
        let row = |message, time| ReceivedRow { message: MessageId::new(message), time: Picos::new(time) };
        let rows = [row(2, 400), row(3, 900), row(5, 350)];
        assert_eq!(group.completion_time(&rows), Some(Picos::new(300)));
        assert_eq!(group.finish_time(&rows), Some(Picos::new(400)));
        assert_eq!(group.completion_time(&rows[..2]), None, "message 5 is missing");
    }
}
