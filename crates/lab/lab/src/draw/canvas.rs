//! The text of an SVG: elements, paths and words, with numbers of two decimals so that the same chart gives the same bytes.

use core::fmt::Write as _;

/// How wide a figure is: 88 mm, the column of a paper, in hundredths of an inch.
pub(super) const WIDTH: f64 = 346.0;

/// How many units a millimetre has.
pub(super) const UNITS_PER_MM: f64 = WIDTH / 88.0;

/// The height of letters: 8 pt where the figure is as wide as a column. Nothing is smaller unless it would not fit.
pub(super) const LETTERS: f64 = 11.2;

/// From one line of text to the next.
pub(super) const LEADING: f64 = 13.5;

/// From the baseline up to the middle of a digit.
pub(super) const HALF_DIGIT: f64 = 0.36 * LETTERS;

/// Axes and words.
pub(super) const INK: &str = "#222222";

/// An SVG in the making.
#[derive(Debug, Default)]
pub(super) struct Canvas(String);

impl Canvas {
    /// What was drawn.
    pub(super) fn finish(self) -> String {
        self.0
    }

    /// Adds what was drawn elsewhere.
    pub(super) fn append(&mut self, other: Self) {
        self.0.push_str(&other.0);
    }

    /// Opens an element that holds others.
    pub(super) fn open(&mut self, name: &str, places: &[(&str, f64)], looks: &[(&str, &str)]) {
        self.begin(name, places, looks);
        self.0.push_str(">\n");
    }

    /// Closes what was opened last.
    pub(super) fn close(&mut self, name: &str) {
        self.0.push_str("</");
        self.0.push_str(name);
        self.0.push_str(">\n");
    }

    /// An element with neither text nor others in it.
    pub(super) fn shape(&mut self, name: &str, places: &[(&str, f64)], looks: &[(&str, &str)]) {
        self.begin(name, places, looks);
        self.0.push_str("/>\n");
    }

    /// A straight line.
    pub(super) fn line(&mut self, from: (f64, f64), to: (f64, f64), looks: &[(&str, &str)]) {
        self.shape("line", &[("x1", from.0), ("y1", from.1), ("x2", to.0), ("y2", to.1)], looks);
    }

    /// A path; nothing if it is empty.
    pub(super) fn path(&mut self, path: &Path, looks: &[(&str, &str)]) {
        if !path.0.is_empty() {
            self.begin("path", &[], &[("d", path.0.as_str())]);
            self.looks(looks);
            self.0.push_str("/>\n");
        }
    }

    /// An element that holds text alone.
    pub(super) fn text(&mut self, name: &str, text: &str) {
        self.begin(name, &[], &[]);
        self.0.push('>');
        self.0.push_str(&escaped(text));
        self.close(name);
    }

    /// Words.
    pub(super) fn words(&mut self, words: &Words<'_>) {
        if words.text.is_empty() {
            return;
        }
        self.begin("text", &[("x", words.at.0), ("y", words.at.1)], words.looks);
        if words.size < LETTERS {
            self.places(&[("font-size", words.size)]);
        }
        match words.anchor {
            Anchor::Start => {}
            Anchor::Middle => self.looks(&[("text-anchor", "middle")]),
            Anchor::End => self.looks(&[("text-anchor", "end")]),
        }
        if words.turned_by != 0.0 {
            let (x, y) = (Coordinate(words.at.0), Coordinate(words.at.1));
            let turn = format!("rotate({} {x} {y})", Coordinate(words.turned_by));
            self.looks(&[("transform", turn.as_str())]);
        }
        self.0.push('>');
        self.0.push_str(&escaped(words.text));
        self.close("text");
    }

    fn begin(&mut self, name: &str, places: &[(&str, f64)], looks: &[(&str, &str)]) {
        self.0.push('<');
        self.0.push_str(name);
        self.places(places);
        self.looks(looks);
    }

    fn places(&mut self, places: &[(&str, f64)]) {
        for &(name, value) in places {
            // Writing to a string cannot fail.
            let _ = write!(self.0, " {name}=\"{}\"", Coordinate(value));
        }
    }

    fn looks(&mut self, looks: &[(&str, &str)]) {
        for &(name, value) in looks {
            let _ = write!(self.0, " {name}=\"{}\"", escaped(value));
        }
    }
}

/// Words and where they stand.
#[derive(Clone, Copy, Debug)]
pub(super) struct Words<'a> {
    at: (f64, f64),
    text: &'a str,
    anchor: Anchor,
    size: f64,
    turned_by: f64,
    looks: &'a [(&'a str, &'a str)],
}

#[derive(Clone, Copy, Debug)]
enum Anchor {
    Start,
    Middle,
    End,
}

impl<'a> Words<'a> {
    /// Words that begin at this place, on their baseline.
    pub(super) const fn new(at: (f64, f64), text: &'a str) -> Self {
        Self { at, text, anchor: Anchor::Start, size: LETTERS, turned_by: 0.0, looks: &[] }
    }

