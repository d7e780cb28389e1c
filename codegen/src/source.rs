//! Positions in YAML files, and faults that point at them.

use std::fmt;

/// An input file: its name, which faults print, and its text.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// What to call the file in a message.
    pub name: &'a str,
    /// Its whole text.
    pub text: &'a str,
}

/// An error in an input file: its position, the message, and the text of the line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The file, as [`Source::name`].
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// What is wrong, in one sentence.
    pub message: String,
    snippet: String,
    caret: usize,
}

/// All errors in the inputs, in the order of the files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults(pub Vec<Fault>);

impl Source<'_> {
    /// A fault at a byte offset of the file.
    pub fn fault(&self, offset: usize, message: impl Into<String>) -> Fault {
        let (line, column, snippet) = locate(self.text, offset);
        let caret = column - 1;
        Fault { file: self.name.to_owned(), line, column, message: message.into(), snippet, caret }
    }

    /// A fault inside a scalar whose text differs from that in the file, because it is folded or escaped: the line number is that
    /// of the scalar, and the snippet and the caret show the scalar's text.
    pub fn fault_within(
        &self,
        offset: usize,
        value: &str,
        inner: usize,
        message: impl Into<String>,
    ) -> Fault {
        let (_, column, snippet) = locate(value, inner);
        Fault { snippet, caret: column - 1, ..self.fault(offset, message) }
    }
}

/// Line and column of a byte offset, both from 1, and the text of that line.
fn locate(text: &str, offset: usize) -> (usize, usize, String) {
    let mut offset = offset.min(text.len());
    while !text.is_char_boundary(offset) {
        offset -= 1;
    }
    let (before, after) = text.split_at(offset);
    let start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let line = before.matches('\n').count() + 1;
    let rest = after.split('\n').next().unwrap_or_default();
    (line, before[start..].chars().count() + 1, format!("{}{rest}", &before[start..]))
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = self.line.to_string();
        let margin = " ".repeat(number.len());
        writeln!(f, "{}:{}:{}: {}", self.file, self.line, self.column, self.message)?;
        writeln!(f, " {margin} |")?;
        writeln!(f, " {number} | {}", self.snippet.trim_end())?;
        write!(f, " {margin} | {}^", " ".repeat(self.caret))
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for fault in &self.0 {
            writeln!(f, "{fault}\n")?;
        }
        let plural = if self.0.len() == 1 { "" } else { "s" };
        write!(f, "{} fault{plural}", self.0.len())
    }
}

impl std::error::Error for Fault {}
impl std::error::Error for Faults {}

impl From<Fault> for Faults {
    fn from(fault: Fault) -> Self {
        Self(vec![fault])
    }
}

impl Faults {
    /// `value` if nothing is wrong, and the faults otherwise.
    ///
    /// # Errors
    /// The faults themselves, if there is one.
    pub fn or<T>(self, value: T) -> Result<T, Self> {
        if self.0.is_empty() { Ok(value) } else { Err(self) }
    }

    /// Returns the value, or collects the fault.
    pub(crate) fn take<T>(&mut self, result: Result<T, Fault>) -> Option<T> {
        result.map_err(|fault| self.0.push(fault)).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_counts_lines_and_characters_from_one() {
        let source = Source { name: "f.yaml", text: "- a\n- é: x\n" };
        let fault = source.fault("- a\n- é: ".len(), "no x here");
        assert_eq!((fault.line, fault.column), (2, 6));
        assert_eq!(fault.to_string(), "f.yaml:2:6: no x here\n   |\n 2 | - é: x\n   |      ^");
    }

    #[test]
    fn an_offset_past_the_end_is_the_end() {
        let source = Source { name: "f.yaml", text: "a" };
        assert_eq!(source.fault(99, "").column, 2);
    }
}
