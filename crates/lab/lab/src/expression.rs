//! Expressions of metrics, as claims and figures write them: `victim.rate_gbps / victim.fair_share_gbps`.

use crate::bound::Bounds;
use core::fmt;

/// An expression.
#[derive(Clone, Debug, PartialEq)]
pub enum Expression {
    /// A number.
    Number(f64),
    /// A metric by its name.
    Metric(String),
    /// Two joined by `+`, `-`, `*` or `/`.
    Join(Box<Self>, char, Box<Self>),
}

impl Expression {
    /// Reads an expression.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut reader = Reader { text, at: 0 };
        let expression = reader.sum()?;
        match reader.peek() {
            None => Ok(expression),
            Some(c) => Err(format!("{text:?}: {c:?} does not belong there")),
        }
    }

    /// Its value; `None` where a metric is missing.
    pub fn value(&self, of: &dyn Fn(&str) -> Option<f64>) -> Option<f64> {
        self.join_all(of, &|number| number, &|a, sign, b| match sign {
            '+' => a + b,
            '-' => a - b,
            '*' => a * b,
            _ => a / b,
        })
    }

    /// What is known of its value; `None` where a metric is missing.
    pub fn bounds(&self, of: &dyn Fn(&str) -> Option<Bounds>) -> Option<Bounds> {
        self.join_all(of, &Bounds::exact, &|a, sign, b| match sign {
            '+' => a + b,
            '-' => a - b,
            '*' => a * b,
            _ => a / b,
        })
    }

    fn join_all<T>(
        &self,
        of: &dyn Fn(&str) -> Option<T>,
        number: &dyn Fn(f64) -> T,
        join: &dyn Fn(T, char, T) -> T,
    ) -> Option<T> {
        Some(match self {
            Self::Number(value) => number(*value),
            Self::Metric(name) => of(name)?,
            Self::Join(a, sign, b) => {
                join(a.join_all(of, number, join)?, *sign, b.join_all(of, number, join)?)
            }
        })
    }

    /// The metrics in it.
    pub fn metrics(&self) -> Vec<&str> {
        match self {
            Self::Number(_) => Vec::new(),
            Self::Metric(name) => vec![name],
            Self::Join(a, _, b) => [a.metrics(), b.metrics()].concat(),
        }
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Metric(name) => f.write_str(name),
            Self::Join(a, sign, b) => write!(f, "({a} {sign} {b})"),
        }
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    fn peek(&mut self) -> Option<char> {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
        self.text[self.at..].chars().next()
    }

    fn take(&mut self, any_of: &[char]) -> Option<char> {
        let c = self.peek().filter(|c| any_of.contains(c))?;
        self.at += c.len_utf8();
        Some(c)
    }

    fn sum(&mut self) -> Result<Expression, String> {
        let mut left = self.product()?;
        while let Some(sign) = self.take(&['+', '-']) {
            left = Expression::Join(Box::new(left), sign, Box::new(self.product()?));
        }
        Ok(left)
    }

    fn product(&mut self) -> Result<Expression, String> {
        let mut left = self.atom()?;
        while let Some(sign) = self.take(&['*', '/']) {
            left = Expression::Join(Box::new(left), sign, Box::new(self.atom()?));
        }
        Ok(left)
    }

    fn atom(&mut self) -> Result<Expression, String> {
        if self.take(&['(']).is_some() {
            let inside = self.sum()?;
            return match self.take(&[')']) {
                Some(_) => Ok(inside),
                None => Err(format!("{:?}: a parenthesis is not closed", self.text)),
            };
        }
        self.peek();
        let rest = &self.text[self.at..];
        let belongs = |c: char| c.is_ascii_alphanumeric() || "._[]".contains(c);
        // A minus belongs to a name where no space stands around it: "poseidon-aimd.rate_gbps".
        let bytes = rest.as_bytes();
        let inside_name = |at: usize| {
            at > 0
                && bytes.get(at) == Some(&b'-')
                && bytes[at - 1].is_ascii_alphanumeric()
                && bytes.get(at + 1).is_some_and(u8::is_ascii_alphanumeric)
        };
        let end = rest
            .char_indices()
            .find(|(at, c)| !belongs(*c) && !inside_name(*at))
            .map_or(rest.len(), |(at, _)| at);
        let word = &rest[..end];
        if word.is_empty() {
            return Err(format!("{:?}: a number or a metric is missing", self.text));
        }
        self.at += end;
        if word.starts_with(|c: char| c.is_ascii_digit()) {
            return word
                .parse()
                .map(Expression::Number)
                .map_err(|_| format!("{:?}: {word:?} is no number", self.text));
        }
        Ok(Expression::Metric(word.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Option<f64> {
        let metrics = |name: &str| match name {
            "a.x" => Some(6.0),
            "b-c.y_us" => Some(2.0),
            _ => None,
        };
        Expression::parse(text).expect("an expression").value(&metrics)
    }

    #[test]
    fn expressions_have_values() {
        assert_eq!(value("a.x / b-c.y_us"), Some(3.0));
        assert_eq!(value("1 - a.x/ (b-c.y_us + 1)"), Some(-1.0));
        assert_eq!(value("2 * 3 + 4 * 5"), Some(26.0));
        assert_eq!(value("a.x - b-c.y_us - 1"), Some(3.0));
        assert_eq!(value("a.x / z.z"), None);
    }

    #[test]
    fn what_is_no_expression_is_refused() {
        for text in ["", "a +", "(a", "a b", "1.2.3", "a $ b"] {
            assert!(Expression::parse(text).is_err(), "{text}");
        }
    }
}
