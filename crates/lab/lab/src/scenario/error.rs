//! Why a scenario is refused: in one line, with the place and the fix.

use core::fmt;

/// Why a scenario is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioError {
    /// The file, as it was named.
    pub file: String,
    /// The line, from one on, where there is one.
    pub line: Option<usize>,
    /// What is wrong, and what to write instead.
    pub what: String,
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.file, self.what),
            None => write!(f, "{}: {}", self.file, self.what),
        }
    }
}

impl core::error::Error for ScenarioError {}

impl ScenarioError {
    /// A file that is not text, with the line of the first byte that is not.
    pub(crate) fn not_text(file: &str, bytes: &[u8], error: &core::str::Utf8Error) -> Self {
        let at = error.valid_up_to();
        let line = 1 + bytes[..at].iter().filter(|byte| **byte == b'\n').count();
        let what = format!("byte {at} is not UTF-8; a scenario is a text file in TOML");
        Self { file: file.to_owned(), line: Some(line), what }
    }

    /// What the reader of TOML says, with the line in `text`.
    pub(super) fn from_toml(file: &str, text: &str, error: &toml::de::Error) -> Self {
        let message = error.message().lines().next().unwrap_or_default().to_owned();
        let start = error.span().map(|span| span.start.min(text.len()));
        let mut line = start.map(|start| 1 + text[..start].matches('\n').count());
        let what = match unknown_field(&message) {
            Some((field, known)) => {
                // A table with a kind is read as a whole before its keys are, so the place of the error may be its head.
                line = key_line(text, field, line.unwrap_or(1)).or(line);
                format!("there is no key {field:?} here; {}", advice(field, &known))
            }
            None => {
                line = line.map(|line| inside(text, line, &message).unwrap_or(line));
                message
            }
        };
        Self { file: file.to_owned(), line, what }
    }
}

/// The line in the table headed on `head` where the word stands that a message quotes: tables with a kind, and those that take any
/// parameter, are read as a whole first.
fn inside(text: &str, head: usize, message: &str) -> Option<usize> {
    let mut lines = (1..).zip(text.lines()).skip(head - 1);
    lines.next().filter(|(_, line)| line.trim_start().starts_with('['))?;
    let word = format!("\"{}\"", message.split('"').nth(1)?);
    let mut own = lines.take_while(|(_, line)| !line.trim_start().starts_with('['));
    own.find(|(_, line)| line.contains(&word)).map(|(number, _)| number)
}

/// The field and the known ones of serde's message about an unknown field or variant.
fn unknown_field(message: &str) -> Option<(&str, Vec<&str>)> {
    let rest = message.strip_prefix("unknown field ")?;
    let mut quoted = rest.split('`').skip(1).step_by(2);
    let field = quoted.next()?;
    Some((field, quoted.collect()))
}

/// The line on which a key stands, at or after `from`; or anywhere.
pub(crate) fn key_line(text: &str, key: &str, from: usize) -> Option<usize> {
    let lines =
        || text.lines().enumerate().filter(|(_, line)| has_key(line, key)).map(|(index, _)| index + 1);
    lines().find(|line| *line >= from).or_else(|| lines().next())
}

/// Whether a key stands on a line, or heads a table there.
fn has_key(line: &str, key: &str) -> bool {
    line.match_indices(key).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + key.len()..].trim_start();
        before.is_none_or(|c| !c.is_alphanumeric() && c != '-' && c != '_') && after.starts_with(['=', ']'])
    })
}

/// The line that a sentence about a scenario is about: where a word stands that it quotes, in the part that it begins with, such as
/// `traffic "victim"`; or the key that it names.
pub(crate) fn place(text: &str, what: &str) -> Option<usize> {
    let path = what.split([' ', ':', ';', ',']).find_map(|word| {
        let (first, rest) = word.split_once('.')?;
        let is_part = matches!(first, "topology" | "switch" | "observe" | "transport" | "quick");
        rest.rsplit('.').next().filter(|_| is_part)
    });
    if let Some(line) = path.and_then(|key| key_line(text, key, 1)) {
        return Some(line);
    }
    // What is advised instead does not stand there.
    let ends = ["; did you mean", "; there are"].iter().filter_map(|advice| what.find(advice)).min();
    let what = &what[..ends.unwrap_or(what.len())];
    let quoted: Vec<&str> = what.split('"').skip(1).step_by(2).filter(|word| !word.is_empty()).collect();
    let part = part(text, what);
    let inside = part.clone().unwrap_or_else(|| 1..text.lines().count() + 1);
    let find = |stands: &dyn Fn(&str) -> bool| {
        let mut lines = (1..).zip(text.lines()).filter(|(number, _)| inside.contains(number));
        lines.find(|(_, line)| stands(line)).map(|(number, _)| number)
    };
    let word = |word: &&str| find(&|line| line.contains(&format!("\"{word}\"")) || has_key(line, word));
    let key = |key: &str| find(&|line| has_key(line, key));
    let rest = if part.is_some() { what.split_once("\": ").map_or("", |(_, rest)| rest) } else { what };
    let own = usize::from(part.is_some());
    let by_word = quoted.iter().skip(own).rev().find_map(word);
    let by_key = || rest.split([' ', ':', '.']).next().filter(|word| !word.is_empty()).and_then(key);
    let by_part = || quoted.first().filter(|_| part.is_some()).and_then(word);
    let by_owner =
        || what.split('"').next().and_then(|before| before.split_whitespace().last()).and_then(key);
    by_word.or_else(by_key).or_else(by_part).or_else(by_owner)
}

