//! The engine over TCP, and over local sockets between ranks of one machine: a connection between each pair of ranks, and a thread for each
//! connection that receives.

use super::Setup;
use super::stream::Stream;
use crate::bytes::{buffer, with_bytes_mut};
use crate::transport::{Engine, Inbox};
use crate::wire::{Encoder, read_length, read_message};
use flambeau_core::{Error, ErrorKind, Result, ensure, error};
use flambeau_ops::Tensor;
use parking_lot::Mutex;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::thread;
use std::time::Duration;

/// Payloads up to this length are sent with their header at once.
const SHORT: usize = 16 << 10;

struct Tcp {
    /// The connection to each rank; none to this one.
    peers: Vec<Option<Mutex<Stream>>>,
    inbox: Inbox,
}

/// Connects this rank to all others, which do the same meanwhile.
///
/// # Errors
/// `Io` naming the ranks that did not arrive in time.
pub(super) fn connect(setup: &Setup<'_>) -> Result<Box<dyn Engine>> {
    let streams = super::connect::all(setup.store, setup.rank, setup.size, setup.host, setup.timeout)?;
    let mut peers = Vec::new();
    for (peer, stream) in streams.into_iter().enumerate() {
        if let Some(stream) = &stream {
            receive_from(peer, stream, &setup.inbox)?;
        }
        peers.push(stream.map(Mutex::new));
    }
    Ok(Box::new(Tcp { peers, inbox: setup.inbox.clone() }))
}

impl Tcp {
    fn peer(&self, to: usize) -> Result<&Mutex<Stream>> {
        let peer = self.peers.get(to).and_then(Option::as_ref);
        peer.ok_or_else(|| error!(InvalidArgument, "there is no connection to rank {to}"))
    }

    fn failure(&self, to: usize, e: Error, timeout: Duration) -> Error {
        use std::io::ErrorKind::{TimedOut, WouldBlock};
        let source = std::error::Error::source(&e).and_then(|source| source.downcast_ref::<std::io::Error>());
        if source.is_some_and(|e| matches!(e.kind(), WouldBlock | TimedOut)) {
            return error!(
                Io,
                "rank {to} has taken no bytes for {timeout:?}: it is stopped, or waits elsewhere"
            );
        }
        match self.inbox.reason(to) {
            Some(reason) => Error::new(ErrorKind::Io, reason),
            None => error!(Io, "the connection to rank {to} is lost: {e}"),
        }
    }
}

impl Engine for Tcp {
    fn name(&self) -> &'static str {
        "tcp"
    }

    fn send(&self, to: usize, header: &[u8], payload: &[u8], timeout: Duration) -> Result<()> {
        let sent = write(&mut self.peer(to)?.lock(), header, payload, timeout);
        sent.map_err(|e| self.failure(to, e, timeout))
    }

    fn try_send(&self, to: usize, header: &[u8], patience: Duration) {
        if let Ok(peer) = self.peer(to)
            && let Some(mut stream) = peer.try_lock_for(patience)
        {
            // A rank that cannot be reached notices the end of this one.
            drop(write(&mut stream, header, &[], patience));
        }
    }
}

impl Drop for Tcp {
    fn drop(&mut self) {
        for peer in self.peers.iter_mut().flatten() {
            drop(peer.get_mut().shutdown(Shutdown::Write));
        }
    }
}

/// Writes a message; each part must be taken within `timeout`.
fn write(stream: &mut Stream, header: &[u8], payload: &[u8], timeout: Duration) -> Result<()> {
    stream.set_write_timeout(Some(timeout.max(Duration::from_millis(1))))?;
    let mut first = Encoder::default().bytes(header).u64(payload.len() as u64).finish();
    if payload.len() <= SHORT {
        first.extend_from_slice(payload);
        stream.write_all(&first)?;
        return Ok(());
    }
    stream.write_all(&first)?;
    stream.write_all(payload)?;
    Ok(())
}

/// Starts the thread that receives the messages of a rank.
fn receive_from(peer: usize, stream: &Stream, inbox: &Inbox) -> Result<()> {
    let (mut stream, inbox) = (stream.try_clone()?, inbox.clone());
    let receive = move || {
        if let Err(e) = receive_all(peer, &mut stream, &inbox) {
            inbox.lost(peer, format!("rank {peer} has ended, or its machine cannot be reached ({e})"));
        }
    };
    thread::Builder::new().name(format!("from rank {peer}")).spawn(receive)?;
    Ok(())
}

/// Receives until the rank says goodbye.
fn receive_all(peer: usize, stream: &mut Stream, inbox: &Inbox) -> Result<()> {
    loop {
        let header = read_message(stream).map_err(closed)?;
        let length = read_length(stream).map_err(closed)?;
        let payload = receive_payload(stream, length)?;
        if !inbox.arrived(peer, &header, payload)? {
            return Ok(());
        }
        inbox.wait_for_room(peer);
    }
}

/// What the end of a connection means.
fn closed(e: Error) -> Error {
    use std::io::ErrorKind::{ConnectionAborted, ConnectionReset, UnexpectedEof};
    let cause = std::error::Error::source(&e).and_then(|source| source.downcast_ref::<std::io::Error>());
    match cause.map(std::io::Error::kind) {
        Some(UnexpectedEof | ConnectionReset | ConnectionAborted) => error!(Io, "its connection was closed"),
        _ => e,
    }
}

fn receive_payload(stream: &mut Stream, length: u64) -> Result<Tensor> {
    ensure!(length <= i64::MAX as u64, Io, "it sent a message of {length} bytes");
    let payload = buffer(length as usize)?;
    with_bytes_mut(&payload, |bytes| stream.read_exact(bytes).map_err(|e| closed(e.into())))?;
    Ok(payload)
}
