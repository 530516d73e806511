//! Lays out text tables.

/// Prints a table whose columns are as wide as their widest cells.
pub(super) fn print_table(rows: &[Vec<String>]) {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    table_lines(rows, &vec![usize::MAX; columns]).iter().for_each(|line| outln!("{line}"));
}

/// Prints a table with columns of limited width. Longer cells wrap.
pub(super) fn print_wrapped_table<const N: usize>(rows: &[[String; N]], max_widths: &[usize; N]) {
    table_lines(rows, max_widths).iter().for_each(|line| outln!("{line}"));
}

/// Returns the lines of a table. Long cells are wrapped between words. A word is never broken, so a column is at
/// least as wide as its longest word.
fn table_lines<R: AsRef<[String]>>(rows: &[R], max_widths: &[usize]) -> Vec<String> {
    let cell = |row: &R, column: usize| row.as_ref().get(column).cloned().unwrap_or_default();
    let width = |(column, max_width): (usize, &usize)| {
        let cells = || rows.iter().map(|row| cell(row, column));
        let longest = cells().map(|cell| single_line(&cell).chars().count()).max().unwrap_or(0);
        let words = cells().flat_map(|cell| cell.split_whitespace().map(|word| word.chars().count()).max());
        longest.min(*max_width).max(words.max().unwrap_or(0))
    };
    let widths: Vec<usize> = max_widths.iter().enumerate().map(width).collect();
    let mut lines = Vec::new();
    for row in rows {
        let cells: Vec<Vec<String>> =
            widths.iter().enumerate().map(|(column, width)| wrap(&cell(row, column), *width)).collect();
        let height = cells.iter().map(Vec::len).max().unwrap_or(0);
        for line in 0..height {
            let parts: Vec<String> = cells
                .iter()
                .zip(&widths)
                .map(|(cell, width)| format!("{:<width$}", cell.get(line).map_or("", String::as_str)))
                .collect();
            lines.push(parts.join("  ").trim_end().to_owned());
        }
    }
    lines
}

/// Replaces line breaks and repeated spaces with single spaces, like [`wrap`].
fn single_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Wraps text into lines of at most `width` characters.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let last = lines.last_mut().expect("the list starts with one line");
        if last.is_empty() {
            last.push_str(word);
        } else if last.chars().count() + 1 + word.chars().count() <= width {
            last.push(' ');
            last.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the column of a letter in each line that contains it.
    fn positions(lines: &[String], letter: char) -> Vec<usize> {
        lines.iter().filter_map(|line| line.chars().position(|c| c == letter)).collect()
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
        for max_widths in [[12, 10, 5], [usize::MAX; 3], [1; 3]] {
            let lines = table_lines(&rows, &max_widths);
            for letter in ['A', 'B', 'C'] {
                let positions = positions(&lines, letter);
                assert_eq!(positions.len(), rows.len(), "{letter} {lines:#?}");
                assert!(positions.iter().all(|p| *p == positions[0]), "{letter} {positions:?} {lines:#?}");
            }
        }
    }

    #[test]
    fn a_long_cell_continues_on_the_next_line() {
        let rows = [["one two three".to_owned(), "x".to_owned()]];
        assert_eq!(table_lines(&rows, &[7, 7]), ["one two  x", "three"]);
    }
}
