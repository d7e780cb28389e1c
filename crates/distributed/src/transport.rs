//! The messages of a process: what its calls send by an engine, and what has arrived and waits for a call.

mod communicator;
mod frame;
mod inbox;
mod mailbox;

pub use communicator::{Communicator, Members, Message};
pub(crate) use frame::{Channel, Frame, Signature};
pub use inbox::Inbox;
pub(crate) use mailbox::{Mailbox, Receive};

use crate::store::Store;
use flambeau_core::{Device, Result, bail, ensure};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How long a rank that reports an error waits for a connection that another thread is using.
const PATIENCE: Duration = Duration::from_millis(100);

/// Moves messages between the ranks of a job. What arrives goes to the [`Inbox`] that it was made with, on a thread of the engine, so that
/// a rank that sends never waits for the receiver's program.
///
/// Messages of one rank to another arrive in the order in which they were sent. When the engine is dropped, what was sent before arrives.
pub trait Engine: Send + Sync {
    /// Its name.
    fn name(&self) -> &str;

    /// Sends a message to another rank. It may wait while the rank takes no bytes, at most for `timeout`.
    ///
    /// # Errors
    /// `Io` naming the rank.
    fn send(&self, to: usize, header: &[u8], payload: &[u8], timeout: Duration) -> Result<()>;

    /// Sends a message without a payload if that takes no longer than `patience`; it is a report to a rank that may have ended.
    fn try_send(&self, to: usize, header: &[u8], patience: Duration);

    /// Whether it moves tensors of such a device from device to device. Those of others go through memory of the host.
    fn moves(&self, device: Device) -> bool {
        let _ = device;
        false
    }

    /// Joins the ranks of a group, all of which call this, to move tensors between their devices.
    ///
    /// # Errors
    /// `NotImplemented` for an engine that [`moves`](Self::moves) no such tensors, and what a library reports.
    fn communicator(&self, members: &Members<'_>) -> Result<Box<dyn Communicator>> {
        bail!(NotImplemented, "the engine {} moves no tensors of {}", self.name(), members.device)
    }
}

/// Is called before each message with its number, the rank that it is for, and the length of its payload.
pub type SendHook = Arc<dyn Fn(u64, usize, usize) + Send + Sync>;

/// The messages of all groups of a process.
pub(crate) struct Transport {
    pub(crate) rank: usize,
    pub(crate) size: usize,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) mailbox: Arc<Mailbox>,
    engine: Box<dyn Engine>,
    /// How many groups were made.
    groups: AtomicU64,
}

impl Transport {
    /// Sends by the engine that `connect` makes for an inbox.
    ///
    /// # Errors
    /// Those of `connect`, and `InvalidArgument` unless `rank < size`.
    pub(crate) fn new(
        store: Arc<dyn Store>,
        rank: usize,
        size: usize,
        connect: impl FnOnce(&dyn Store, Inbox) -> Result<Box<dyn Engine>>,
    ) -> Result<Arc<Self>> {
        ensure!(
            rank < size,
            InvalidArgument("init_process_group", "rank"),
            "expected a rank below the number of ranks, {size}, but got {rank}"
        );
        let mailbox = Arc::new(Mailbox::new(size));
        let engine = connect(&*store, Inbox::new(mailbox.clone()))?;
        Ok(Arc::new(Transport { rank, size, store, mailbox, engine, groups: AtomicU64::new(0) }))
    }

    /// The number of a new group, the same on all ranks, which create their groups in the same order.
    pub(crate) fn next_group(&self) -> u64 {
        self.groups.fetch_add(1, Ordering::Relaxed)
    }

    /// The name of the engine.
    pub(crate) fn engine(&self) -> &str {
        self.engine.name()
    }

    /// Whether the engine moves tensors of such a device from device to device.
    pub(crate) fn moves(&self, device: Device) -> bool {
        self.engine.moves(device)
    }

    /// Joins the ranks of a group.
    ///
    /// # Errors
    /// Those of the engine.
    pub(crate) fn communicator(&self, members: &Members<'_>) -> Result<Box<dyn Communicator>> {
        self.engine.communicator(members)
    }

    /// Sends a message. It waits while the connection takes no bytes, at most for `timeout`.
    ///
    /// # Errors
    /// `Io` naming the rank.
    pub(crate) fn send(
        &self,
        to: usize,
        channel: Channel,
        signature: &Signature,
        payload: &[u8],
        timeout: Duration,
    ) -> Result<()> {
        ensure!(to < self.size, InvalidArgument, "there is no rank {to} among {}", self.size);
        if to == self.rank {
            self.mailbox.deliver(self.rank, Frame::local(channel, signature, payload)?);
            return Ok(());
        }
        self.engine.send(to, &frame::header(channel, signature), payload, timeout)
    }

    /// Tells ranks that a group is broken, as far as they can be reached.
    pub(crate) fn abort(&self, group: u64, ranks: &[usize], message: &str) {
        let header = frame::abort(group, message);
        ranks.iter().for_each(|rank| self.engine.try_send(*rank, &header, PATIENCE));
    }
}

impl Drop for Transport {
    /// Says goodbye, which tells the others that this rank did not fail.
    fn drop(&mut self) {
        let header = frame::goodbye();
        let others = (0..self.size).filter(|rank| *rank != self.rank);
        others.for_each(|rank| self.engine.try_send(rank, &header, PATIENCE));
    }
}
