//! Checks that files in both formats return the same rows when read back, for complete and interrupted runs.

use core::ops::ControlFlow;
use parquet::basic::Compression;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use poseidon_lab::reduce::ideal_latency;
use poseidon_lab::tables::{FileInfo, Format, RowLabels, TABLES, TableError, TableSink, TrafficLabel};
use poseidon_plan::patterns::{Incast, LongFlows, Pattern, Stagger, Traffic, TrafficClass};
use poseidon_plan::records::{
    DecisionRow, DropCause, DropRow, MemorySink, MessageRow, Progress, QueueRow, ReceivedRow, ReceiverRow,
    SenderRow, Sink,
};
use poseidon_plan::switch::PerQueue;
use poseidon_plan::traffic::Amount;
use poseidon_plan::{Backend, Plan, SwitchPort, Topology};
use poseidon_sim::Simulator;
use poseidon_testkit::plans::{LINK, plan};
use poseidon_types::{Bytes, ConnectionId, HostId, MessageId, Nanos, Packets, Picos, PortId, SwitchId};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

const FORMATS: [Format; 2] = [Format::Parquet, Format::Csv];
const ROWS_PER_GROUP: i64 = 65_536;
/// The largest integer of a table. Larger values saturate.
const MAX_INTEGER: u64 = i64::MAX.unsigned_abs();

/// Returns the path of a folder that does not exist yet.
fn unused_folder(name: &str, format: Format) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("tables-{name}-{}", format.name()));
    if folder.exists() {
        fs::remove_dir_all(&folder).expect("the old folder can be removed");
    }
    folder
}

/// The contents of a table in either format. A missing value is an empty string.
#[derive(Debug, PartialEq)]
struct TableContent {
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
}

fn read(folder: &Path, table: &str, format: Format) -> TableContent {
    let path = folder.join(format!("{table}.{}", format.name()));
    match format {
        Format::Parquet => read_parquet(&path),
        Format::Csv => read_csv(&path),
    }
}

fn read_csv(path: &Path) -> TableContent {
    let mut reader = csv::Reader::from_path(path).expect("the file can be opened");
    let columns = reader.headers().expect("the file has a header").iter().map(String::from).collect();
    let rows = reader
        .records()
        .map(|row| row.expect("the row can be read").iter().map(String::from).collect())
        .collect();
    TableContent { columns, rows }
}

fn read_parquet(path: &Path) -> TableContent {
    let reader = SerializedFileReader::new(File::open(path).expect("the file can be opened"))
        .expect("the file has a footer");
    let columns = reader.metadata().file_metadata().schema_descr().columns().iter();
    let columns = columns.map(|column| column.name().to_string()).collect();
    let cell = |field: &Field| match field {
        Field::Null => String::new(),
        Field::Str(text) => text.clone(),
        Field::Long(number) => number.to_string(),
        Field::Double(number) => number.to_string(),
        Field::Bool(flag) => flag.to_string(),
        other => panic!("{other:?}: no table has a column of this type"),
    };
    let row = |row: Result<parquet::record::Row, _>| {
        row.expect("the row can be read").get_column_iter().map(|(_, f)| cell(f)).collect()
    };
    TableContent { columns, rows: reader.get_row_iter(None).expect("the file has rows").map(row).collect() }
}

