//! Arithmetic expressions over metrics in claims and figures: `victim.rate_gbps / victim.fair_share_gbps`.

use crate::bound::Bounds;
use core::fmt;

/// A syntax error in an expression.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExpressionError {
    /// The expression contains an unexpected character.
    #[error("{text:?}: unexpected character {character:?}")]
    UnexpectedCharacter {
        /// The expression text.
        text: String,
        /// The unexpected character.
        character: char,
    },
    /// A parenthesis is not closed.
    #[error("{text:?}: a parenthesis is not closed")]
    OpenParenthesis {
        /// The expression text.
        text: String,
    },
    /// An operator has no operand.
    #[error("{text:?}: a number or a metric is missing")]
    MissingOperand {
        /// The expression text.
        text: String,
    },
    /// A word begins with a digit but is not a number.
    #[error("{text:?}: {word:?} is not a number")]
    NotANumber {
        /// The expression text.
        text: String,
        /// The invalid word.
        word: String,
    },
}

/// An arithmetic expression over metrics.
#[derive(Clone, Debug, PartialEq)]
pub enum Expression {
    /// A number.
    Number(f64),
    /// A metric, identified by name.
    Metric(String),
    /// Two operands and one of `+`, `-`, `*`, `/`.
    Binary(Box<Self>, char, Box<Self>),
}

impl Expression {
    /// Parses an expression.
    pub fn parse(text: &str) -> Result<Self, ExpressionError> {
        let mut parser = Parser { text, position: 0 };
        let expression = parser.sum()?;
        match parser.peek() {
            None => Ok(expression),
            Some(character) => Err(ExpressionError::UnexpectedCharacter { text: text.to_owned(), character }),
        }
    }

    /// Returns the value, or `None` if a metric is missing.
    pub fn value(&self, metric: &dyn Fn(&str) -> Option<f64>) -> Option<f64> {
        self.evaluate(metric, &|number| number, &|a, operator, b| match operator {
            '+' => a + b,
            '-' => a - b,
            '*' => a * b,
            _ => a / b,
        })
    }

    /// Returns bounds on the value, or `None` if a metric is missing.
    pub fn bounds(&self, metric: &dyn Fn(&str) -> Option<Bounds>) -> Option<Bounds> {
        self.evaluate(metric, &Bounds::exact, &|a, operator, b| match operator {
            '+' => a + b,
            '-' => a - b,
            '*' => a * b,
            _ => a / b,
        })
    }

    fn evaluate<T>(
        &self,
        metric: &dyn Fn(&str) -> Option<T>,
        number: &dyn Fn(f64) -> T,
        apply: &dyn Fn(T, char, T) -> T,
    ) -> Option<T> {
        Some(match self {
            Self::Number(value) => number(*value),
            Self::Metric(name) => metric(name)?,
            Self::Binary(a, operator, b) => {
                apply(a.evaluate(metric, number, apply)?, *operator, b.evaluate(metric, number, apply)?)
            }
        })
    }

    /// Returns the metric names in the expression.
    pub fn metrics(&self) -> Vec<&str> {
        match self {
            Self::Number(_) => Vec::new(),
            Self::Metric(name) => vec![name],
            Self::Binary(a, _, b) => [a.metrics(), b.metrics()].concat(),
        }
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Metric(name) => f.write_str(name),
            Self::Binary(a, operator, b) => write!(f, "({a} {operator} {b})"),
        }
    }
}

/// A recursive-descent parser.
struct Parser<'a> {
    text: &'a str,
    position: usize,
}

impl Parser<'_> {
    /// Returns the next character that is not a space.
    fn peek(&mut self) -> Option<char> {
        let rest = &self.text[self.position..];
        self.position += rest.len() - rest.trim_start().len();
        self.text[self.position..].chars().next()
    }

    /// Consumes the next character if it is one of `expected`.
    fn accept(&mut self, expected: &[char]) -> Option<char> {
        let c = self.peek().filter(|c| expected.contains(c))?;
        self.position += c.len_utf8();
        Some(c)
    }

    fn sum(&mut self) -> Result<Expression, ExpressionError> {
        let mut left = self.product()?;
        while let Some(operator) = self.accept(&['+', '-']) {
            left = Expression::Binary(Box::new(left), operator, Box::new(self.product()?));
        }
        Ok(left)
    }

    fn product(&mut self) -> Result<Expression, ExpressionError> {
        let mut left = self.operand()?;
        while let Some(operator) = self.accept(&['*', '/']) {
            left = Expression::Binary(Box::new(left), operator, Box::new(self.operand()?));
        }
        Ok(left)
    }

    fn operand(&mut self) -> Result<Expression, ExpressionError> {
        if self.accept(&['(']).is_some() {
            let inner = self.sum()?;
            return match self.accept(&[')']) {
                Some(_) => Ok(inner),
                None => Err(ExpressionError::OpenParenthesis { text: self.text.to_owned() }),
            };
        }
        self.peek();
        let rest = &self.text[self.position..];
        let is_word = |c: char| c.is_ascii_alphanumeric() || "._[]".contains(c);
        // A hyphen without spaces is part of a name: "poseidon-aimd.rate_gbps".
        let bytes = rest.as_bytes();
        let is_hyphen = |offset: usize| {
            offset > 0
                && bytes.get(offset) == Some(&b'-')
                && bytes[offset - 1].is_ascii_alphanumeric()
                && bytes.get(offset + 1).is_some_and(u8::is_ascii_alphanumeric)
        };
        let end = rest
            .char_indices()
            .find(|(offset, c)| !is_word(*c) && !is_hyphen(*offset))
            .map_or(rest.len(), |(offset, _)| offset);
        let word = &rest[..end];
        if word.is_empty() {
            return Err(ExpressionError::MissingOperand { text: self.text.to_owned() });
        }
        self.position += end;
        if word.starts_with(|c: char| c.is_ascii_digit()) {
            return word.parse().map(Expression::Number).map_err(|_| ExpressionError::NotANumber {
                text: self.text.to_owned(),
                word: word.to_owned(),
            });
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
        Expression::parse(text).expect("the text is an expression").value(&metrics)
    }

    #[test]
    fn expressions_are_evaluated() {
        assert_eq!(value("a.x / b-c.y_us"), Some(3.0));
        assert_eq!(value("1 - a.x/ (b-c.y_us + 1)"), Some(-1.0));
        assert_eq!(value("2 * 3 + 4 * 5"), Some(26.0));
        assert_eq!(value("a.x - b-c.y_us - 1"), Some(3.0));
        assert_eq!(value("a.x / z.z"), None);
    }

    #[test]
    fn invalid_expressions_are_rejected() {
        for text in ["", "a +", "(a", "a b", "1.2.3", "a $ b"] {
            assert!(Expression::parse(text).is_err(), "{text}");
        }
    }
}
