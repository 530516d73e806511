//! Rows in files: what is read back is what was written, in both formats, of whole runs and of broken ones.

use core::ops::ControlFlow;
use parquet::basic::Compression;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use poseidon_lab::tables::{Error, FileInfo, Format, TABLES, Tables};
use poseidon_plan::patterns::{Class, Group, Incast, LongFlows, Pattern, Stagger, Traffic};
use poseidon_plan::records::{
    DecisionRow, DropCause, DropRow, Kept, MessageRow, Progress, QueueRow, ReceivedRow, ReceiverRow,
    SenderRow, Sink,
};
use poseidon_plan::switch::PerQueue;
use poseidon_plan::traffic::Amount;
use poseidon_plan::{Backend, Plan, Topology};
use poseidon_sim::Simulator;
use poseidon_testkit::plans::{LINK, plan};
use poseidon_types::{Bytes, Nanos, Packets, Picos};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

const FORMATS: [Format; 2] = [Format::Parquet, Format::Csv];
const ROWS_PER_GROUP: i64 = 65_536;

/// A folder that is not there.
fn folder(name: &str, format: Format) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("tables-{name}-{}", format.name()));
    if folder.exists() {
        fs::remove_dir_all(&folder).expect("removes");
    }
    folder
}

/// A table as both formats mean it: names and cells, where what is missing is empty.
#[derive(Debug, PartialEq)]
struct Read {
    columns: Vec<String>,
    rows: Vec<Vec<String>>,
}

fn read(folder: &Path, table: &str, format: Format) -> Read {
    let path = folder.join(format!("{table}.{}", format.name()));
    match format {
        Format::Parquet => read_parquet(&path),
        Format::Csv => read_csv(&path),
    }
}

fn read_csv(path: &Path) -> Read {
    let mut reader = csv::Reader::from_path(path).expect("opens");
    let columns = reader.headers().expect("a header").iter().map(String::from).collect();
    let rows = reader.records().map(|row| row.expect("a row").iter().map(String::from).collect()).collect();
    Read { columns, rows }
}

fn read_parquet(path: &Path) -> Read {
    let reader = SerializedFileReader::new(File::open(path).expect("opens")).expect("a footer");
    let columns = reader.metadata().file_metadata().schema_descr().columns().iter();
    let columns = columns.map(|column| column.name().to_string()).collect();
    let cell = |field: &Field| match field {
        Field::Null => String::new(),
        Field::Str(text) => text.clone(),
        Field::Long(number) => number.to_string(),
        Field::Double(number) => number.to_string(),
        Field::Bool(flag) => flag.to_string(),
        other => panic!("{other:?} has a type that no table has"),
    };
    let row = |row: Result<parquet::record::Row, _>| {
        row.expect("a row").get_column_iter().map(|(_, f)| cell(f)).collect()
    };
    Read { columns, rows: reader.get_row_iter(None).expect("rows").map(row).collect() }
}