/// Returns the expected rows of each table.
fn expected_content(rows: &MemorySink, plan: &Plan, labels: &RowLabels<'_>) -> Vec<Vec<Vec<String>>> {
    let cells =
        |values: &[&dyn ToString]| values.iter().map(|value| value.to_string()).collect::<Vec<String>>();
    let text_or_empty = |value: Option<u64>| value.map(|value| value.to_string()).unwrap_or_default();
    let packets = |packets: Packets| packets.q24() as f64 / 16_777_216.0;
    let with_labels = |connection: ConnectionId, values: &[&dyn ToString]| {
        let law = plan.laws[plan.connections[connection.index()].law as usize].law_name();
        let mut traffic =
            labels.traffic.iter().filter(|traffic| traffic.connections.contains(&connection.get()));
        let (name, law) = traffic.next().map_or(("", law), |traffic| (traffic.name, traffic.law));
        [cells(&[&labels.cell, &plan.seed, &name, &law]), cells(values)].concat()
    };
    let connection_of = |message: MessageId| plan.messages[message.index()].connection;
    let message = |row: &MessageRow| {
        let number = connection_of(row.message);
        let connection = plan.connections[number.index()];
        let (start, acknowledged) = (row.start.get(), row.acknowledged.get());
        with_labels(
            number,
            &[
                &row.message.get(),
                &number.get(),
                &connection.from.get(),
                &connection.to.get(),
                &start,
                &acknowledged,
                &(acknowledged - start),
                &ideal_latency(plan, connection.from, connection.to, row.size.get()).get().min(MAX_INTEGER),
                &row.size.get(),
                &row.retransmitted,
            ],
        )
    };
    let received =
        |row: &ReceivedRow| with_labels(connection_of(row.message), &[&row.message.get(), &row.time.get()]);
    let drop = |row: &DropRow| {
        let cause = format!("{:?}", row.cause).to_lowercase();
        let values: [&dyn ToString; 5] =
            [&row.time.get(), &row.switch.get(), &row.connection.get(), &row.packet, &cause];
        with_labels(row.connection, &values)
    };
    let queue = |row: &QueueRow| {
        let port = SwitchPort::new(row.switch, row.port);
        let mut names: Vec<&str> =
            labels.queues.iter().filter(|(named, _)| *named == port).map(|(_, name)| *name).collect();
        if names.is_empty() {
            names.push("");
        }
        let values = cells(&[
            &row.time.get(),
            &row.switch.get(),
            &row.port.get(),
            &row.queued.get(),
            &row.delay.get(),
            &row.sent.get(),
        ]);
        let named = |name: &str| [cells(&[&labels.cell, &plan.seed, &name]), values.clone()].concat();
        names.into_iter().map(named).collect::<Vec<_>>()
    };
    let sender = |row: &SenderRow| {
        with_labels(
            row.connection,
            &[&row.time.get(), &row.connection.get(), &packets(row.window), &row.in_flight, &row.srtt.get()],
        )
    };
    let receiver = |row: &ReceiverRow| {
        with_labels(row.connection, &[&row.time.get(), &row.connection.get(), &row.received.get()])
    };
    let decision = |row: &DecisionRow| {
        with_labels(
            row.connection,
            &[
                &row.time.get(),
                &row.connection.get(),
                &row.packet,
                &row.rtt.get(),
                &row.marked,
                &text_or_empty(row.hop_delay.map(Nanos::get)),
                &text_or_empty(row.hop_queue.map(Bytes::get)),
                &packets(row.window),
            ],
        )
    };
    vec![
        rows.messages.iter().map(message).collect(),
        rows.received.iter().map(received).collect(),
        rows.drops.iter().map(drop).collect(),
        rows.queues.iter().flat_map(queue).collect(),
        rows.senders.iter().map(sender).collect(),
        rows.receivers.iter().map(receiver).collect(),
        rows.decisions.iter().map(decision).collect(),
    ]
}

/// Records rows in a sink in the same way that a run would.
fn record_rows(rows: &MemorySink, sink: &mut dyn Sink) {
    rows.messages.iter().for_each(|row| sink.record_message(*row));
    rows.received.iter().for_each(|row| sink.record_received(*row));
    rows.drops.iter().for_each(|row| sink.record_drop(*row));
    rows.queues.iter().for_each(|row| sink.record_queue(*row));
    rows.senders.iter().for_each(|row| sink.record_sender(*row));
    rows.receivers.iter().for_each(|row| sink.record_receiver(*row));
    rows.decisions.iter().for_each(|row| sink.record_decision(*row));
}

/// Checks that the folder contains exactly the expected tables, and that `files` lists them.
fn assert_contains(folder: &Path, format: Format, files: &[FileInfo], expected: &[Vec<Vec<String>>]) {
    let with_rows = TABLES.iter().zip(expected).filter(|(_, rows)| !rows.is_empty());
    let mut names = Vec::new();
    for ((info, rows), file) in with_rows.zip(files) {
        assert_eq!(file.name, format!("{}.{}", info.name, format.name()));
        assert_eq!(file.rows, rows.len() as u64, "{}", file.name);
        let read = read(folder, info.name, format);
        assert!(read.columns.iter().eq(info.columns.iter().map(|column| column.name)), "{}", file.name);
        assert_eq!(read.rows.len(), rows.len(), "{}", file.name);
        for (number, (found, row)) in read.rows.iter().zip(rows).enumerate() {
            assert_eq!(found, row, "{}, row {number}", file.name);
        }
        names.push(file.name.clone());
    }
    assert_eq!(names.len(), files.len());
    let mut found: Vec<String> = fs::read_dir(folder)
        .expect("the folder can be read")
        .map(|file| {
            file.expect("the file can be read").file_name().into_string().expect("file names are UTF-8")
        })
        .collect();
    found.sort_unstable();
    names.sort_unstable();
    assert_eq!(found, names);
}

