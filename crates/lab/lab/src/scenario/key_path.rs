//! The position of a key in a scenario file.

use core::fmt;
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

/// One segment of a key path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Segment {
    /// A key of a table.
    Key(String),
    /// A zero-based list index.
    Index(usize),
}

impl From<&str> for Segment {
    fn from(key: &str) -> Self {
        Self::Key(key.to_owned())
    }
}

impl From<usize> for Segment {
    fn from(index: usize) -> Self {
        Self::Index(index)
    }
}

/// The path from the root of a scenario to a key, such as `traffic[1].from`. The empty path means the whole file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeyPath(Vec<Segment>);

impl KeyPath {
    /// The whole file.
    pub const ROOT: Self = Self(Vec::new());

    /// Creates a path from nested keys.
    pub fn new<'a>(keys: impl IntoIterator<Item = &'a str>) -> Self {
        Self(keys.into_iter().map(Segment::from).collect())
    }

    /// Appends a segment to the path.
    #[must_use]
    pub fn join(mut self, segment: impl Into<Segment>) -> Self {
        self.0.push(segment.into());
        self
    }

    /// Prepends the path of an enclosing table.
    #[must_use]
    pub fn prepend(self, mut outer: Self) -> Self {
        outer.0.extend(self.0);
        outer
    }

    /// Returns whether `other` is this key or a key inside it.
    pub fn contains(&self, other: &Self) -> bool {
        other.0.starts_with(&self.0)
    }

    /// Returns this key's one-based line number in the scenario text.
    ///
    /// If the key is not in the text, returns the line of the innermost enclosing table. For a table in a list, returns
    /// the line of the key that names the table.
    pub fn line(&self, text: &str) -> Option<usize> {
        let root = DeTable::parse(text).ok()?;
        let offset = self.offset(root.get_ref())?;
        Some(line_of_offset(text, offset))
    }

    fn offset(&self, root: &DeTable<'_>) -> Option<usize> {
        let mut offset = None;
        let mut node = Node::Table(root);
        for segment in &self.0 {
            let Some((start, value)) = node.get(segment) else { break };
            offset = Some(start);
            node = Node::new(value);
        }
        // The root path has no line, although the file has a title.
        offset.map(|offset| node.naming_key().unwrap_or(offset))
    }
}

impl fmt::Display for KeyPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, segment) in self.0.iter().enumerate() {
            match segment {
                Segment::Key(key) if position == 0 => f.write_str(key)?,
                Segment::Key(key) => write!(f, ".{key}")?,
                Segment::Index(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}

/// Returns the one-based line number of a byte offset.
pub(super) fn line_of_offset(text: &str, offset: usize) -> usize {
    1 + text.as_bytes()[..offset.min(text.len())].iter().filter(|byte| **byte == b'\n').count()
}

/// A node of a parsed document.
enum Node<'d, 'text> {
    Table(&'d DeTable<'text>),
    List(&'d DeArray<'text>),
    Leaf,
}

impl<'d, 'text> Node<'d, 'text> {
    fn new(value: &'d Spanned<DeValue<'text>>) -> Self {
        match value.get_ref() {
            DeValue::Table(table) => Self::Table(table),
            DeValue::Array(list) => Self::List(list),
            _ => Self::Leaf,
        }
    }

    /// Returns a child value and the offset of its key.
    fn get(&self, segment: &Segment) -> Option<(usize, &'d Spanned<DeValue<'text>>)> {
        match (self, segment) {
            (Self::Table(table), Segment::Key(name)) => {
                let (key, value) = table.iter().find(|(key, _)| key.get_ref() == name)?;
                Some((key.span().start, value))
            }
            (Self::List(list), Segment::Index(index)) => {
                let value = list.get(*index)?;
                Some((value.span().start, value))
            }
            _ => None,
        }
    }

    /// Returns the offset of the key that names this table, such as the `title` of a figure.
    fn naming_key(&self) -> Option<usize> {
        let Self::Table(table) = self else { return None };
        let is_name = |key: &str| matches!(key, "name" | "says" | "title");
        table.keys().find(|key| is_name(key.get_ref())).map(|key| key.span().start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "title = \"t\"\nlaw = \"swift\"\n[laws.mine]\nbase = \"swift\"\n[switch]\nstamp = \"off\"\n\
                        [[traffic]]\nname = \"red\"\nfrom = [\n\"host0\",\n\"host1\" ]\n[[traffic]]\nkind = \"incast\"\n\
                        name = \"blue\"\nlink = { rate = 1, delay = 2 }\n[sweep]\nn = [1,\n 2]\n";

    #[test]
    fn the_line_of_a_key_is_found() {
        for (path, line) in [
            (KeyPath::new(["law"]), Some(2)),
            (KeyPath::new(["laws", "mine", "base"]), Some(4)),
            (KeyPath::new(["switch", "stamp"]), Some(6)),
            (KeyPath::new(["traffic"]).join(0).join("from").join(1), Some(11)),
            (KeyPath::new(["traffic"]).join(1).join("link").join("delay"), Some(15)),
            (KeyPath::new(["sweep", "n"]).join(1), Some(18)),
        ] {
            assert_eq!(path.line(TEXT), line, "{path}");
        }
    }

    #[test]
    fn a_missing_key_has_the_line_of_its_table() {
        for (path, line) in [
            (KeyPath::new(["laws", "mine", "beta"]), Some(3)),
            (KeyPath::new(["traffic"]).join(0).join("to"), Some(8)),
            (KeyPath::new(["traffic"]).join(1), Some(14)),
            (KeyPath::new(["observe", "bin"]), None),
            (KeyPath::ROOT, None),
        ] {
            assert_eq!(path.line(TEXT), line, "{path}");
        }
    }

    #[test]
    fn a_path_is_displayed_with_dots_and_indices() {
        assert_eq!(KeyPath::new(["traffic"]).join(1).join("from").to_string(), "traffic[1].from");
    }
}
