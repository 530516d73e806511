//! Lays out text tables that fit the width of the terminal.

use crate::output::{Colour, has_colours, line_width};

/// The space between two columns.
const GAP: usize = 2;

/// A longer word may be broken before other columns become narrower than their words.
const LONG_WORD: usize = 24;

/// The smallest width of a column whose words are broken.
const MIN_WIDTH: usize = 6;

/// The maximum width of a column with values in [`print_blocks`].
const MAX_VALUE_WIDTH: usize = 18;

/// Prints a table. If it is too wide, its widest columns wrap.
pub(super) fn print_table(rows: &[Vec<String>]) {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let layout = Layout::new(rows, &vec![usize::MAX; columns], &vec![1; columns], line_width());
    layout.lines(rows, &|_, _| None).iter().for_each(|line| outln!("{line}"));
}

/// Prints a table whose columns wrap at their maximum widths, and earlier if the table is too wide. A column with a
/// larger weight gets more of the width. `colour` returns the colour of a cell.
pub(super) fn print_wrapped_table<const N: usize>(
    rows: &[[String; N]],
    max_widths: &[usize; N],
    weights: &[usize; N],
    colour: &dyn Fn(usize, usize) -> Option<Colour>,
) {
    let layout = Layout::new(rows, max_widths, weights, line_width());
    let no_colour = |_: usize, _: usize| None;
    let colour: &dyn Fn(usize, usize) -> Option<Colour> = if has_colours() { colour } else { &no_colour };
    layout.lines(rows, colour).iter().for_each(|line| outln!("{line}"));
}

/// Prints a table with many columns. If it is too wide, its columns are split into blocks, one below the other. Each
/// block repeats the first `keys` columns, and leaves out rows without values.
pub(super) fn print_blocks(rows: &[Vec<String>], keys: usize) {
    for (number, block) in blocks(rows, keys, line_width()).iter().enumerate() {
        if number > 0 {
            outln!();
        }
        block.iter().for_each(|line| outln!("{line}"));
    }
}

/// Returns the lines of each block.
fn blocks(rows: &[Vec<String>], keys: usize, width: usize) -> Vec<Vec<String>> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let max_widths: Vec<usize> =
        (0..columns).map(|column| if column < keys { width / (keys + 1) } else { MAX_VALUE_WIDTH }).collect();
    let widths: Vec<usize> =
        (0..columns).map(|column| column_width(rows, column, max_widths[column])).collect();
    let key_width: usize = widths[..keys.min(columns)].iter().map(|width| width + GAP).sum();
    let mut blocks: Vec<Vec<usize>> = Vec::new();
    let mut used = usize::MAX;
    for (column, width_of_column) in widths.iter().enumerate().skip(keys) {
        let needed = width_of_column + GAP;
        // A block has at least one column with values.
        if used.saturating_add(needed) > width + GAP {
            blocks.push((0..keys).collect());
            used = key_width;
        }
        blocks.last_mut().expect("the first column opens a block").push(column);
        used += needed;
    }
    let lines = |block: &Vec<usize>| {
        let pick = |row: &Vec<String>| -> Vec<String> {
            block.iter().map(|column| row.get(*column).cloned().unwrap_or_default()).collect()
        };
        let has_values = |row: &Vec<String>| row[keys..].iter().any(|cell| !cell.is_empty());
        let rows: Vec<Vec<String>> = rows.iter().map(pick).filter(has_values).collect();
        let max_widths: Vec<usize> = block.iter().map(|column| max_widths[*column]).collect();
        Layout::new(&rows, &max_widths, &vec![1; block.len()], width).lines(&rows, &|_, _| None)
    };
    blocks.iter().map(lines).collect()
}

/// Returns the width of a column: that of its longest cell, up to a maximum, but at least that of its longest word.
fn column_width<R: AsRef<[String]>>(rows: &[R], column: usize, max_width: usize) -> usize {
    let cells = || rows.iter().filter_map(|row| row.as_ref().get(column));
    let longest = cells().map(|cell| single_line(cell).chars().count()).max().unwrap_or(0);
    longest.min(max_width).max(longest_word(rows, column))
}