/// What a reader must find of these rows, table by table.
fn expected(rows: &Kept, plan: &Plan, groups: &[Group]) -> Vec<Vec<Vec<String>>> {
    let cells =
        |values: &[&dyn ToString]| values.iter().map(|value| value.to_string()).collect::<Vec<String>>();
    let or_empty = |value: Option<u64>| value.map(|value| value.to_string()).unwrap_or_default();
    let packets = |packets: Packets| packets.q24() as f64 / 16_777_216.0;
    let message = |row: &MessageRow| {
        let number = plan.messages[row.message as usize].connection;
        let connection = plan.connections[number as usize];
        let group = groups.iter().find(|group| group.contains(row.message));
        let (start, acknowledged) = (row.start.get(), row.acknowledged.get());
        cells(&[
            &row.message,
            &group.map_or("", |group| &group.name),
            &number,
            &connection.from,
            &connection.to,
            &plan.laws[connection.law as usize].law(),
            &start,
            &acknowledged,
            &(acknowledged - start),
            &row.size.get(),
            &row.retransmitted,
        ])
    };
    let drop = |row: &DropRow| {
        let cause = format!("{:?}", row.cause).to_lowercase();
        cells(&[&row.at.get(), &row.switch, &row.connection, &row.packet, &cause])
    };
    let queue = |row: &QueueRow| {
        cells(&[&row.at.get(), &row.switch, &row.port, &row.waiting.get(), &row.delay.get(), &row.sent.get()])
    };
    let sender = |row: &SenderRow| {
        cells(&[&row.at.get(), &row.connection, &packets(row.window), &row.in_flight, &row.srtt.get()])
    };
    let decision = |row: &DecisionRow| {
        cells(&[
            &row.at.get(),
            &row.connection,
            &row.packet,
            &row.rtt.get(),
            &row.marked,
            &or_empty(row.hop_delay.map(Nanos::get)),
            &or_empty(row.hop_queue.map(Bytes::get)),
            &packets(row.window),
        ])
    };
    vec![
        rows.messages.iter().map(message).collect(),
        rows.received.iter().map(|row| cells(&[&row.message, &row.at.get()])).collect(),
        rows.drops.iter().map(drop).collect(),
        rows.queues.iter().map(queue).collect(),
        rows.senders.iter().map(sender).collect(),
        rows.receivers
            .iter()
            .map(|row| cells(&[&row.at.get(), &row.connection, &row.received.get()]))
            .collect(),
        rows.decisions.iter().map(decision).collect(),
    ]
}

/// Hands rows over as a run would.
fn hand_over(rows: &Kept, sink: &mut dyn Sink) {
    rows.messages.iter().for_each(|row| sink.message(*row));
    rows.received.iter().for_each(|row| sink.received(*row));
    rows.drops.iter().for_each(|row| sink.drop(*row));
    rows.queues.iter().for_each(|row| sink.queue(*row));
    rows.senders.iter().for_each(|row| sink.sender(*row));
    rows.receivers.iter().for_each(|row| sink.receiver(*row));
    rows.decisions.iter().for_each(|row| sink.decision(*row));
}

/// The folder holds these rows and nothing else, and `files` says so.
fn assert_holds(folder: &Path, format: Format, files: &[FileInfo], expected: &[Vec<Vec<String>>]) {
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
        .expect("lists")
        .map(|file| file.expect("a file").file_name().into_string().expect("plain"))
        .collect();
    found.sort_unstable();
    names.sort_unstable();
    assert_eq!(found, names);
}

/// Long flows and an incast that overflows a small buffer, all watched.
fn busy() -> (Plan, Vec<Group>) {
    let mut traffic = Traffic::default();
    let (start, stop) = (Picos::ZERO, "200 us".parse().expect("a time"));
    let long = LongFlows { ends: vec![(0, 9), (1, 9)], start, spread: Picos::ZERO, stop };
    traffic.add(long.traffic(&Class::new(7, "long, \"quoted\"")).expect("a pattern"));
    let amount = Amount::Exactly(Bytes::new(200_000));
    let incast = Incast { senders: (2..9).collect(), target: 9, amount, start, stagger: Stagger::NONE };
    traffic.add(incast.traffic(&Class::new(7, "incast")).expect("a pattern"));
    let traffic = traffic.finish();
    let mut plan = plan(Topology::star(10, LINK), "poseidon", &[]);
    plan.stop = "2 ms".parse().expect("a time");
    plan.switch.buffer = PerQueue { size: Bytes::new(100_000) }.into();
    plan.sample_every = "1 us".parse().expect("a time");
    plan.watched = vec![(0, 8), (0, 9)];
    plan.watched_connections = vec![0, 1, 5];
    plan.log_decisions = true;
    (plan.connections, plan.messages, plan.after) = (traffic.connections, traffic.messages, traffic.after);
    (plan, traffic.groups)
}

