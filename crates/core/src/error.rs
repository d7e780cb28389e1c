//! Errors are values: a kind that programs match on, a message that names what was expected and found, and its parts as fields.

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
    /// A matrix for which a decomposition or a solution does not exist, or was not found: singular, not positive definite.
    LinAlg,
    /// Reading or writing a file failed, or its content is not what it should be.
    Io,
    /// The caller requested to stop.
    Interrupted,
    /// A fault of the library itself; please report it.
    Internal,
}

/// Result of everything that may fail here.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error: a [kind](ErrorKind), a message, and the parts of the message that are known by name. One pointer wide, so that
/// `Result<Tensor>` fits in two registers.
///
/// ```
/// use flambeau_core::{Error, ErrorKind, Result, ensure};
/// fn check(dims: usize) -> Result<()> {
///     ensure!(
///         dims == 2,
///         Shape("mm", "mat2"),
///         expected = 2,
///         got = dims,
///         "expected mat2 of {expected} dimensions but got {got}"
///     );
///     Ok(())
/// }
/// let e = check(3).unwrap_err();
/// assert_eq!(e.to_string(), "mm: expected mat2 of 2 dimensions but got 3");
/// assert_eq!(e.kind(), ErrorKind::Shape);
/// assert_eq!((e.operator(), e.argument()), (Some("mm"), Some("mat2")));
/// assert_eq!((e.expected(), e.got()), (Some("2"), Some("3")));
/// ```
pub struct Error(Box<Repr>);

struct Repr {
    kind: ErrorKind,
    message: String,
    operator: Option<String>,
    argument: Option<String>,
    expected: Option<String>,
    got: Option<String>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// The parts of a message that [`error!`](crate::error!) takes by name.
#[doc(hidden)]
#[derive(Default)]
pub struct Fields<'a> {
    pub operator: Option<&'a dyn fmt::Display>,
    pub argument: Option<&'a dyn fmt::Display>,
    pub expected: Option<&'a dyn fmt::Display>,
    pub got: Option<&'a dyn fmt::Display>,
}

