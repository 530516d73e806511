//! Describes every table, for both file formats and the reference page.

/// A table, which stores one kind of row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableInfo {
    /// The table name, which is also the file name without the extension.
    pub name: &'static str,
    /// What a row describes.
    pub description: &'static str,
    /// The columns, in order.
    pub columns: &'static [ColumnInfo],
}

/// A column of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColumnInfo {
    /// The column name, which ends with the unit if there is one.
    pub name: &'static str,
    /// The value type.
    pub kind: ColumnKind,
    /// The value unit.
    pub unit: Unit,
    /// Whether a value may be missing: null in Parquet, an empty field in CSV.
    pub is_optional: bool,
    /// What the values mean.
    pub description: &'static str,
}

/// A column type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnKind {
    /// Non-negative integers, stored as signed 64-bit integers so that differences do not wrap. Values saturate at
    /// 2^63 - 1.
    Integer,
    /// 64-bit floats, which represent windows of up to 2^29 packets exactly.
    Real,
    /// True or false.
    Flag,
    /// UTF-8 text.
    Text,
}

impl ColumnKind {
    /// Returns the type name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Integer => "integer",
            Self::Real => "float",
            Self::Flag => "true or false",
            Self::Text => "text",
        }
    }
}

/// A column unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Picoseconds; times count from the start of the run.
    Picoseconds,
    /// Nanoseconds.
    Nanoseconds,
    /// Bytes.
    Bytes,
    /// Packets.
    Packets,
    /// A number of events.
    Count,
    /// An index into the plan.
    Number,
    /// No unit: text and flags.
    None,
}

impl Unit {
    /// Returns the suffix for names of columns with this unit.
    pub const fn suffix(self) -> Option<&'static str> {
        match self {
            Self::Picoseconds => Some("_ps"),
            Self::Nanoseconds => Some("_ns"),
            Self::Bytes => Some("_bytes"),
            Self::Packets => Some("_packets"),
            Self::Count | Self::Number | Self::None => None,
        }
    }

    /// Returns the unit name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Picoseconds => "ps",
            Self::Nanoseconds => "ns",
            Self::Bytes => "bytes",
            Self::Packets => "packets",
            Self::Count => "count",
            Self::Number => "number",
            Self::None => "",
        }
    }
}

impl ColumnInfo {
    const fn integer(name: &'static str, unit: Unit, description: &'static str) -> Self {
        Self { name, kind: ColumnKind::Integer, unit, is_optional: false, description }
    }

    const fn index(name: &'static str, description: &'static str) -> Self {
        Self::integer(name, Unit::Number, description)
    }

    const fn window() -> Self {
        let description = "what the law allows in flight";
        let (kind, unit) = (ColumnKind::Real, Unit::Packets);
        Self { name: "window_packets", kind, unit, is_optional: false, description }
    }

    const fn time(description: &'static str) -> Self {
        Self::integer("at_ps", Unit::Picoseconds, description)
    }

    const fn text(name: &'static str, description: &'static str) -> Self {
        Self { name, kind: ColumnKind::Text, unit: Unit::None, is_optional: false, description }
    }

    const fn optional(self) -> Self {
        Self { is_optional: true, ..self }
    }
}

/// The first columns of every table.
const CELL: ColumnInfo =
    ColumnInfo::text("cell", "the cell of the run, as the command prints it; empty if there is no sweep");
const SEED: ColumnInfo = ColumnInfo::index("seed", "the seed of the run");

/// The next columns of a table whose rows belong to a connection.
const TRAFFIC: ColumnInfo =
    ColumnInfo::text("traffic", "the traffic pattern of the connection; missing if it has none").optional();
const LAW: ColumnInfo = ColumnInfo::text("law", "the law of the connection, by its name in the scenario");

/// The columns that name a row's cell, seed, connection or queue.
const LABELS: [&str; 5] = ["cell", "seed", "traffic", "law", "queue"];

impl TableInfo {
    /// Returns the number of columns at the start of the table that name a row's cell, seed, connection or queue.
    pub(super) fn label_count(&self) -> usize {
        self.columns.iter().take_while(|column| LABELS.contains(&column.name)).count()
    }
}

/// An index into [`TABLES`].
#[derive(Clone, Copy)]
pub(super) enum Table {
    Messages,
    Received,
    Drops,
    Queues,
    Senders,
    Receivers,
    Decisions,
}

