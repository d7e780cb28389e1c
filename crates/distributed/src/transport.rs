//! Connections between all pairs of ranks. A thread for each connection receives messages, so that a rank that sends never waits for
//! the receiver's program.

mod connect;
mod frame;
mod mailbox;

pub(crate) use frame::{Channel, Frame, Signature};
pub(crate) use mailbox::{Mailbox, Receive};

use crate::store::Store;
use flambeau_core::{Error, ErrorKind, Result, error};
use parking_lot::Mutex;
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How long a rank that reports an error waits for a connection that another thread is using.
const PATIENCE: Duration = Duration::from_millis(100);

/// All connections of a process. Groups share them.
pub(crate) struct Transport {
    pub(crate) rank: usize,
    pub(crate) size: usize,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) mailbox: Arc<Mailbox>,
    /// The connection to each rank; none to this one.
    peers: Vec<Option<Mutex<TcpStream>>>,
    /// How many groups were made.
    groups: AtomicU64,
}

impl Transport {
    /// Connects this rank to all others, which do the same meanwhile.
    ///
    /// # Errors
    /// `Io` naming the ranks that did not arrive in time.
    pub(crate) fn new(
        store: Arc<dyn Store>,
        rank: usize,
        size: usize,
        host: std::net::IpAddr,
        timeout: Duration,
    ) -> Result<Arc<Self>> {
        let mailbox = Arc::new(Mailbox::new(size));
        let streams = connect::all(&*store, rank, size, host, timeout)?;
        let mut peers = Vec::new();
        for (peer, stream) in streams.into_iter().enumerate() {
            if let Some(stream) = &stream {
                frame::receive_from(peer, stream, &mailbox)?;
            }
            peers.push(stream.map(Mutex::new));
        }
        Ok(Arc::new(Transport { rank, size, store, mailbox, peers, groups: AtomicU64::new(0) }))
    }

    /// The number of a new group, the same on all ranks, which create their groups in the same order.
    pub(crate) fn next_group(&self) -> u64 {
        self.groups.fetch_add(1, Ordering::Relaxed)
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
        let header = frame::header(channel, signature);
        if to == self.rank {
            self.mailbox.deliver(self.rank, Frame::local(channel, signature, payload)?);
            return Ok(());
        }
        let Some(Some(peer)) = self.peers.get(to) else {
            return Err(error!(InvalidArgument, "there is no rank {to} among {}", self.size));
        };
        let mut stream = peer.lock();
        let sent = frame::write(&mut stream, &header, payload, timeout);
        sent.map_err(|e| self.failure(to, e, timeout))
    }

    fn failure(&self, to: usize, e: Error, timeout: Duration) -> Error {
        let stopped = std::error::Error::source(&e)
            .and_then(|source| source.downcast_ref::<std::io::Error>())
            .is_some_and(|e| {
                matches!(e.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut)
            });
        match stopped {
            true => {
                error!(Io, "rank {to} has taken no bytes for {timeout:?}: it is stopped, or waits elsewhere")
            }
            false => self.mailbox.reason(to).map_or_else(
                || Error::new(ErrorKind::Io, format!("the connection to rank {to} is lost: {e}")),
                |reason| Error::new(ErrorKind::Io, reason),
            ),
        }
    }

    /// Tells ranks that a group is broken, as far as they can be reached.
    pub(crate) fn abort(&self, group: u64, ranks: &[usize], message: &str) {
        let header = frame::abort(group, message);
        let peers = ranks.iter().filter_map(|rank| self.peers.get(*rank)?.as_ref());
        for peer in peers {
            if let Some(mut stream) = peer.try_lock_for(PATIENCE) {
                // A rank that cannot be reached notices the end of this one.
                drop(frame::write(&mut stream, &header, &[], PATIENCE));
            }
        }
    }
}

impl Drop for Transport {
    /// Says goodbye, which tells the others that this rank did not fail.
    fn drop(&mut self) {
        let header = frame::goodbye();
        for peer in self.peers.iter_mut().flatten() {
            let stream = peer.get_mut();
            drop(frame::write(stream, &header, &[], PATIENCE));
            drop(stream.shutdown(std::net::Shutdown::Write));
        }
    }
}