fn longest_word<R: AsRef<[String]>>(rows: &[R], column: usize) -> usize {
    let cells = rows.iter().filter_map(|row| row.as_ref().get(column));
    cells.flat_map(|cell| cell.split_whitespace().map(|word| word.chars().count())).max().unwrap_or(0)
}

/// The widths of the columns of a table.
struct Layout {
    widths: Vec<usize>,
}

impl Layout {
    /// Chooses the widths. If the table is wider than `width`, columns shrink to their longest words, starting with the
    /// widest column in proportion to its weight. If that is not enough, words are broken.
    fn new<R: AsRef<[String]>>(rows: &[R], max_widths: &[usize], weights: &[usize], width: usize) -> Self {
        let mut widths: Vec<usize> =
            max_widths.iter().enumerate().map(|(column, max)| column_width(rows, column, *max)).collect();
        let words = (0..widths.len()).map(|column| longest_word(rows, column).min(LONG_WORD)).collect();
        let available = width.saturating_sub(GAP * widths.len().saturating_sub(1));
        for floor in [words, vec![MIN_WIDTH; widths.len()]] {
            while widths.iter().sum::<usize>() > available {
                let shrinkable = (0..widths.len()).filter(|column| widths[*column] > floor[*column]);
                // Compare widths in proportion to their weights, without fractions.
                let widest = shrinkable.max_by(|a, b| {
                    (widths[*a] * weights[*b]).cmp(&(widths[*b] * weights[*a])).then(b.cmp(a))
                });
                let Some(column) = widest else { break };
                widths[column] -= 1;
            }
        }
        Self { widths }
    }

    /// Returns the lines of the table. Long cells are wrapped between words.
    fn lines<R: AsRef<[String]>>(
        &self,
        rows: &[R],
        colour: &dyn Fn(usize, usize) -> Option<Colour>,
    ) -> Vec<String> {
        let mut lines = Vec::new();
        for (row_index, row) in rows.iter().enumerate() {
            let cell = |column: usize| row.as_ref().get(column).map_or("", String::as_str);
            let cells: Vec<Vec<String>> =
                self.widths.iter().enumerate().map(|(column, width)| wrap(cell(column), *width)).collect();
            let height = cells.iter().map(Vec::len).max().unwrap_or(0);
            for line in 0..height {
                let mut text = String::new();
                // The spaces before the next cell.
                let mut padding = 0;
                for (column, (cell, width)) in cells.iter().zip(&self.widths).enumerate() {
                    let part = cell.get(line).map_or("", String::as_str);
                    if !part.is_empty() {
                        text.extend(core::iter::repeat_n(' ', padding));
                        padding = 0;
                        match colour(row_index, column) {
                            Some(colour) => text.push_str(&colour.paint(part)),
                            None => text.push_str(part),
                        }
                    }
                    padding += width + GAP - part.chars().count();
                }
                lines.push(text);
            }
        }
        lines
    }
}