/// All tables that a run can write. The reference page and [`TableSink::finish`](super::TableSink::finish) use the same
/// order.
pub const TABLES: &[TableInfo] = &[
    TableInfo {
        name: "messages",
        description: "a message that was acknowledged whole, in order of that time",
        columns: &[
            CELL,
            SEED,
            TRAFFIC,
            LAW,
            ColumnInfo::index("message", "its index in the plan"),
            ColumnInfo::index("connection", "its connection's index in the plan"),
            ColumnInfo::index("from", "the host that sent it"),
            ColumnInfo::index("to", "the host that received it"),
            ColumnInfo::integer("start_ps", Unit::Picoseconds, "when the application handed it over"),
            ColumnInfo::integer(
                "acknowledged_ps",
                Unit::Picoseconds,
                "when its last byte was acknowledged at the sender",
            ),
            ColumnInfo::integer("latency_ps", Unit::Picoseconds, "the time between the two"),
            ColumnInfo::integer(
                "ideal_ps",
                Unit::Picoseconds,
                "the latency in an empty network; latency_ps divided by it is the slowdown",
            ),
            ColumnInfo::integer(
                "size_bytes",
                Unit::Bytes,
                "its length; for one that ended at a time, what was sent of it",
            ),
            ColumnInfo::integer("retransmitted", Unit::Count, "packets of it that had to be sent again"),
        ],
    },
    TableInfo {
        name: "received",
        description: "a message that is whole at its receiver",
        columns: &[
            CELL,
            SEED,
            TRAFFIC,
            LAW,
            ColumnInfo::index("message", "its index in the plan"),
            ColumnInfo::time("when its last missing byte arrived"),
        ],
    },
    TableInfo {
        name: "drops",
        description: "a packet that a switch dropped",
        columns: &[
            CELL,
            SEED,
            TRAFFIC,
            LAW,
            ColumnInfo::time("when"),
            ColumnInfo::index("switch", "the switch"),
            ColumnInfo::index("connection", "the connection that the packet belonged to"),
            ColumnInfo::index("packet", "its number in the connection"),
            ColumnInfo::text(
                "cause",
                "`buffer`: there was no room for it; `link`: every link that leads on was down",
            ),
        ],
    },
    TableInfo {
        name: "queues",
        description: "a watched queue at one instant; a port with two names has two rows",
        columns: &[
            CELL,
            SEED,
            ColumnInfo::text(
                "queue",
                "the name of the queue in `observe.queues`; missing for other ports of a watched buffer",
            )
            .optional(),
            ColumnInfo::time("when"),
            ColumnInfo::index("switch", "the switch"),
            ColumnInfo::index("port", "the egress port"),
            ColumnInfo::integer(
                "waiting_bytes",
                Unit::Bytes,
                "what waits in all queues of the port together",
            ),
            ColumnInfo::integer(
                "delay_ns",
                Unit::Nanoseconds,
                "how long the packet that left last had waited",
            ),
            ColumnInfo::integer("sent_bytes", Unit::Bytes, "what the port has sent so far"),
        ],
    },
    TableInfo {
        name: "senders",
        description: "a watched connection at its sender, at one instant",
        columns: &[
            CELL,
            SEED,
            TRAFFIC,
            LAW,
            ColumnInfo::time("when"),
            ColumnInfo::index("connection", "its index in the plan"),
            ColumnInfo::window(),
            ColumnInfo::integer("in_flight_packets", Unit::Packets, "what is in flight"),
            ColumnInfo::integer(
                "srtt_ns",
                Unit::Nanoseconds,
                "the smoothed round-trip time; zero before the first",
            ),
        ],
    },
    TableInfo {
        name: "receivers",
        description: "a watched connection at its receiver, at one instant",
        columns: &[
            CELL,
            SEED,
            TRAFFIC,
            LAW,
            ColumnInfo::time("when"),
            ColumnInfo::index("connection", "its index in the plan"),
            ColumnInfo::integer(
                "received_bytes",
                Unit::Bytes,
                "payload that has arrived, each byte counted once",
            ),
        ],
    },
    TableInfo {
        name: "decisions",
        description: "what the law of a watched connection saw in one ACK, and what it allows from then on",
        columns: &[
            CELL,
            SEED,
            TRAFFIC,
            LAW,
            ColumnInfo::time("when"),
            ColumnInfo::index("connection", "its index in the plan"),
            ColumnInfo::index("packet", "the packet that caused the ACK, by its number in the connection"),
            ColumnInfo::integer("rtt_ns", Unit::Nanoseconds, "the round-trip time"),
            ColumnInfo {
                name: "marked",
                kind: ColumnKind::Flag,
                unit: Unit::None,
                is_optional: false,
                description: "whether the ACK told of a mark",
            },
            ColumnInfo::integer(
                "hop_delay_ns",
                Unit::Nanoseconds,
                "the largest delay at any hop, as the law read it; missing where no hop said",
            )
            .optional(),
            ColumnInfo::integer(
                "hop_queue_bytes",
                Unit::Bytes,
                "the largest queue at any hop, as the law read it; missing where no hop said",
            )
            .optional(),
            ColumnInfo::window(),
        ],
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_column_name_ends_with_its_unit() {
        let suffixes = ["_ps", "_ns", "_us", "_ms", "_bytes", "_packets"];
        for column in TABLES.iter().flat_map(|table| table.columns) {
            let suffix = suffixes.into_iter().find(|suffix| column.name.ends_with(suffix));
            assert_eq!(suffix, column.unit.suffix(), "{}", column.name);
            let is_number = matches!(column.kind, ColumnKind::Integer | ColumnKind::Real);
            assert_eq!(is_number, column.unit != Unit::None, "{}", column.name);
            assert!(!column.description.is_empty());
        }
    }

    #[test]
    fn every_table_names_its_cell_and_its_connection_or_queue() {
        for table in TABLES {
            let names: Vec<&str> = table.columns.iter().map(|column| column.name).collect();
            let expected: &[&str] = if table.name == "queues" {
                &["cell", "seed", "queue"]
            } else {
                &["cell", "seed", "traffic", "law"]
            };
            assert_eq!(&names[..table.label_count()], expected, "{}", table.name);
            assert_eq!(names.contains(&"law"), table.name != "queues", "a queue has no law: {}", table.name);
        }
    }

    #[test]
    fn every_table_has_its_index_and_distinct_columns() {
        let tables = [
            (Table::Messages, "messages"),
            (Table::Received, "received"),
            (Table::Drops, "drops"),
            (Table::Queues, "queues"),
            (Table::Senders, "senders"),
            (Table::Receivers, "receivers"),
            (Table::Decisions, "decisions"),
        ];
        assert_eq!(tables.len(), TABLES.len());
        for (table, name) in tables {
            let info = TABLES[table as usize];
            assert_eq!(info.name, name);
            let mut names: Vec<&str> = info.columns.iter().map(|column| column.name).collect();
            names.sort_unstable();
            assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{name}");
        }
    }
}
