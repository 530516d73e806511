//! Writes SVG elements, paths and labels. Coordinates are rounded to two decimals, so the output is deterministic.

use core::fmt::Write as _;

/// The figure width in hundredths of an inch. This is 88 mm, the width of a paper column.
pub(super) const WIDTH: f64 = 346.0;

/// The number of SVG units per millimetre.
pub(super) const UNITS_PER_MM: f64 = WIDTH / 88.0;

/// The font size, which is 8 pt at full column width. Only labels that would not fit use a smaller font.
pub(super) const FONT_SIZE: f64 = 11.2;

/// The distance between lines of text.
pub(super) const LINE_HEIGHT: f64 = 13.5;

/// The distance from the baseline to the middle of a digit.
pub(super) const HALF_DIGIT: f64 = 0.36 * FONT_SIZE;

/// The colour of axes and text.
pub(super) const TEXT_COLOUR: &str = "#222222";

/// An SVG document under construction.
#[derive(Debug, Default)]
pub(super) struct Canvas(String);

impl Canvas {
    /// Returns the SVG text.
    pub(super) fn finish(self) -> String {
        self.0
    }

    /// Appends the content of another canvas.
    pub(super) fn append(&mut self, other: Self) {
        self.0.push_str(&other.0);
    }

    /// Opens an element that contains other elements.
    pub(super) fn open(&mut self, name: &str, coordinates: &[(&str, f64)], attributes: &[(&str, &str)]) {
        self.begin(name, coordinates, attributes);
        self.0.push_str(">\n");
    }

    /// Closes the innermost open element.
    pub(super) fn close(&mut self, name: &str) {
        self.0.push_str("</");
        self.0.push_str(name);
        self.0.push_str(">\n");
    }

    /// Writes an element that has no content.
    pub(super) fn shape(&mut self, name: &str, coordinates: &[(&str, f64)], attributes: &[(&str, &str)]) {
        self.begin(name, coordinates, attributes);
        self.0.push_str("/>\n");
    }

    /// Draws a straight line.
    pub(super) fn line(&mut self, from: (f64, f64), to: (f64, f64), attributes: &[(&str, &str)]) {
        self.shape("line", &[("x1", from.0), ("y1", from.1), ("x2", to.0), ("y2", to.1)], attributes);
    }

    /// Draws a path, unless it is empty.
    pub(super) fn path(&mut self, path: &Path, attributes: &[(&str, &str)]) {
        if !path.0.is_empty() {
            self.begin("path", &[], &[("d", path.0.as_str())]);
            self.attributes(attributes);
            self.0.push_str("/>\n");
        }
    }

    /// Writes an element that contains only text.
    pub(super) fn text(&mut self, name: &str, text: &str) {
        self.begin(name, &[], &[]);
        self.0.push('>');
        self.0.push_str(&escape_xml(text));
        self.close(name);
    }

    /// Draws a label.
    pub(super) fn label(&mut self, label: &Label<'_>) {
        if label.text.is_empty() {
            return;
        }
        self.begin("text", &[("x", label.anchor.0), ("y", label.anchor.1)], label.attributes);
        if label.size < FONT_SIZE {
            self.coordinates(&[("font-size", label.size)]);
        }
        match label.alignment {
            Alignment::Start => {}
            Alignment::Middle => self.attributes(&[("text-anchor", "middle")]),
            Alignment::End => self.attributes(&[("text-anchor", "end")]),
        }
        if label.rotation != 0.0 {
            let (x, y) = (Coordinate(label.anchor.0), Coordinate(label.anchor.1));
            let rotation = format!("rotate({} {x} {y})", Coordinate(label.rotation));
            self.attributes(&[("transform", rotation.as_str())]);
        }
        self.0.push('>');
        self.0.push_str(&escape_xml(label.text));
        self.close("text");
    }

    fn begin(&mut self, name: &str, coordinates: &[(&str, f64)], attributes: &[(&str, &str)]) {
        self.0.push('<');
        self.0.push_str(name);
        self.coordinates(coordinates);
        self.attributes(attributes);
    }

    fn coordinates(&mut self, coordinates: &[(&str, f64)]) {
        for &(name, value) in coordinates {
            // Writing to a string cannot fail.
            let _ = write!(self.0, " {name}=\"{}\"", Coordinate(value));
        }
    }

    fn attributes(&mut self, attributes: &[(&str, &str)]) {
        for &(name, value) in attributes {
            let _ = write!(self.0, " {name}=\"{}\"", escape_xml(value));
        }
    }
}

/// A text label with its anchor point and alignment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Label<'a> {
    anchor: (f64, f64),
    text: &'a str,
    alignment: Alignment,
    size: f64,
    rotation: f64,
    attributes: &'a [(&'a str, &'a str)],
}

#[derive(Clone, Copy, Debug)]
enum Alignment {
    Start,
    Middle,
    End,
}