/// The lines of the traffic, phase, law, claim or figure that a sentence begins with.
fn part(text: &str, what: &str) -> Option<core::ops::Range<usize>> {
    let (kind, rest) = what.split_once(" \"")?;
    let (name, _) = rest.split_once('"')?;
    let is_own = |line: &str| match kind {
        "law" => line.trim() == format!("[laws.{name}]"),
        "traffic" | "phase" => has_key(line, "name") && line.contains(&format!("\"{name}\"")),
        "claim" | "figure" => {
            (has_key(line, "says") || has_key(line, "title")) && line.contains(&format!("\"{name}\""))
        }
        _ => false,
    };
    let lines: Vec<&str> = text.lines().collect();
    let is_head = |line: &&str| line.trim_start().starts_with('[');
    let belongs = |at: &usize| {
        let head = lines[..=*at].iter().rev().find(|line| is_head(line));
        kind == "law" || head.is_some_and(|head| head.contains(&format!("[[{kind}]]")))
    };
    let at = (0..lines.len()).find(|at| is_own(lines[*at]) && belongs(at))?;
    let begins = lines[..=at].iter().rposition(is_head).unwrap_or(0);
    let ends = lines[begins + 1..].iter().position(is_head).map_or(lines.len(), |n| begins + 1 + n);
    Some(begins + 1..ends + 1)
}

/// The known word that was meant, or all of them.
pub(crate) fn advice<S: AsRef<str>>(word: &str, known: &[S]) -> String {
    let nearest = known.iter().map(|known| (distance(word, known.as_ref()), known.as_ref())).min();
    match nearest {
        Some((distance, nearest)) if distance <= 1 + nearest.len() / 3 => {
            format!("did you mean {nearest:?}?")
        }
        Some(_) => {
            let all: Vec<&str> = known.iter().map(AsRef::as_ref).collect();
            format!("there are {}", all.join(", "))
        }
        None => "there are none".to_owned(),
    }
}

/// A number with commas between groups of three digits.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// How many letters must be changed, added or removed to make one word of the other (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let changed = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_numbers_have_commas() {
        let texts = [0, 999, 1_000, 12_345, 1_000_000].map(grouped);
        assert_eq!(texts, ["0", "999", "1,000", "12,345", "1,000,000"]);
    }

    #[test]
    fn words_have_a_distance() {
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!((distance("", "abc"), distance("abc", ""), distance("seeds", "seeds")), (3, 3, 0));
    }

    #[test]
    fn advice_names_the_word_that_was_meant_or_all() {
        assert_eq!(advice("tpology", &["topology", "traffic"]), "did you mean \"topology\"?");
        assert_eq!(advice("zzz", &["topology", "traffic"]), "there are topology, traffic");
    }

    #[test]
    fn a_key_has_its_line() {
        let text = "a = 1\n[b]\nlink = { rate = 1, dely = 2 }\n";
        assert_eq!(key_line(text, "dely", 1), Some(3));
        assert_eq!(key_line(text, "ink", 1), None);
    }

    #[test]
    fn a_sentence_has_the_line_that_it_is_about() {
        let text = "title = \"red and more\"\nlaw = \"swfit\"\n[laws.mine]\nbase = \"swift\"\nbeta = 1\n[switch]\nstamp = \"off\"\n\
                    [[traffic]]\nname = \"red\"\nfrom = \"host$n\"\ncount = 9\n[[traffic]]\nname = \"blue\"\ncount = 3\n[[claim]]\n\
                    says = \"red\"\nmetric = \"rde.x\"\n";
        for (what, line) in [
            ("there is no law \"swfit\"; did you mean \"swift\"?", Some(2)),
            ("there is no law \"other\"; there are none", Some(2)),
            ("law \"mine\" has no parameter \"beta\"; did you mean \"base\"?", Some(5)),
            ("law \"mine\": gain is wrong", Some(3)),
            ("traffic \"red\": count is 9, but from names 3 hosts", Some(11)),
            ("traffic \"blue\": count is 9, but from names 3 hosts", Some(14)),
            ("traffic \"red\": from: \"host99\": there are only 3 hosts", Some(10)),
            ("traffic \"red\": to is missing", Some(9)),
            ("traffic \"red\": law \"poseidon\" needs that; set switch.stamp to \"auto\"", Some(7)),
            ("claim \"red\": there is no metric \"rde.x\"; there are none", Some(17)),
            ("claim \"red\" has two conditions; make it two claims", Some(16)),
            ("two traffics are called \"blue\"", Some(13)),
            ("nothing of that", None),
        ] {
            assert_eq!(place(text, what), line, "{what}");
        }
    }
}