/// Returns a plan with long flows and an incast that overflows a small buffer. Some connections and ports are watched.
fn busy_plan() -> (Plan, RowLabels<'static>) {
    let mut traffic = Traffic::default();
    let (start, stop) = (Picos::ZERO, "200 us".parse().expect("this is a valid time"));
    let long = LongFlows {
        ends: [0, 1].map(|from| (HostId::new(from), HostId::new(9))).to_vec(),
        start,
        spread: Picos::ZERO,
        stop,
    };
    traffic.merge(long.generate(&TrafficClass::new(7, "long")).expect("the pattern is valid"));
    let amount = Amount::Exactly(Bytes::new(200_000));
    let incast = Incast {
        senders: (2..9).map(HostId::new).collect(),
        target: HostId::new(9),
        amount,
        start,
        stagger: Stagger::NONE,
    };
    traffic.merge(incast.generate(&TrafficClass::new(7, "incast")).expect("the pattern is valid"));
    let traffic = traffic.into_plan_order();
    let mut plan = plan(Topology::star(10, LINK), "poseidon", &[]);
    plan.stop = "2 ms".parse().expect("this is a valid time");
    plan.switch.buffer = PerQueue { size: Bytes::new(100_000) }.into();
    plan.sample_every = "1 us".parse().expect("this is a valid time");
    plan.watched_ports = [8, 9].map(|port| SwitchPort::new(SwitchId::new(0), PortId::new(port))).to_vec();
    plan.watched_connections = [0, 1, 5].map(ConnectionId::new).to_vec();
    plan.log_decisions = true;
    (plan.connections, plan.messages) = (traffic.connections, traffic.messages);
    plan.dependencies = traffic.dependencies;
    (plan, labels())
}

/// Returns the labels of [`busy_plan`]: two laws with the same base, and a port with two names. Port 8 has no name.
fn labels() -> RowLabels<'static> {
    let port = SwitchPort::new(SwitchId::new(0), PortId::new(9));
    RowLabels {
        cell: "law careful, size 1 MB",
        traffic: vec![
            TrafficLabel { name: "long, \"quoted\"", law: "poseidon", connections: 0..2 },
            TrafficLabel { name: "incast", law: "careful", connections: 2..9 },
        ],
        queues: vec![(port, "last"), (port, "bottleneck")],
    }
}

/// Returns the labels without the first traffic pattern.
fn labels_of_incast() -> RowLabels<'static> {
    let labels = labels();
    RowLabels { traffic: labels.traffic[1..].to_vec(), ..labels }
}

#[test]
fn a_run_is_read_back_unchanged() {
    let (plan, labels) = busy_plan();
    let mut sink = MemorySink::default();
    Simulator::default().run(&plan, &mut sink).expect("the plan is valid");
    let expected = expected_content(&sink, &plan, &labels);
    assert!(expected.iter().all(|rows| !rows.is_empty()), "some table has no rows");
    for format in FORMATS {
        let folder = unused_folder("run", format);
        let mut tables = TableSink::new(&folder, format, &plan, labels.clone());
        let report = Simulator::default().run(&plan, &mut tables).expect("the plan is valid");
        assert!(!report.interrupted);
        assert_contains(&folder, format, &tables.finish().unwrap(), &expected);
    }
}

