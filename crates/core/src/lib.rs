//! What a tensor is, before any operator exists: the values that describe it, the memory that holds it, and the
//! seams where operators and gradients attach.

pub mod device;
pub mod error;

pub use device::{Device, DeviceType};
pub use error::{Error, ErrorKind, Result};