#[test]
fn a_run_is_read_back_as_it_was() {
    let (plan, groups) = busy();
    let mut kept = Kept::default();
    Simulator::default().run(&plan, &mut kept).expect("runs");
    let expected = expected(&kept, &plan, &groups);
    assert!(expected.iter().all(|rows| !rows.is_empty()), "every table has rows");
    for format in FORMATS {
        let folder = folder("run", format);
        let mut tables = Tables::new(&folder, format, &plan, &groups);
        let report = Simulator::default().run(&plan, &mut tables).expect("runs");
        assert!(!report.broken_off);
        assert_holds(&folder, format, &tables.finish().unwrap(), &expected);
    }
}

/// So many rows of every kind, with every value that is hard: nothing, the largest, and missing ones in turns.
fn hard_rows(count: u32) -> Kept {
    let at = |row: u32| Picos::new(u64::from(row / 3) * 1_000_003);
    let window = |row: u32| match row {
        0 => Packets::from_q24(1),
        1 => Packets::MAX_WINDOW,
        _ => Packets::from_q24(u64::from(row) * 7_919),
    };
    let mut kept = Kept::default();
    for row in 0..count {
        kept.messages.push(MessageRow {
            message: row % 9,
            start: at(row / 2),
            acknowledged: at(row),
            size: Bytes::new(i64::MAX.unsigned_abs() - u64::from(row)),
            retransmitted: u32::MAX - row,
        });
        kept.received.push(ReceivedRow { message: row % 9, at: at(row) });
        let cause = if row % 5 == 0 { DropCause::Link } else { DropCause::Buffer };
        kept.drops.push(DropRow { at: at(row), switch: row % 4, connection: u32::MAX, packet: row, cause });
        let (waiting, delay) = (Bytes::new(u64::from(row)), Nanos::new(u64::from(row % 100)));
        let sent = Bytes::new(u64::from(row) * 4_160);
        kept.queues.push(QueueRow { at: at(row), switch: 0, port: row % 64, waiting, delay, sent });
        let (in_flight, srtt) = (row % 200, Nanos::new(u64::from(row)));
        kept.senders.push(SenderRow {
            at: at(row),
            connection: row % 9,
            window: window(row),
            in_flight,
            srtt,
        });
        kept.receivers.push(ReceiverRow {
            at: at(row),
            connection: row % 9,
            received: Bytes::new(row.into()),
        });
        kept.decisions.push(DecisionRow {
            at: at(row),
            connection: row % 9,
            packet: row,
            rtt: Nanos::new(4_000),
            marked: row % 7 == 0,
            hop_delay: (row % 2 == 0).then(|| Nanos::new(row.into())),
            // The first row group has no value at all.
            hop_queue: (row > 70_000).then(|| Bytes::new(row.into())),
            window: window(row),
        });
    }
    kept
}

#[test]
fn rows_of_several_groups_are_read_back_as_they_were() {
    let (plan, groups) = busy();
    // Text and missing values are what groups could get wrong; the other tables have rows for two.
    let Kept { messages, decisions, .. } = hard_rows(131_073);
    let long = Kept { messages, decisions, ..Kept::default() };
    for rows in [hard_rows(1), hard_rows(65_536), hard_rows(65_537), long] {
        let expected = expected(&rows, &plan, &groups[1..]);
        for format in FORMATS {
            let folder = folder("hard", format);
            let mut tables = Tables::new(&folder, format, &plan, &groups[1..]);
            hand_over(&rows, &mut tables);
            let files = tables.finish().unwrap();
            assert_holds(&folder, format, &files, &expected);
            if format == Format::Parquet {
                files.iter().for_each(|file| assert_grouped(&folder.join(&file.name)));
            }
            fs::remove_dir_all(folder).unwrap();
        }
    }
}

/// A file has groups of bounded size, compressed.
fn assert_grouped(path: &Path) {
    let reader = SerializedFileReader::new(File::open(path).expect("opens")).expect("a footer");
    let metadata = reader.metadata();
    let (last, full) = metadata.row_groups().split_last().expect("a group");
    assert!(full.iter().all(|group| group.num_rows() == ROWS_PER_GROUP));
    assert!((1..=ROWS_PER_GROUP).contains(&last.num_rows()), "no group is empty");
    assert!(last.columns().iter().all(|column| column.compression() == Compression::SNAPPY));
    let says = metadata.file_metadata().key_value_metadata().expect("words");
    assert_eq!(says.len(), last.num_columns(), "every column says what it is");
}