    /// They have their middle there.
    pub(super) const fn centred(self) -> Self {
        Self { anchor: Anchor::Middle, ..self }
    }

    /// They end there.
    pub(super) const fn ending(self) -> Self {
        Self { anchor: Anchor::End, ..self }
    }

    /// They are turned around that place, clockwise.
    pub(super) const fn turned(self, degrees: f64) -> Self {
        Self { turned_by: degrees, ..self }
    }

    /// They have these attributes too.
    pub(super) const fn looking(self, looks: &'a [(&'a str, &'a str)]) -> Self {
        Self { looks, ..self }
    }

    /// They are made small enough for this length. Not by `textLength`, which some renderers ignore.
    pub(super) fn within(self, length: f64) -> Self {
        let needed = width(self.text);
        if needed > length { Self { size: LETTERS * (length / needed).max(0.05), ..self } } else { self }
    }
}

/// Lines from place to place.
#[derive(Debug, Default)]
pub(super) struct Path(String);

impl Path {
    /// Through all of these.
    pub(super) fn through(&mut self, places: &[(f64, f64)]) {
        for (i, &(x, y)) in places.iter().enumerate() {
            let _ = write!(self.0, "{}{} {}", if i == 0 { 'M' } else { 'L' }, Coordinate(x), Coordinate(y));
        }
    }

    /// Around the area between all of these.
    pub(super) fn around(&mut self, places: &[(f64, f64)]) {
        if !places.is_empty() {
            self.through(places);
            self.0.push('Z');
        }
    }
}

/// How wide `text` is at most, in the wider of the usual fonts (the figure does not bring its own).
pub(super) fn width(text: &str) -> f64 {
    let ems: f64 = text
        .chars()
        .map(|letter| match letter {
            'i' | 'j' | 'l' | '.' | ',' | ':' | ';' | '\'' | '|' | '!' | ' ' => 0.34,
            'f' | 't' | 'r' | '(' | ')' | '[' | ']' | '/' | '-' | 'I' => 0.42,
            'm' | 'w' | 'M' | 'W' | '%' | '@' | '−' | '+' | '=' | '<' | '>' => 0.86,
            'A'..='Z' => 0.70,
            '0'..='9' | 'a'..='z' => 0.62,
            letter if letter.is_ascii() => 0.62,
            'À'..='ԯ' => 0.70,
            _ => 1.0,
        })
        .sum();
    ems * LETTERS
}

/// `text` in lines of at most this length, broken between words. A word that is longer has a line of its own.
pub(super) fn wrapped(text: &str, length: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if width(line) + width(" ") + width(word) <= length => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// `text` as XML holds it, in an element or in double quotes.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            // XML has no way to write these, not even escaped.
            '\u{0}'..='\u{8}' | '\u{b}' | '\u{c}' | '\u{e}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => {
                out.push('\u{fffd}');
            }
            letter => out.push(letter),
        }
    }
    out
}

/// A number of a drawing: two decimals are a four-hundredth of a millimetre.
struct Coordinate(f64);

impl core::fmt::Display for Coordinate {
    fn fmt(&self, out: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        debug_assert!(self.0.is_finite(), "a place is a number");
        // Adding zero turns minus zero into zero; so does rounding first what would round to it.
        let hundredths = libm::round(self.0 * 100.0) + 0.0;
        write!(out, "{:.2}", hundredths / 100.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped() {
        let mut canvas = Canvas::default();
        canvas.words(&Words::new((1.0, 2.0), "a<b & \"c\" > d\u{1}").looking(&[("class", "<\">")]));
        assert_eq!(
            canvas.finish(),
            "<text x=\"1.00\" y=\"2.00\" class=\"&lt;&quot;&gt;\">a&lt;b &amp; &quot;c&quot; &gt; d\u{fffd}</text>\n"
        );
    }

    #[test]
    fn numbers_have_two_decimals_and_no_minus_zero() {
        let text = |value| Coordinate(value).to_string();
        assert_eq!([text(1.0), text(0.126), text(-2.5), text(-0.001)], ["1.00", "0.13", "-2.50", "0.00"]);
    }

    #[test]
    fn words_shrink_to_what_they_are_given() {
        let words = Words::new((0.0, 0.0), "slowdown");
        assert_eq!(words.within(1e3).size, LETTERS);
        let half = width("slowdown") / 2.0;
        assert!((words.within(half).size - LETTERS / 2.0).abs() < 1e-9);
    }

    #[test]
    fn lines_break_between_words() {
        let length = width("one two");
        assert_eq!(wrapped("one two three  four", length), ["one two", "three", "four"]);
        assert_eq!(wrapped("unbreakable", 1.0), ["unbreakable"]);
        assert!(wrapped(" ", 10.0).is_empty());
    }
}