/// Replaces line breaks and repeated spaces with single spaces, like [`wrap`].
fn single_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Wraps text into lines of at most `width` characters. A longer word is broken.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let characters: Vec<char> = word.chars().collect();
        for (number, piece) in characters.chunks(width.max(1)).enumerate() {
            let last = lines.last_mut().expect("the list starts with one line");
            if last.is_empty() {
                last.extend(piece);
            } else if number == 0 && last.chars().count() + 1 + piece.len() <= width {
                last.push(' ');
                last.extend(piece);
            } else {
                lines.push(piece.iter().collect());
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table_lines<R: AsRef<[String]>>(rows: &[R], max_widths: &[usize], width: usize) -> Vec<String> {
        let weights = vec![1; max_widths.len()];
        Layout::new(rows, max_widths, &weights, width).lines(rows, &|_, _| None)
    }

    /// Returns the column of a letter in each line that contains it.
    fn positions(lines: &[String], letter: char) -> Vec<usize> {
        lines.iter().filter_map(|line| line.chars().position(|c| c == letter)).collect()
    }

    fn owned(rows: &[&[&str]]) -> Vec<Vec<String>> {
        rows.iter().map(|row| row.iter().map(|cell| (*cell).to_owned()).collect()).collect()
    }

    fn widest(lines: &[String]) -> usize {
        lines.iter().map(|line| line.chars().count()).max().unwrap_or(0)
    }

    #[test]
    fn columns_are_aligned() {
        let rows = [
            ["A", "B", "C"],
            ["A-very-long-word-that-cannot-be-broken", "B and three more words", "C"],
            ["A", "B with a\nline end in it", "C"],
            ["A \u{b5}\u{b5}\u{b5}", "B", "C  spaces"],
        ]
        .map(|row| row.map(str::to_owned));
        for (max_widths, width) in
            [([12, 10, 5], 500), ([usize::MAX; 3], 500), ([1; 3], 500), ([usize::MAX; 3], 60), ([50; 3], 30)]
        {
            let lines = table_lines(&rows, &max_widths, width);
            for letter in ['A', 'B', 'C'] {
                let positions = positions(&lines, letter);
                assert_eq!(positions.len(), rows.len(), "{letter} {lines:#?}");
                assert!(positions.iter().all(|p| *p == positions[0]), "{letter} {positions:?} {lines:#?}");
            }
            assert!(widest(&lines) <= width, "{width}: {lines:#?}");
        }
    }

    #[test]
    fn a_long_cell_continues_on_the_next_line() {
        let rows = [["one two three".to_owned(), "x".to_owned()]];
        assert_eq!(table_lines(&rows, &[7, 7], 80), ["one two  x", "three"]);
    }

    #[test]
    fn the_widest_column_shrinks_first_and_words_are_broken_last() {
        let rows = owned(&[&["short", "four words of text", "two words"]]);
        assert_eq!(table_lines(&rows, &[usize::MAX; 3], 36), ["short  four words of text  two words"]);
        assert_eq!(
            table_lines(&rows, &[usize::MAX; 3], 30),
            ["short  four words    two words", "       of text"]
        );
        let rows = owned(&[&["abcdefghij", "klmnopqrst"]]);
        assert_eq!(table_lines(&rows, &[usize::MAX; 2], 18), ["abcdefgh  klmnopqr", "ij        st"]);
    }

    #[test]
    fn a_wide_table_is_split_into_blocks_that_repeat_the_keys() {
        let rows = owned(&[
            &["cell", "of", "rate_gbps", "latency_mean_us", "finish_last_us"],
            &["law poseidon", "flows", "12", "", ""],
            &["law poseidon", "messages", "", "34", "not reached (3.5 % unfinished), at least 56"],
        ]);
        assert_eq!(blocks(&rows, 2, 200).len(), 1);
        let blocks = blocks(&rows, 2, 64);
        assert_eq!(blocks.len(), 2, "{blocks:#?}");
        let first = [
            "cell          of        rate_gbps  latency_mean_us",
            "law poseidon  flows     12",
            "law poseidon  messages             34",
        ];
        assert_eq!(blocks[0], first);
        // The row of the flows has no value in the second block.
        let second = [
            "cell          of        finish_last_us",
            "law poseidon  messages  not reached (3.5 %",
            "                        unfinished), at",
            "                        least 56",
        ];
        assert_eq!(blocks[1], second);
    }

    #[test]
    fn colours_do_not_change_the_alignment() {
        let rows = owned(&[&["holds *", "a"], &["fails", "b"]]);
        let layout = Layout::new(&rows, &[10, 10], &[1, 1], 80);
        let lines = layout.lines(&rows, &|row, column| (row == 1 && column == 0).then_some(Colour::Red));
        assert_eq!(lines, ["holds *  a", "\x1b[31mfails\x1b[0m    b"]);
    }
}
