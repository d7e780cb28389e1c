//! Communicators: what moves tensors of a group from device to device, where an engine does that itself.

use crate::store::Store;
use flambeau_core::{Device, Result};
use flambeau_ops::Tensor;
use std::time::Duration;

/// The ranks between which a communicator moves tensors.
pub struct Members<'a> {
    /// The store by which they find each other.
    pub store: &'a dyn Store,
    /// A name that no other group of the job has.
    pub name: &'a str,
    /// The number of this process in the group.
    pub rank: usize,
    /// How many the group has.
    pub size: usize,
    /// The device of this process.
    pub device: Device,
    /// How long joining may take.
    pub timeout: Duration,
}

/// A tensor that is sent to a rank of the group, or received from one: contiguous, on the device of this process, with elements.
pub type Message = (usize, Tensor);

/// Moves tensors between the devices of a group's ranks.
pub trait Communicator: Send {
    /// Sends and receives tensors, all at once, while the other ranks do the same with messages that fit. On return those that were
    /// received have their elements.
    ///
    /// `check` is called again and again meanwhile. After an error of it, or of anything else, the communicator is of no more use, and the
    /// memory of the tensors is in use no more.
    ///
    /// # Errors
    /// That of `check`, and what the library reports.
    fn exchange(
        &mut self,
        sends: &[Message],
        receives: &[Message],
        check: &dyn Fn() -> Result<()>,
    ) -> Result<()>;
}