/// Returns rows of every kind with extreme values: zero, the maximum and alternating missing values.
fn extreme_rows(count: u32) -> MemorySink {
    let time = |row: u32| Picos::new(u64::from(row / 3) * 1_000_003);
    let window = |row: u32| match row {
        0 => Packets::from_q24(1),
        1 => Packets::MAX_WINDOW,
        _ => Packets::from_q24(u64::from(row) * 7_919),
    };
    let mut sink = MemorySink::default();
    for row in 0..count {
        sink.messages.push(MessageRow {
            message: MessageId::new(row % 9),
            start: time(row / 2),
            acknowledged: time(row),
            size: Bytes::new(i64::MAX.unsigned_abs() - u64::from(row)),
            retransmitted: u32::MAX - row,
        });
        sink.received.push(ReceivedRow { message: MessageId::new(row % 9), time: time(row) });
        let cause = if row % 5 == 0 { DropCause::Link } else { DropCause::Buffer };
        sink.drops.push(DropRow {
            time: time(row),
            switch: SwitchId::new(row % 4),
            connection: ConnectionId::new(row % 9),
            packet: u32::MAX - row,
            cause,
        });
        let (queued, delay) = (Bytes::new(u64::from(row)), Nanos::new(u64::from(row % 100)));
        let sent = Bytes::new(u64::from(row) * 4_160);
        sink.queues.push(QueueRow {
            time: time(row),
            switch: SwitchId::new(0),
            port: PortId::new(row % 64),
            queued,
            delay,
            sent,
        });
        let (in_flight, srtt) = (row % 200, Nanos::new(u64::from(row)));
        sink.senders.push(SenderRow {
            time: time(row),
            connection: ConnectionId::new(row % 9),
            window: window(row),
            in_flight,
            srtt,
        });
        sink.receivers.push(ReceiverRow {
            time: time(row),
            connection: ConnectionId::new(row % 9),
            received: Bytes::new(row.into()),
        });
        sink.decisions.push(DecisionRow {
            time: time(row),
            connection: ConnectionId::new(row % 9),
            packet: row,
            rtt: Nanos::new(4_000),
            marked: row % 7 == 0,
            hop_delay: (row % 2 == 0).then(|| Nanos::new(row.into())),
            // The first row group has no values.
            hop_queue: (row > 70_000).then(|| Bytes::new(row.into())),
            window: window(row),
        });
    }
    sink
}

#[test]
fn rows_of_several_row_groups_are_read_back_unchanged() {
    let (plan, labels) = (busy_plan().0, labels_of_incast());
    // Text and missing values are the hard cases across row groups, so only these two tables get rows for three groups.
    let MemorySink { messages, decisions, .. } = extreme_rows(131_073);
    let long = MemorySink { messages, decisions, ..MemorySink::default() };
    for rows in [extreme_rows(1), extreme_rows(65_536), extreme_rows(65_537), long] {
        let expected = expected_content(&rows, &plan, &labels);
        for format in FORMATS {
            let folder = unused_folder("extreme", format);
            let mut tables = TableSink::new(&folder, format, &plan, labels.clone());
            record_rows(&rows, &mut tables);
            let files = tables.finish().unwrap();
            assert_contains(&folder, format, &files, &expected);
            if format == Format::Parquet {
                files.iter().for_each(|file| assert_row_groups(&folder.join(&file.name)));
            }
            fs::remove_dir_all(folder).unwrap();
        }
    }
}

#[test]
fn rows_with_equal_labels_are_read_back_unchanged() {
    let (plan, labels) = busy_plan();
    // The second row group has labels of its own, and the third repeats those of the first. Port 8 has no name.
    let receivers = (0..3 * 65_536 + 1).map(|row: u32| ReceiverRow {
        time: Picos::new(row.into()),
        connection: ConnectionId::new(if row / 65_536 == 1 { 5 } else { 0 }),
        received: Bytes::new(7),
    });
    let queues = (0..2 * 65_536).map(|row: u32| QueueRow {
        time: Picos::new(row.into()),
        switch: SwitchId::new(0),
        port: PortId::new(if row < 65_536 { 8 } else { 7 }),
        queued: Bytes::ZERO,
        delay: Nanos::ZERO,
        sent: Bytes::ZERO,
    });
    let rows =
        MemorySink { receivers: receivers.collect(), queues: queues.collect(), ..MemorySink::default() };
    let expected = expected_content(&rows, &plan, &labels);
    let folder = unused_folder("equal-labels", Format::Parquet);
    let mut tables = TableSink::new(&folder, Format::Parquet, &plan, labels);
    record_rows(&rows, &mut tables);
    let files = tables.finish().unwrap();
    assert_contains(&folder, Format::Parquet, &files, &expected);
    for file in &files {
        assert_row_groups(&folder.join(&file.name));
        let reader = SerializedFileReader::new(File::open(folder.join(&file.name)).unwrap()).unwrap();
        let group = reader.metadata().row_group(0);
        let labels: i64 = group.columns()[..3].iter().map(|column| column.compressed_size()).sum();
        assert!(labels < 1_000, "{}: labels take {labels} of {} bytes", file.name, group.compressed_size());
    }
    fs::remove_dir_all(folder).unwrap();
}

/// Checks that a file has compressed row groups of bounded size.
fn assert_row_groups(path: &Path) {
    let reader = SerializedFileReader::new(File::open(path).expect("the file can be opened"))
        .expect("the file has a footer");
    let metadata = reader.metadata();
    let (last, full) = metadata.row_groups().split_last().expect("the file has a row group");
    assert!(full.iter().all(|group| group.num_rows() == ROWS_PER_GROUP));
    assert!((1..=ROWS_PER_GROUP).contains(&last.num_rows()), "a group is empty");
    assert!(last.columns().iter().all(|column| column.compression() == Compression::SNAPPY));
    let descriptions = metadata.file_metadata().key_value_metadata().expect("the file has descriptions");
    assert_eq!(descriptions.len(), last.num_columns(), "some column has no description");
}

