//! What bounds the operators that stay behind PyTorch: the reasons of `docs/slow_operators.tsv`, by which `bench --table ops` explains
//! its slow cases.

use std::error::Error;

use crate::codegen::read;
use crate::root;

pub(super) const FILE: &str = "docs/slow_operators.tsv";

/// A line of the file: an operator's base name, or `*` for all, words that the name of a case has, and the reason.
struct Bound {
    operator: String,
    words: Vec<String>,
    reason: String,
}

impl Bound {
    fn parse(line: &str) -> Result<Self, String> {
        let fields: Vec<&str> = line.split('\t').collect();
        let [operator, words, reason] = fields[..] else {
            return Err(format!("{FILE}: expected operator, words and reason between tabs, got {line:?}"));
        };
        let words = words.split(' ').filter(|word| !word.is_empty()).map(str::to_owned).collect();
        Ok(Self { operator: operator.to_owned(), words, reason: reason.to_owned() })
    }

    fn explains(&self, case: &str) -> bool {
        let base = case.split(['.', ' ', '#']).next();
        (self.operator == "*" || base == Some(self.operator.as_str()))
            && self.words.iter().all(|word| case.contains(word.as_str()))
    }
}

pub(super) struct Bounds(Vec<Bound>);

impl Bounds {
    pub(super) fn read() -> Result<Self, Box<dyn Error>> {
        Ok(Self::parse(&read(&root().join(FILE))?)?)
    }

    fn parse(text: &str) -> Result<Self, String> {
        let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
        lines.map(Bound::parse).collect::<Result<_, _>>().map(Self)
    }

    /// The reason of the first line that explains a case.
    pub(super) fn reason(&self, case: &str) -> Option<&str> {
        self.0.iter().find(|bound| bound.explains(case)).map(|bound| bound.reason.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_that_has_the_operator_and_all_words_explains_a_case() {
        let bounds =
            Bounds::parse("# a comment\nsum\tbfloat16 L2\tconversion\nsum\t\trows\n*\tchannels\tcopies\n")
                .unwrap();
        assert_eq!(bounds.reason("sum.dim#0 bfloat16 L2 dense"), Some("conversion"));
        assert_eq!(bounds.reason("sum#0 float32 L2 dense"), Some("rows"));
        assert_eq!(bounds.reason("nansum#0 float32 L2 dense"), None);
        assert_eq!(bounds.reason("nansum#0 float32 L2 channels last"), Some("copies"));
        assert!(Bounds::parse("sum\trows\n").err().unwrap().contains("expected operator, words and reason"));
    }
}