impl Error {
    /// An error of `kind` that says `message`.
    #[cold]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Error(Box::new(Repr {
            kind,
            message: message.into(),
            operator: None,
            argument: None,
            expected: None,
            got: None,
            source: None,
        }))
    }

    /// The same with the error that caused it.
    #[cold]
    pub fn with_source(
        kind: ErrorKind,
        message: impl Into<String>,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        let mut error = Error::new(kind, message);
        error.0.source = Some(source.into());
        error
    }

    /// What [`error!`](crate::error!) makes.
    #[doc(hidden)]
    #[cold]
    pub fn from_fields(kind: ErrorKind, message: fmt::Arguments<'_>, fields: Fields<'_>) -> Self {
        let owned = |field: Option<&dyn fmt::Display>| field.map(|field| text(format_args!("{field}")));
        let mut error = Error::new(kind, text(message));
        error.0.operator = owned(fields.operator);
        error.0.argument = owned(fields.argument);
        error.0.expected = owned(fields.expected);
        error.0.got = owned(fields.got);
        error
    }

    /// What went wrong.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// What it says.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// The operator or function that refused its arguments, `mm`; the innermost, where one called another.
    pub fn operator(&self) -> Option<&str> {
        self.0.operator.as_deref()
    }

    /// Which of that operator's arguments it was, `mat2`.
    pub fn argument(&self) -> Option<&str> {
        self.0.argument.as_deref()
    }

    /// What the argument should have been, as the message says it: a type, a size, a device.
    pub fn expected(&self) -> Option<&str> {
        self.0.expected.as_deref()
    }

    /// What it was.
    pub fn got(&self) -> Option<&str> {
        self.0.got.as_deref()
    }

    /// The same error, its message preceded by `who`: the file or object it happened in.
    ///
    /// ```
    /// use flambeau_core::{Error, ErrorKind};
    /// let e = Error::new(ErrorKind::Io, "no such file").context("loading model.safetensors");
    /// assert_eq!(e.to_string(), "loading model.safetensors: no such file");
    /// assert_eq!(e.operator(), None);
    /// ```
    #[cold]
    pub fn context(mut self, who: impl fmt::Display) -> Self {
        self.0.message = text(format_args!("{who}: {}", self.0.message));
        self
    }

    /// The same error as one of an operator or function: its message is preceded by `name`, and [`operator`](Self::operator) gives it.
    #[cold]
    pub fn in_operator(self, name: impl fmt::Display) -> Self {
        self.with_operator(&name).context(name)
    }

    /// The same error with an [`operator`](Self::operator), unless it has one; for messages that do not begin with it.
    #[cold]
    pub fn with_operator(mut self, name: impl fmt::Display) -> Self {
        self.0.operator.get_or_insert_with(|| text(format_args!("{name}")));
        self
    }

    /// The same error with an [`argument`](Self::argument), unless it has one.
    #[cold]
    pub fn with_argument(mut self, name: impl fmt::Display) -> Self {
        self.0.argument.get_or_insert_with(|| text(format_args!("{name}")));
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

/// An [`Error`]: `error!(Shape, "expected {} but got {}", a, b)`.
///
/// The kind may have an operator, and one of its arguments, in parentheses; the message is then preceded by the operator's name:
/// `error!(Dtype("masked_fill", "mask"), "expected bools")`. `operator`, `argument`, `expected` and `got` may come before the message,
/// which can use them: `error!(Dtype, operator = name, got = dtype, "no kernel for {got}")`.
#[macro_export]
macro_rules! error {
    ($kind:ident ($operator:expr $(, $argument:expr)?), $($rest:tt)+) => {
        $crate::error!(@fields $kind, { $(argument: $argument,)? } $($rest)+).in_operator($operator)
    };
    ($kind:ident, $field:ident = $($rest:tt)+) => {
        $crate::error!(@fields $kind, {} $field = $($rest)+)
    };
    ($kind:ident, $($message:tt)+) => {
        $crate::Error::new($crate::ErrorKind::$kind, $crate::error::text(::core::format_args!($($message)+)))
    };
    (@fields $kind:ident, { $($known:ident: $of:expr,)* } $($field:ident = $value:expr,)* $message:literal $($rest:tt)*) => {
        match ($(&$value,)*) {
            ($($field,)*) => $crate::Error::from_fields(
                $crate::ErrorKind::$kind,
                ::core::format_args!($message $($rest)*),
                $crate::error::Fields {
                    $($known: ::core::option::Option::Some(&$of),)*
                    $($field: ::core::option::Option::Some($field),)*
                    ..::core::default::Default::default()
                },
            ),
        }
    };
}

/// Returns early with an [`Error`], made of what [`error!`](crate::error!) takes: `bail!(Shape, "expected {} but got {}", a, b)`.
#[macro_export]
macro_rules! bail {
    ($($error:tt)+) => {
        return ::core::result::Result::Err($crate::error!($($error)+))
    };
}

/// Returns early with an [`Error`] unless the condition holds: `ensure!(n > 0, Shape, "expected n > 0 but got {n}")`. Takes what
/// [`error!`](crate::error!) takes.
#[macro_export]
macro_rules! ensure {
    ($condition:expr, $($error:tt)+) => {
        if !$condition {
            $crate::bail!($($error)+);
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
    /// Fails with `got`, by an operator that `name` says.
    fn refuse(name: &str, got: &[i64]) -> Result<()> {
        bail!(
            Shape(name),
            expected = format_args!("{:?}", [2, 3]),
            got = format_args!("{got:?}"),
            "expected sizes {expected} but got {got} of {} bytes",
            8
        )
    }

    #[test]
    fn fields_are_in_the_message_and_beside_it() {
        let error = refuse("mm", &[4]).unwrap_err();
        assert_eq!(error.message(), "mm: expected sizes [2, 3] but got [4] of 8 bytes");
        assert_eq!((error.operator(), error.argument()), (Some("mm"), None));
        assert_eq!((error.expected(), error.got()), (Some("[2, 3]"), Some("[4]")));
    }

    #[test]
    fn the_innermost_operator_and_argument_stay() {
        let error =
            refuse("mm", &[4]).unwrap_err().with_argument("mat2").with_argument("self").in_operator("matmul");
        assert!(error.message().starts_with("matmul: mm: expected"), "{error}");
        assert_eq!((error.operator(), error.argument()), (Some("mm"), Some("mat2")));
        let error = Error::new(ErrorKind::Shape, "no").with_operator("conv2d").context("layer 1");
        assert_eq!((error.message(), error.operator()), ("layer 1: no", Some("conv2d")));
    }

    #[test]
    fn a_result_is_as_wide_as_its_pointer() {
        assert_eq!(size_of::<Error>(), size_of::<usize>());
        assert_eq!(size_of::<Result<Box<u8>>>(), 2 * size_of::<usize>());
    }
}
