//! Where an engine delivers what arrives.

use super::frame::{self, Arrived};
use super::mailbox::Mailbox;
use flambeau_core::Result;
use flambeau_ops::Tensor;
use std::sync::Arc;

/// Where an engine delivers the messages that arrive.
#[derive(Clone)]
pub struct Inbox(Arc<Mailbox>);

impl Inbox {
    pub(super) fn new(mailbox: Arc<Mailbox>) -> Self {
        Inbox(mailbox)
    }

    /// Delivers a message of a rank: the header that was sent, and the payload as a tensor of bytes. Whether more may follow; not after
    /// the rank has said goodbye.
    ///
    /// # Errors
    /// `Io` for a header that is damaged; the rank is to be reported as [`lost`](Self::lost).
    pub fn arrived(&self, from: usize, header: &[u8], payload: Tensor) -> Result<bool> {
        match frame::read(header, payload)? {
            Arrived::Frame(frame) => self.0.deliver(from, frame),
            Arrived::Abort(group, reason) => self.0.break_group(group, reason),
            Arrived::Goodbye => {
                self.0.lose(from, format!("rank {from} has left its process group"));
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Says that nothing more arrives from a rank, and why. A reason that was given before stays.
    pub fn lost(&self, from: usize, reason: String) {
        self.0.lose(from, reason);
    }

    /// Why nothing more arrives from a rank, if it was said.
    pub fn reason(&self, from: usize) -> Option<String> {
        self.0.reason(from)
    }

    /// Whether there is room for more messages. An engine receives none without.
    pub fn has_room(&self) -> bool {
        self.0.has_room()
    }

    /// Waits until there is room, or the rank is lost.
    pub fn wait_for_room(&self, from: usize) {
        self.0.wait_for_room(from);
    }
}