#[test]
fn a_message_of_no_group_has_none() {
    let (plan, groups) = busy();
    let start = Picos::ZERO;
    for format in FORMATS {
        let folder = folder("no-group", format);
        let mut tables = Tables::new(&folder, format, &plan, &groups[1..]);
        for message in 0..9 {
            tables.message(MessageRow {
                message,
                start,
                acknowledged: start,
                size: Bytes::ZERO,
                retransmitted: 0,
            });
        }
        tables.finish().unwrap();
        let read = read(&folder, "messages", format);
        let without = read.rows.iter().filter(|row| row[1].is_empty()).count();
        assert_eq!((without, read.rows.len()), (2, 9));
    }
}

#[test]
fn a_run_without_rows_makes_nothing() {
    let (plan, groups) = busy();
    for format in FORMATS {
        let folder = folder("empty", format);
        let tables = Tables::new(&folder, format, &plan, &groups);
        assert_eq!(tables.finish().unwrap(), []);
        assert!(!folder.exists());
    }
}

#[test]
fn a_folder_that_cannot_be_made_breaks_the_run_off() {
    let (plan, groups) = busy();
    for format in FORMATS {
        let folder = folder("in-a-file", format);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("file"), "").unwrap();
        let mut tables = Tables::new(&folder.join("file/results"), format, &plan, &groups);
        let report = Simulator::default().run(&plan, &mut tables).expect("runs");
        assert!(report.broken_off);
        let error = tables.finish().unwrap_err();
        assert!(matches!(&error, Error::Create { .. }), "{error}");
    }
}

/// A disk that is full under one file.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_breaks_the_run_off_and_leaves_the_other_files_whole() {
    let (plan, groups) = busy();
    let rows = hard_rows(100_000);
    let progress = Progress { now: Picos::ZERO, packet_hops: 0, finished: 0 };
    for format in FORMATS {
        let folder = folder("full", format);
        fs::create_dir_all(&folder).unwrap();
        let full = folder.join(format!("queues.{}", format.name()));
        let part = folder.join(format!(".queues.{}.{}.part", format.name(), std::process::id()));
        std::os::unix::fs::symlink("/dev/full", &part).unwrap();
        let mut tables = Tables::new(&folder, format, &plan, &groups);
        rows.drops.iter().for_each(|row| tables.drop(*row));
        assert_eq!(tables.progress(progress), ControlFlow::Continue(()));
        rows.queues.iter().for_each(|row| tables.queue(*row));
        assert_eq!(tables.progress(progress), ControlFlow::Break(()));
        let error = tables.finish().unwrap_err();
        assert!(matches!(&error, Error::Write { path, .. } if *path == full), "{error}");
        assert!(error.to_string().contains("No space left"), "{error}");
        assert_eq!(read(&folder, "drops", format).rows.len(), 100_000);
        assert!(!full.exists() && !part.exists(), "no half of a file is left");
    }
}

/// The last bytes of a file may be the ones for which there is no room.
#[cfg(target_os = "linux")]
#[test]
fn a_disk_that_is_full_at_the_end_is_told_by_finish() {
    let (plan, groups) = busy();
    for format in FORMATS {
        let folder = folder("full-at-the-end", format);
        fs::create_dir_all(&folder).unwrap();
        let name = format!(".received.{}.{}.part", format.name(), std::process::id());
        std::os::unix::fs::symlink("/dev/full", folder.join(name)).unwrap();
        let mut tables = Tables::new(&folder, format, &plan, &groups);
        tables.received(ReceivedRow { message: 0, at: Picos::ZERO });
        assert!(matches!(tables.finish(), Err(Error::Write { .. })), "{format:?}");
    }
}
