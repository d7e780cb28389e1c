//! Errors are values: a kind that programs match on, and a message that names what was expected and found.

use std::fmt;

/// What went wrong, for programs. Each corresponds to the Python exception PyTorch raises for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Shapes that do not fit together: broadcasting, matrix products, `view`.
    Shape,
    /// A scalar type that an operator does not take, or two that do not promote.
    Dtype,
    /// Tensors on devices that do not go together, or a device that is not there.
    Device,
    /// An index or a dimension out of range.
    Index,
    /// An argument outside its domain.
    InvalidArgument,
    /// Arithmetic on sizes that passes 2^63, or a byte count past the address space.
    Overflow,
    /// The allocator could not provide the memory.
    OutOfMemory,
    /// The elements are held by an accessor that conflicts with this use.
    Busy,
    /// Memory that may not be written, or operands whose memory overlaps so that the result would be undefined.
    Aliasing,
    /// A rule of automatic differentiation was broken.
    Autograd,
    /// No kernel for this operator, key or layout.
    NotImplemented,
    /// Reading or writing a file failed, or its content is not what it should be.
    Io,
    /// The caller requested to stop.
    Interrupted,
    /// A fault of the library itself; please report it.
    Internal,
}

/// Result of everything that may fail here.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error: a [kind](ErrorKind) and a message. One pointer wide, so that `Result<Tensor>` fits in two registers.
///
/// ```
/// use flambeau_core::{Error, ErrorKind};
/// let e = Error::new(ErrorKind::Shape, "expected 2 dimensions but got 3".to_string());
/// assert_eq!(e.kind(), ErrorKind::Shape);
/// assert_eq!(e.context("mm").to_string(), "mm: expected 2 dimensions but got 3");
/// ```
pub struct Error(Box<Repr>);

struct Repr {
    kind: ErrorKind,
    message: String,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl Error {
    /// An error of `kind` that says `message`.
    #[cold]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Error(Box::new(Repr { kind, message: message.into(), source: None }))
    }

    /// The same with the error that caused it.
    #[cold]
    pub fn with_source(
        kind: ErrorKind,
        message: impl Into<String>,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Error(Box::new(Repr { kind, message: message.into(), source: Some(source.into()) }))
    }

    /// What went wrong.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// What it says.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The same error, its message preceded by `who`: the operator or file it happened in.
    #[cold]
    pub fn context(mut self, who: impl fmt::Display) -> Self {
        self.0.message = text(format_args!("{who}: {}", self.0.message));
        self
    }
}

/// The longest message, in bytes: one that lists an argument of a million values says enough by its beginning.
const LONGEST: usize = 8 << 10;

/// What an error says, cut where it gets too long.
#[doc(hidden)]
#[cold]
pub fn text(message: fmt::Arguments<'_>) -> String {
    let mut text = Text(String::new());
    // `write_str` returns an error where the message is cut, so that the rest is not formatted.
    let _ = fmt::write(&mut text, message);
    text.0
}

struct Text(String);

impl fmt::Write for Text {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        let room = LONGEST.saturating_sub(self.0.len());
        if part.len() <= room {
            self.0.push_str(part);
            return Ok(());
        }
        self.0.push_str(&part[..part.floor_char_boundary(room)]);
        self.0.push_str("...");
        Err(fmt::Error)
    }
}

impl From<std::collections::TryReserveError> for Error {
    #[cold]
    fn from(e: std::collections::TryReserveError) -> Self {
        Error::with_source(ErrorKind::OutOfMemory, e.to_string(), e)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} error: {}", self.0.kind, self.0.message)?;
        match &self.0.source {
            Some(source) => write!(f, " (because: {source})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|e| e as &(dyn std::error::Error + 'static))
    }
}

impl From<std::io::Error> for Error {
    fn from(e: std::io::Error) -> Self {
        Error::with_source(ErrorKind::Io, e.to_string(), e)
    }
}

/// Returns early with an [`Error`]: `bail!(Shape, "expected {} but got {}", a, b)`.
#[macro_export]
macro_rules! bail {
    ($kind:ident, $($message:tt)+) => {
        return ::core::result::Result::Err($crate::Error::new($crate::ErrorKind::$kind, $crate::error::text(::core::format_args!($($message)+))))
    };
}

/// Returns early with an [`Error`] unless the condition holds: `ensure!(n > 0, Shape, "expected n > 0 but got {n}")`.
#[macro_export]
macro_rules! ensure {
    ($condition:expr, $kind:ident, $($message:tt)+) => {
        if !$condition {
            $crate::bail!($kind, $($message)+);
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_messages_are_cut_between_characters() {
        for before in 0..4 {
            let message =
                text(format_args!("{}{}{:?}", "a".repeat(before), "\u{2260}".repeat(5000), vec![7; 1 << 20]));
            assert!(message.len() <= LONGEST + 3 && message.len() > LONGEST - 3, "{}", message.len());
            assert!(message.ends_with("\u{2260}..."));
        }
        assert_eq!(text(format_args!("{} of {}", 1, 2)), "1 of 2");
        let error = Error::new(ErrorKind::Shape, "x".repeat(LONGEST)).context("add");
        assert!(error.message().starts_with("add: x") && error.message().ends_with("x..."));
    }
}
