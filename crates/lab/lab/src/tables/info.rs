//! What every table holds: one description for both formats and for people.

/// A table: one kind of row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableInfo {
    /// What it is called; its file has the format's ending behind.
    pub name: &'static str,
    /// What a row of it is.
    pub says: &'static str,
    /// Its columns, in order.
    pub columns: &'static [ColumnInfo],
}

/// A column of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColumnInfo {
    /// What it is called, with its unit behind where it has one.
    pub name: &'static str,
    /// How its values are written.
    pub kind: Kind,
    /// What its values count.
    pub unit: Unit,
    /// Whether a value may be missing: null in Parquet, an empty field in CSV.
    pub may_miss: bool,
    /// What it says.
    pub says: &'static str,
}

/// How the values of a column are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Whole numbers, never negative, in 64 bits with a sign: so that a reader's differences do not wrap. Saturates at 2^63 - 1.
    Integer,
    /// Floats of 64 bits. A window of packets is exact in them up to 2^29 packets.
    Real,
    /// True or false.
    Flag,
    /// Text in UTF-8.
    Text,
}

impl Kind {
    /// What it is called.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Integer => "integer",
            Self::Real => "float",
            Self::Flag => "true or false",
            Self::Text => "text",
        }
    }
}

/// What the values of a column count.
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
    /// How often something happened.
    Count,
    /// Which one: a number in the plan.
    Number,
    /// Nothing: text and flags.
    None,
}

impl Unit {
    /// How the name of a column with this unit ends.
    pub const fn suffix(self) -> Option<&'static str> {
        match self {
            Self::Picoseconds => Some("_ps"),
            Self::Nanoseconds => Some("_ns"),
            Self::Bytes => Some("_bytes"),
            Self::Packets => Some("_packets"),
            Self::Count | Self::Number | Self::None => None,
        }
    }

    /// What it is called.
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
    const fn integer(name: &'static str, unit: Unit, says: &'static str) -> Self {
        Self { name, kind: Kind::Integer, unit, may_miss: false, says }
    }

    const fn number(name: &'static str, says: &'static str) -> Self {
        Self::integer(name, Unit::Number, says)
    }

    const fn window() -> Self {
        let says = "what the law allows in flight";
        Self { name: "window_packets", kind: Kind::Real, unit: Unit::Packets, may_miss: false, says }
    }

    const fn at(says: &'static str) -> Self {
        Self::integer("at_ps", Unit::Picoseconds, says)
    }

    const fn text(name: &'static str, says: &'static str) -> Self {
        Self { name, kind: Kind::Text, unit: Unit::None, may_miss: false, says }
    }

    const fn that_may_miss(self) -> Self {
        Self { may_miss: true, ..self }
    }
}

/// Which of [`TABLES`], by its place there.
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

/// Every table that a run can write, in the order of this page and of what [`Tables::finish`](super::Tables::finish) lists.
pub const TABLES: &[TableInfo] = &[
    TableInfo {
        name: "messages",
        says: "a message that was acknowledged whole, in order of that time",
        columns: &[
            ColumnInfo::number("message", "its index in the plan"),
            ColumnInfo::text("group", "the pattern it belongs to; missing where it belongs to none")
                .that_may_miss(),
            ColumnInfo::number("connection", "its connection's index in the plan"),
            ColumnInfo::number("from", "the host that sent it"),
            ColumnInfo::number("to", "the host that received it"),
            ColumnInfo::text("law", "the law of its connection"),
            ColumnInfo::integer("start_ps", Unit::Picoseconds, "when the application handed it over"),
            ColumnInfo::integer(
                "acknowledged_ps",
                Unit::Picoseconds,
                "when its last byte was acknowledged at the sender",
            ),
            ColumnInfo::integer("latency_ps", Unit::Picoseconds, "the time between the two"),
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
        says: "a message that is whole at its receiver",
        columns: &[
            ColumnInfo::number("message", "its index in the plan"),
            ColumnInfo::at("when its last missing byte arrived"),
        ],
    },
    TableInfo {
        name: "drops",
        says: "a packet that a switch dropped",
        columns: &[
            ColumnInfo::at("when"),
            ColumnInfo::number("switch", "the switch"),
            ColumnInfo::number("connection", "the connection that the packet belonged to"),
            ColumnInfo::number("packet", "its number in the connection"),
            ColumnInfo::text(
                "cause",
                "`buffer`: there was no room for it; `link`: every link that leads on was down",
            ),
        ],
    },
    TableInfo {
        name: "queues",
        says: "a watched queue at one instant",
        columns: &[
            ColumnInfo::at("when"),
            ColumnInfo::number("switch", "the switch"),
            ColumnInfo::number("port", "the egress port"),
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
        says: "a watched connection at its sender, at one instant",
        columns: &[
            ColumnInfo::at("when"),
            ColumnInfo::number("connection", "its index in the plan"),
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
        says: "a watched connection at its receiver, at one instant",
        columns: &[
            ColumnInfo::at("when"),
            ColumnInfo::number("connection", "its index in the plan"),
            ColumnInfo::integer(
                "received_bytes",
                Unit::Bytes,
                "payload that has arrived, each byte counted once",
            ),
        ],
    },
    TableInfo {
        name: "decisions",
        says: "what the law of a watched connection saw in one ACK, and what it allows from then on",
        columns: &[
            ColumnInfo::at("when"),
            ColumnInfo::number("connection", "its index in the plan"),
            ColumnInfo::number("packet", "the packet that caused the ACK, by its number in the connection"),
            ColumnInfo::integer("rtt_ns", Unit::Nanoseconds, "the round-trip time"),
            ColumnInfo {
                name: "marked",
                kind: Kind::Flag,
                unit: Unit::None,
                may_miss: false,
                says: "whether the ACK told of a mark",
            },
            ColumnInfo::integer(
                "hop_delay_ns",
                Unit::Nanoseconds,
                "the largest delay at any hop, as the law read it; missing where no hop said",
            )
            .that_may_miss(),
            ColumnInfo::integer(
                "hop_queue_bytes",
                Unit::Bytes,
                "the largest queue at any hop, as the law read it; missing where no hop said",
            )
            .that_may_miss(),
            ColumnInfo::window(),
        ],
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_column_tells_its_unit() {
        let suffixes = ["_ps", "_ns", "_us", "_ms", "_bytes", "_packets"];
        for column in TABLES.iter().flat_map(|table| table.columns) {
            let ends = suffixes.into_iter().find(|suffix| column.name.ends_with(suffix));
            assert_eq!(ends, column.unit.suffix(), "{}", column.name);
            let measured = matches!(column.kind, Kind::Integer | Kind::Real);
            assert_eq!(measured, column.unit != Unit::None, "{}", column.name);
            assert!(!column.says.is_empty());
        }
    }

    #[test]
    fn a_table_stands_at_its_place_with_columns_of_different_names() {
        let places = [
            (Table::Messages, "messages"),
            (Table::Received, "received"),
            (Table::Drops, "drops"),
            (Table::Queues, "queues"),
            (Table::Senders, "senders"),
            (Table::Receivers, "receivers"),
            (Table::Decisions, "decisions"),
        ];
        assert_eq!(places.len(), TABLES.len());
        for (table, name) in places {
            let info = TABLES[table as usize];
            assert_eq!(info.name, name);
            let mut names: Vec<&str> = info.columns.iter().map(|column| column.name).collect();
            names.sort_unstable();
            assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{name}");
        }
    }
}
