//! Escapes text for HTML pages and builds links.

use core::fmt::{self, Write as _};

/// Text that is escaped for an element or a quoted attribute when it is printed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Escaped<'a>(pub(super) &'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.0.chars() {
            match character {
                '&' => out.write_str("&amp;")?,
                '<' => out.write_str("&lt;")?,
                '>' => out.write_str("&gt;")?,
                '"' => out.write_str("&quot;")?,
                '\'' => out.write_str("&#39;")?,
                character => out.write_char(character)?,
            }
        }
        Ok(())
    }
}

/// Appends formatted text.
pub(super) fn push(html: &mut String, text: fmt::Arguments<'_>) {
    html.write_fmt(text).expect("writing to a string cannot fail");
}

/// Returns a name that is safe in ids, file names and URL fragments. Slashes remain.
pub(super) fn slug(name: &str) -> String {
    let is_safe = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
    let slug: String = name.chars().map(|c| if is_safe(c) { c } else { '-' }).collect();
    if slug.is_empty() { "study".to_owned() } else { slug }
}

/// Percent-encodes a relative path for a link. A colon is encoded, so that no path has a scheme.
pub(super) fn encode_path(path: &str) -> String {
    let mut encoded = String::new();
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"._-/".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            push(&mut encoded, format_args!("%{byte:02X}"));
        }
    }
    encoded
}

/// Formats a count with its noun: `1 claim`, `2 claims`.
pub(super) fn plural(count: usize, noun: &str) -> String {
    match (count, noun.strip_suffix('y')) {
        (1, _) => format!("1 {noun}"),
        (_, Some(stem)) => format!("{count} {stem}ies"),
        (_, None) => format!("{count} {noun}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_text_becomes_harmless() {
        let text = "<script>alert('x')</script>&\"";
        assert_eq!(Escaped(text).to_string(), "&lt;script&gt;alert(&#39;x&#39;)&lt;/script&gt;&amp;&quot;");
        assert_eq!(slug("a b/\"><c>\u{e9}"), "a-b/---c--");
        assert_eq!(slug(""), "study");
        assert_eq!(encode_path("a b/x:\u{e9}\".svg"), "a%20b/x%3A%C3%A9%22.svg");
    }

    #[test]
    fn nouns_have_their_plural() {
        assert_eq!(
            [plural(1, "study"), plural(2, "study"), plural(0, "claim")],
            ["1 study", "2 studies", "0 claims"]
        );
    }
}
