//! Suggestions for names that do not exist.

use core::fmt;

/// The known names, and the name that the user probably meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suggestion {
    nearest: Option<String>,
    known: Vec<String>,
}

impl Suggestion {
    /// Creates a suggestion for a name that is not in `known`.
    pub fn new<S: AsRef<str>>(name: &str, known: impl IntoIterator<Item = S>) -> Self {
        let known: Vec<String> = known.into_iter().map(|candidate| candidate.as_ref().to_owned()).collect();
        let nearest = known.iter().map(|candidate| (strsim::levenshtein(name, candidate), candidate)).min();
        let nearest = nearest.filter(|(distance, nearest)| *distance <= 1 + nearest.len() / 3);
        let nearest = nearest.map(|(_, nearest)| nearest);
        // Users leave out units and other endings: `rate` for `rate_gbps`.
        let longer =
            || known.iter().filter(|candidate| is_beginning(name, candidate)).min_by_key(|c| c.len());
        Self { nearest: nearest.or_else(longer).cloned(), known }
    }
}

/// Returns whether a name consists of the first words of another name.
fn is_beginning(name: &str, longer: &str) -> bool {
    !name.is_empty() && longer.strip_prefix(name).is_some_and(|rest| rest.starts_with(['_', '-', '.']))
}

impl fmt::Display for Suggestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.nearest, self.known.as_slice()) {
            (Some(nearest), _) => write!(f, "did you mean {nearest:?}?"),
            (None, []) => f.write_str("there are none"),
            (None, known) => write!(f, "choose from {}", known.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_suggested_or_all_names_are_listed() {
        let known = ["topology", "traffic"];
        assert_eq!(Suggestion::new("tpology", known).to_string(), "did you mean \"topology\"?");
        assert_eq!(Suggestion::new("zzz", known).to_string(), "choose from topology, traffic");
        assert_eq!(Suggestion::new("zzz", [""; 0]).to_string(), "there are none");
    }

    #[test]
    fn a_missing_ending_is_suggested() {
        let known = ["rate_sd_gbps", "rate_gbps", "rated_speed", "latency_mean_us"];
        assert_eq!(Suggestion::new("rate", known).to_string(), "did you mean \"rate_gbps\"?");
        assert!(Suggestion::new("", known).to_string().starts_with("choose from"));
    }
}
