//! `bpf/tables.h` has the tables of the law in Rust. It is committed, so that the law in C can be read and built without Rust;
//! where it differs, this test writes the right one and says where.

use core::fmt::Write as _;
use poseidon_laws::parts::fixed_math::{EXP2_TABLE, LOG2_TABLE};
use std::fs;

const HEAD: &str = "\
/* SPDX-License-Identifier: GPL-2.0-only OR MIT OR Apache-2.0 */
/*
 * log2 and exp2 at 257 points, 24 fractional bits. Between two points a straight line is off by 3e-6 at most.
 * Written by tests/tables.rs from the tables of the law in Rust.
 */
";

#[test]
fn the_header_has_the_tables_of_the_law() {
    let committed = concat!(env!("CARGO_MANIFEST_DIR"), "/bpf/tables.h");
    let right = concat!(env!("CARGO_TARGET_TMPDIR"), "/tables.h");
    if fs::read_to_string(committed).expect("it is committed") != header() {
        fs::write(right, header()).expect("cargo's own folder can be written");
        panic!("the tables differ: cp {right} {committed}");
    }
}

fn header() -> String {
    let mut text = HEAD.to_owned();
    table(&mut text, "log2(1 + i/256)", "poseidon_log2_table", &LOG2_TABLE);
    table(&mut text, "2^(i/256)", "poseidon_exp2_table", &EXP2_TABLE);
    text
}

fn table(text: &mut String, says: &str, name: &str, numbers: &[u32]) {
    let points = numbers.len();
    writeln!(text, "\n/* {says} */\nstatic const u32 {name}[{points}] = {{")
        .expect("a text takes everything");
    for row in numbers.chunks(8) {
        let row: Vec<_> = row.iter().map(|number| format!("{number:>8},")).collect();
        writeln!(text, "\t{}", row.join(" ")).expect("a text takes everything");
    }
    text.push_str("};\n");
}