#[test]
fn a_connection_without_traffic_has_no_traffic_but_a_law() {
    let (plan, labels) = (busy_plan().0, labels_of_incast());
    let start = Picos::ZERO;
    for format in FORMATS {
        let folder = unused_folder("no-traffic", format);
        let mut tables = TableSink::new(&folder, format, &plan, labels.clone());
        for message in 0..9 {
            tables.record_message(MessageRow {
                message: MessageId::new(message),
                start,
                acknowledged: start,
                size: Bytes::ZERO,
                retransmitted: 0,
            });
        }
        tables.finish().unwrap();
        let read = read(&folder, "messages", format);
        assert_eq!(&read.columns[..4], ["cell", "seed", "traffic", "law"]);
        let count = |traffic: &str, law: &str| {
            read.rows.iter().filter(|row| row[2] == traffic && row[3] == law).count()
        };
        assert_eq!((count("", "poseidon"), count("incast", "careful"), read.rows.len()), (2, 7, 9));
    }
}

#[test]
fn a_run_without_rows_creates_no_file() {
    let (plan, labels) = busy_plan();
    for format in FORMATS {
        let folder = unused_folder("empty", format);
        let tables = TableSink::new(&folder, format, &plan, labels.clone());
        assert_eq!(tables.finish().unwrap(), []);
        assert!(!folder.exists());
    }
}

#[test]
fn a_folder_that_cannot_be_created_interrupts_the_run() {
    let (plan, labels) = busy_plan();
    for format in FORMATS {
        let folder = unused_folder("in-a-file", format);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("file"), "").unwrap();
        let mut tables = TableSink::new(&folder.join("file/results"), format, &plan, labels.clone());
        let report = Simulator::default().run(&plan, &mut tables).expect("the plan is valid");
        assert!(report.interrupted);
        let error = tables.finish().unwrap_err();
        assert!(matches!(&error, TableError::Create { .. }), "{error}");
    }
}

/// Simulates a full disk for one file.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_interrupts_the_run_and_leaves_the_other_files_complete() {
    let (plan, labels) = busy_plan();
    let rows = extreme_rows(100_000);
    let progress = Progress { now: Picos::ZERO, packet_hops: 0, finished: 0 };
    for format in FORMATS {
        let folder = unused_folder("full", format);
        fs::create_dir_all(&folder).unwrap();
        let full = folder.join(format!("queues.{}", format.name()));
        let temporary = folder.join(format!(".queues.{}.{}.part", format.name(), std::process::id()));
        std::os::unix::fs::symlink("/dev/full", &temporary).unwrap();
        let mut tables = TableSink::new(&folder, format, &plan, labels.clone());
        rows.drops.iter().for_each(|row| tables.record_drop(*row));
        assert_eq!(tables.on_progress(progress), ControlFlow::Continue(()));
        rows.queues.iter().for_each(|row| tables.record_queue(*row));
        assert_eq!(tables.on_progress(progress), ControlFlow::Break(()));
        let error = tables.finish().unwrap_err();
        assert!(matches!(&error, TableError::Write { path, .. } if *path == full), "{error}");
        assert!(error.to_string().contains("No space left"), "{error}");
        assert_eq!(read(&folder, "drops", format).rows.len(), 100_000);
        assert!(!full.exists() && !temporary.exists(), "an incomplete file remains");
    }
}

/// Simulates a disk that becomes full at the last bytes of a file.
#[cfg(target_os = "linux")]
#[test]
fn finish_reports_a_disk_that_fills_up_at_the_end() {
    let (plan, labels) = busy_plan();
    for format in FORMATS {
        let folder = unused_folder("full-at-the-end", format);
        fs::create_dir_all(&folder).unwrap();
        let name = format!(".received.{}.{}.part", format.name(), std::process::id());
        std::os::unix::fs::symlink("/dev/full", folder.join(name)).unwrap();
        let mut tables = TableSink::new(&folder, format, &plan, labels.clone());
        tables.record_received(ReceivedRow { message: MessageId::new(0), time: Picos::ZERO });
        assert!(matches!(tables.finish(), Err(TableError::Write { .. })), "{format:?}");
    }
}