impl<'a> Label<'a> {
    /// Creates a label whose baseline starts at `anchor`.
    pub(super) const fn new(anchor: (f64, f64), text: &'a str) -> Self {
        Self { anchor, text, alignment: Alignment::Start, size: FONT_SIZE, rotation: 0.0, attributes: &[] }
    }

    /// Centres the label at its anchor.
    pub(super) const fn centred(self) -> Self {
        Self { alignment: Alignment::Middle, ..self }
    }

    /// Aligns the end of the label with its anchor.
    pub(super) const fn right_aligned(self) -> Self {
        Self { alignment: Alignment::End, ..self }
    }

    /// Rotates the label clockwise around its anchor.
    pub(super) const fn rotated(self, degrees: f64) -> Self {
        Self { rotation: degrees, ..self }
    }

    /// Adds SVG attributes.
    pub(super) const fn with_attributes(self, attributes: &'a [(&'a str, &'a str)]) -> Self {
        Self { attributes, ..self }
    }

    /// Shrinks the font so that the label fits into `length`. The `textLength` attribute is not used, because some
    /// renderers ignore it.
    pub(super) fn fit_to(self, length: f64) -> Self {
        let needed = text_width(self.text);
        if needed > length { Self { size: FONT_SIZE * (length / needed).max(0.05), ..self } } else { self }
    }
}

/// SVG path data.
#[derive(Debug, Default)]
pub(super) struct Path(String);

impl Path {
    /// Adds a line through `points`.
    pub(super) fn polyline(&mut self, points: &[(f64, f64)]) {
        for (i, &(x, y)) in points.iter().enumerate() {
            let _ = write!(self.0, "{}{} {}", if i == 0 { 'M' } else { 'L' }, Coordinate(x), Coordinate(y));
        }
    }

    /// Adds a closed polygon with these corners.
    pub(super) fn polygon(&mut self, points: &[(f64, f64)]) {
        if !points.is_empty() {
            self.polyline(points);
            self.0.push('Z');
        }
    }
}

/// Returns an upper bound on the width of `text` in common sans-serif fonts. The figure does not embed a font.
pub(super) fn text_width(text: &str) -> f64 {
    let ems: f64 = text
        .chars()
        .map(|character| match character {
            'i' | 'j' | 'l' | '.' | ',' | ':' | ';' | '\'' | '|' | '!' | ' ' => 0.34,
            'f' | 't' | 'r' | '(' | ')' | '[' | ']' | '/' | '-' | 'I' => 0.42,
            'm' | 'w' | 'M' | 'W' | '%' | '@' | '−' | '+' | '=' | '<' | '>' => 0.86,
            'A'..='Z' => 0.70,
            '0'..='9' | 'a'..='z' => 0.62,
            character if character.is_ascii() => 0.62,
            'À'..='ԯ' => 0.70,
            _ => 1.0,
        })
        .sum();
    ems * FONT_SIZE
}

/// Wraps `text` at word boundaries into lines of at most `length`. A longer word gets a separate line.
pub(super) fn wrap(text: &str, length: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if text_width(line) + text_width(" ") + text_width(word) <= length => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Escapes `text` for an XML element or a quoted attribute.
fn escape_xml(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            // XML does not allow these characters, even when escaped.
            '\u{0}'..='\u{8}' | '\u{b}' | '\u{c}' | '\u{e}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => {
                out.push('\u{fffd}');
            }
            character => out.push(character),
        }
    }
    out
}

/// A coordinate, printed with two decimals (about 1/400 mm).
struct Coordinate(f64);

impl core::fmt::Display for Coordinate {
    fn fmt(&self, out: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        debug_assert!(self.0.is_finite(), "coordinates are finite");
        // Round first and add zero to avoid "-0.00".
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
        canvas.label(&Label::new((1.0, 2.0), "a<b & \"c\" > d\u{1}").with_attributes(&[("class", "<\">")]));
        assert_eq!(
            canvas.finish(),
            "<text x=\"1.00\" y=\"2.00\" class=\"&lt;&quot;&gt;\">a&lt;b &amp; &quot;c&quot; &gt; d\u{fffd}</text>\n"
        );
    }

    #[test]
    fn coordinates_have_two_decimals_and_no_negative_zero() {
        let text = |value| Coordinate(value).to_string();
        assert_eq!([text(1.0), text(0.126), text(-2.5), text(-0.001)], ["1.00", "0.13", "-2.50", "0.00"]);
    }

    #[test]
    fn labels_shrink_to_fit() {
        let label = Label::new((0.0, 0.0), "slowdown");
        assert_eq!(label.fit_to(1e3).size, FONT_SIZE);
        let half = text_width("slowdown") / 2.0;
        assert!((label.fit_to(half).size - FONT_SIZE / 2.0).abs() < 1e-9);
    }

    #[test]
    fn text_wraps_at_word_boundaries() {
        let length = text_width("one two");
        assert_eq!(wrap("one two three  four", length), ["one two", "three", "four"]);
        assert_eq!(wrap("unbreakable", 1.0), ["unbreakable"]);
        assert!(wrap(" ", 10.0).is_empty());
    }
}
