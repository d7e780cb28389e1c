//! What went wrong: a status of the driver, and a text for a developer.

use std::fmt;

/// A status of the driver, by its number in `cuda.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status(pub u32);

/// The statuses that occur: their numbers, names and texts.
macro_rules! statuses {
    ($($name:ident = $number:literal, $text:literal;)*) => {
        #[allow(missing_docs, reason = "they are named as in cuda.h")]
        impl Status {
            $(pub const $name: Status = Status($number);)*

            /// The name in `cuda.h` and a sentence, each with a terminating zero.
            pub(crate) fn texts(self) -> Option<(&'static str, &'static str)> {
                match self.0 {
                    $($number => Some((concat!("CUDA_", stringify!($name), "\0"), concat!($text, "\0"))),)*
                    _ => None,
                }
            }
        }
    };
}

statuses! {
    SUCCESS = 0, "no error";
    ERROR_INVALID_VALUE = 1, "invalid argument";
    ERROR_OUT_OF_MEMORY = 2, "out of memory";
    ERROR_NOT_INITIALIZED = 3, "initialization error";
    ERROR_NO_DEVICE = 100, "no CUDA-capable device is detected";
    ERROR_INVALID_DEVICE = 101, "invalid device ordinal";
    ERROR_INVALID_CONTEXT = 201, "invalid device context";
    ERROR_NO_BINARY_FOR_GPU = 209, "no kernel image is available for execution on the device";
    ERROR_INVALID_PTX = 218, "a PTX JIT compilation failed";
    ERROR_INVALID_HANDLE = 400, "invalid resource handle";
    ERROR_ILLEGAL_STATE = 401, "the operation cannot be performed in the present state";
    ERROR_NOT_FOUND = 500, "named symbol not found";
    ERROR_NOT_READY = 600, "device not ready";
    ERROR_ILLEGAL_ADDRESS = 700, "an illegal memory access was encountered";
    ERROR_LAUNCH_OUT_OF_RESOURCES = 701, "too many resources requested for launch";
    ERROR_LAUNCH_TIMEOUT = 702, "the launch timed out and was terminated";
    ERROR_ILLEGAL_INSTRUCTION = 715, "an illegal instruction was encountered";
    ERROR_MISALIGNED_ADDRESS = 716, "misaligned address";
    ERROR_LAUNCH_FAILED = 719, "unspecified launch failure";
    ERROR_NOT_SUPPORTED = 801, "operation not supported";
    ERROR_STREAM_CAPTURE_UNSUPPORTED = 900, "operation not permitted when stream is capturing";
    ERROR_STREAM_CAPTURE_INVALIDATED = 901, "operation failed due to a previous error during capture";
    ERROR_STREAM_CAPTURE_ISOLATION = 905, "dependency created on uncaptured work in another stream";
    ERROR_UNKNOWN = 999, "unknown error";
}

/// A failure: what the driver answers, and what the developer reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// What the driver's functions return.
    pub status: Status,
    /// Where and why.
    pub text: String,
}

impl Fault {
    pub(crate) fn new(status: Status, text: impl Into<String>) -> Self {
        Fault { status, text: text.into() }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
