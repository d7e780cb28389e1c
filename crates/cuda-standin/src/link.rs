//! Connections between processes, by which the stand-in for NCCL moves bytes: a local socket between each pair of ranks.
//!
//! What is sent waits in memory for its receiver, so a message that nobody receives ends here, unlike on GPUs; one that nobody sends does not.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How long a rank waits for another one to join, and how often it looks.
const JOINING: Duration = Duration::from_secs(60);
const INTERVAL: Duration = Duration::from_millis(2);

/// Bytes of a device that go to a rank or come from one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub(crate) peer: usize,
    pub(crate) address: u64,
    pub(crate) bytes: u64,
}

/// The connections of a rank.
#[derive(Debug)]
pub(crate) struct Link {
    sockets: Vec<Option<UnixStream>>,
    senders: Vec<Option<Sender<Vec<u8>>>>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    /// Messages of each rank that have arrived, and which ranks send no more.
    arrived: Vec<VecDeque<Vec<u8>>>,
    lost: Vec<bool>,
    is_aborted: bool,
    /// Whether a message was waited for that a lost rank will not send.
    has_failed: bool,
}

impl Link {
    /// Joins all ranks that use a name: connects to those below, and waits for those above.
    pub(crate) fn join(name: &str, rank: usize, size: usize) -> io::Result<Arc<Self>> {
        let address = |rank: usize| SocketAddr::from_abstract_name(format!("{name}-{rank}"));
        let listener = UnixListener::bind_addr(&address(rank)?)?;
        listener.set_nonblocking(true)?;
        let end = Instant::now() + JOINING;
        let mut sockets: Vec<Option<UnixStream>> = (0..size).map(|_| None).collect();
        for (peer, socket) in sockets.iter_mut().enumerate().take(rank) {
            let mut connected = until(end, || UnixStream::connect_addr(&address(peer)?))?;
            connected.write_all(&(rank as u64).to_le_bytes())?;
            *socket = Some(connected);
        }
        for _ in rank + 1..size {
            let mut accepted = until(end, || listener.accept())?.0;
            accepted.set_nonblocking(false)?;
            let peer = number(&mut accepted)? as usize;
            *sockets.get_mut(peer).ok_or(ErrorKind::InvalidData)? = Some(accepted);
        }
        Self::start(sockets)
    }

    fn start(sockets: Vec<Option<UnixStream>>) -> io::Result<Arc<Self>> {
        let (mut senders, mut writing) = (Vec::new(), Vec::new());
        for socket in &sockets {
            let Some(socket) = socket else {
                senders.push(None);
                continue;
            };
            let (sender, messages) = channel();
            writing.push((socket.try_clone()?, messages));
            senders.push(Some(sender));
        }
        let state = State {
            arrived: sockets.iter().map(|_| VecDeque::new()).collect(),
            lost: vec![false; sockets.len()],
            is_aborted: false,
            has_failed: false,
        };
        let reading: Vec<Option<UnixStream>> = sockets
            .iter()
            .map(|socket| socket.as_ref().map(UnixStream::try_clone).transpose())
            .collect::<io::Result<_>>()?;
        let link = Arc::new(Link { sockets, senders, state: Mutex::new(state), changed: Condvar::new() });
        writing
            .into_iter()
            .for_each(|(socket, messages)| drop(thread::spawn(|| write_all(socket, messages))));
        for (peer, socket) in reading.into_iter().enumerate() {
            if let Some(socket) = socket {
                let link = Arc::downgrade(&link);
                thread::spawn(move || {
                    read_all(socket, |message| link.upgrade().map(|link| link.arrived(peer, message)))
                });
            }
        }
        Ok(link)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn arrived(&self, peer: usize, message: Option<Vec<u8>>) {
        let mut state = self.state();
        match message {
            Some(message) => state.arrived[peer].push_back(message),
            None => state.lost[peer] = true,
        }
        self.changed.notify_all();
    }

    /// Whether so many ranks have joined.
    pub(crate) fn has(&self, peer: usize) -> bool {
        self.senders.get(peer).is_some_and(Option::is_some)
    }

    pub(crate) fn send(&self, peer: usize, message: Vec<u8>) {
        if let Some(Some(sender)) = self.senders.get(peer) {
            // A rank that has ended is noticed by what it does not send.
            let _ = sender.send(message);
        }
    }

    /// Whether receiving these parts would not wait.
    pub(crate) fn is_ready(&self, parts: &[Part]) -> bool {
        let mut state = self.state();
        let needed = |peer: usize| parts.iter().filter(|part| part.peer == peer).count();
        let is_missing = |state: &State, part: &Part| state.arrived[part.peer].len() < needed(part.peer);
        let fails = parts.iter().any(|part| is_missing(&state, part) && state.lost[part.peer]);
        state.has_failed |= fails;
        state.is_aborted || !parts.iter().any(|part| is_missing(&state, part))
    }

    /// The next message of a rank; `None` after an abort, or from a rank that has ended.
    pub(crate) fn receive(&self, peer: usize) -> Option<Vec<u8>> {
        let mut state = self.state();
        loop {
            if state.is_aborted {
                return None;
            }
            if let Some(message) = state.arrived[peer].pop_front() {
                return Some(message);
            }
            if state.lost[peer] {
                state.has_failed = true;
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Whether a message is waited for that will not come.
    pub(crate) fn has_failed(&self) -> bool {
        self.state().has_failed
    }

    /// Ends all waiting. The other ranks lose this one.
    pub(crate) fn abort(&self) {
        self.state().is_aborted = true;
        self.changed.notify_all();
        self.close(Shutdown::Both);
    }

    fn close(&self, how: Shutdown) {
        self.sockets.iter().flatten().for_each(|socket| _ = socket.shutdown(how));
    }
}

/// Tries again until there is an answer other than that it is too early.
fn until<T>(end: Instant, mut attempt: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match attempt() {
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::ConnectionRefused) => {
                if Instant::now() >= end {
                    return Err(ErrorKind::TimedOut.into());
                }
                thread::sleep(INTERVAL);
            }
            outcome => return outcome,
        }
    }
}

fn number(socket: &mut UnixStream) -> io::Result<u64> {
    let mut number = [0; 8];
    socket.read_exact(&mut number)?;
    Ok(u64::from_le_bytes(number))
}

/// Writes messages until the link is dropped, and what is left then.
fn write_all(mut socket: UnixStream, messages: Receiver<Vec<u8>>) {
    for message in messages {
        let length = (message.len() as u64).to_le_bytes();
        if socket.write_all(&length).and_then(|()| socket.write_all(&message)).is_err() {
            break;
        }
    }
    let _ = socket.shutdown(Shutdown::Write);
}

/// Reads messages until the rank has ended, or nobody takes them.
fn read_all(mut socket: UnixStream, deliver: impl Fn(Option<Vec<u8>>) -> Option<()>) {
    loop {
        let message = number(&mut socket).and_then(|length| {
            let mut message = vec![0; length as usize];
            socket.read_exact(&mut message)?;
            Ok(message)
        });
        let is_last = message.is_err();
        if deliver(message.ok()).is_none() || is_last {
            return;
        }
    }
}
