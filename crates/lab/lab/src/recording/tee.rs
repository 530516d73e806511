//! Passes the rows of one recording to several writers.

use core::ops::ControlFlow;
use poseidon_plan::records::{
    DecisionRow, DropRow, LawStateRow, MarkRow, MessageRow, PacketRow, PauseRow, Progress, QueueRow,
    ReceivedRow, ReceiverRow, SenderRow, Sink,
};

/// A sink that passes every row to several sinks. If one of them stops the run, the run stops.
pub struct Tee<'a>(pub Vec<&'a mut dyn Sink>);

macro_rules! forward_rows {
    ($($record:ident: $row:ty,)*) => {$(
        fn $record(&mut self, row: $row) {
            for sink in &mut self.0 {
                sink.$record(row);
            }
        }
    )*};
}

impl Sink for Tee<'_> {
    forward_rows! {
        record_message: MessageRow,
        record_received: ReceivedRow,
        record_drop: DropRow,
        record_queue: QueueRow,
        record_sender: SenderRow,
        record_receiver: ReceiverRow,
        record_decision: DecisionRow,
        record_mark: MarkRow,
        record_pause: PauseRow,
        record_law_state: LawStateRow,
        record_packet: PacketRow,
    }

    fn on_progress(&mut self, progress: Progress) -> ControlFlow<()> {
        let mut flow = ControlFlow::Continue(());
        for sink in &mut self.0 {
            if sink.on_progress(progress).is_break() {
                flow = ControlFlow::Break(());
            }
        }
        flow
    }
}
