//! The engine by MPI: one thread makes all calls of its library, which is opened at run time.

mod library;

use super::Setup;
use crate::bytes::copied;
use crate::store::{TcpStore, TcpStoreOptions};
use crate::transport::{Engine, Inbox};
use flambeau_core::{Error, ErrorKind, Result, bail, ensure, error, fallible};
use library::{InFlight, Mpi};
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The name of the engine.
pub(crate) const NAME: &str = "mpi";

/// How long the thread sleeps when nothing happens: at first, and at most. Each time is twice the one before.
const SHORTEST: Duration = Duration::from_micros(10);
const LONGEST: Duration = Duration::from_micros(500);
/// How long the end of a group waits for the end of MPI, which waits for the other ranks.
const PATIENCE: Duration = Duration::from_secs(10);
/// The length of the message with the address of the store: an address is shorter.
const ADDRESS: usize = 64;

/// Whether there is a library of MPI with the standard ABI of MPI 5.
pub fn is_available() -> bool {
    Mpi::is_available()
}

/// All processes that `mpiexec` has started. A process joins it once, since MPI is initialized once.
pub(crate) struct World {
    pub(crate) rank: usize,
    pub(crate) size: usize,
    /// Where rank 0 serves a store.
    address: SocketAddr,
}

/// MPI in this process.
enum State {
    NotStarted,
    Running(Running),
    Ended,
}

struct Running {
    rank: usize,
    size: usize,
    address: SocketAddr,
    commands: Sender<Command>,
    thread: Option<JoinHandle<()>>,
    ended: Arc<Signal>,
    /// Whether a group uses it.
    is_used: bool,
}

static STATE: Mutex<State> = Mutex::new(State::NotStarted);

/// What the thread of MPI is to do.
enum Command {
    /// Deliver what arrives.
    Deliver(Inbox),
    Send(usize, Vec<u8>, Arc<Signal>),
    Finish,
}

/// Something that completes once, on the thread of MPI.
#[derive(Default)]
struct Signal {
    outcome: Mutex<Option<std::result::Result<(), String>>>,
    completed: Condvar,
}

impl Signal {
    fn complete(&self, outcome: std::result::Result<(), String>) {
        self.outcome.lock().get_or_insert(outcome);
        self.completed.notify_all();
    }

    /// The outcome, or `None` if the time has passed.
    fn wait(&self, timeout: Duration) -> Option<std::result::Result<(), String>> {
        let end = Instant::now().checked_add(timeout);
        let mut outcome = self.outcome.lock();
        while outcome.is_none() {
            match end {
                None => self.completed.wait(&mut outcome),
                Some(end) if self.completed.wait_until(&mut outcome, end).timed_out() => break,
                Some(_) => {}
            }
        }
        outcome.clone()
    }
}

impl World {
    /// Joins the processes that `mpiexec` has started; it waits for them.
    ///
    /// # Errors
    /// `Io` where there is no library of MPI with the standard ABI, `InvalidArgument` where MPI has ended in this process.
    pub(crate) fn join() -> Result<World> {
        let mut state = STATE.lock();
        if matches!(*state, State::NotStarted) {
            *state = State::Running(start()?);
        }
        match &*state {
            State::Running(running) => {
                Ok(World { rank: running.rank, size: running.size, address: running.address })
            }
            _ => bail!(
                InvalidArgument("init_process_group", "backend"),
                "MPI has ended in this process with the process group before, and cannot be started a second time"
            ),
        }
    }

    /// The store that rank 0 serves.
    ///
    /// # Errors
    /// `Io` where it cannot be reached.
    pub(crate) fn store(&self, timeout: Duration) -> Result<TcpStore> {
        let options = TcpStoreOptions { timeout, ..Default::default() };
        TcpStore::new(&self.address.ip().to_string(), self.address.port(), &options)
    }
}

/// Starts the thread, which initializes MPI.
fn start() -> Result<Running> {
    let (commands, receiver) = mpsc::channel();
    let (started, outcome) = mpsc::channel();
    let ended = Arc::new(Signal::default());
    let signal = ended.clone();
    let run = move || {
        let made = Mpi::start().and_then(|mpi| {
            let (address, server) = meet(&mpi)?;
            Ok((mpi, address, server))
        });
        match made {
            Ok((mpi, address, server)) => {
                // Nobody waits for it where the process ends meanwhile.
                drop(started.send(Ok((mpi.rank, mpi.size, address))));
                let outcome = Loop::new(&mpi).run(&receiver);
                drop(server);
                let finished = outcome.and_then(|()| mpi.finish());
                signal.complete(finished.map_err(|e| e.message().to_owned()));
            }
            Err(e) => drop(started.send(Err(e))),
        }
    };
    let thread = Some(thread::Builder::new().name("mpi".into()).spawn(run)?);
    match outcome.recv() {
        Ok(Ok((rank, size, address))) => {
            Ok(Running { rank, size, address, commands, thread, ended, is_used: false })
        }
        Ok(Err(e)) => Err(e),
        Err(_) => bail!(Internal, "the thread of MPI has ended"),
    }
}

/// The address of a store that rank 0 serves, and the store on rank 0.
fn meet(mpi: &Mpi) -> Result<(SocketAddr, Option<TcpStore>)> {
    let server = match mpi.rank {
        0 => Some(TcpStore::new("0.0.0.0", 0, &TcpStoreOptions { is_master: true, ..Default::default() })?),
        _ => None,
    };
    let mine = server.as_ref().map_or(String::new(), |server| format!("{}:{}", own_address(), server.port()));
    let mut message = [0u8; ADDRESS];
    for (to, from) in message.iter_mut().zip(mine.bytes()) {
        *to = from;
    }
    let message = mpi.broadcast(message)?;
    let text = String::from_utf8_lossy(&message);
    let text = text.trim_end_matches('\0');
    let address =
        text.parse().map_err(|_| error!(Io, "rank 0 serves a store at {text:?}, which is no address"))?;
    Ok((address, server))
}

/// The address by which other machines reach this one: that of `MASTER_ADDR`, or of the interface that leads to them; without a network
/// that of this machine for itself.
fn own_address() -> String {
    if let Ok(given) = std::env::var("MASTER_ADDR") {
        return given;
    }
    // Nothing is sent: a datagram socket that connects only chooses an interface. The address is reserved for documentation.
    let chosen = UdpSocket::bind("0.0.0.0:0").and_then(|socket| {
        socket.connect("192.0.2.1:9")?;
        socket.local_addr()
    });
    chosen.map_or_else(|_| "127.0.0.1".to_owned(), |address| address.ip().to_string())
}

struct MpiEngine {
    commands: Sender<Command>,
}

/// Uses MPI for a group; its rank and number of ranks must be those of MPI.
pub(super) fn connect(setup: &Setup<'_>) -> Result<Box<dyn Engine>> {
    let world = World::join()?;
    ensure!(
        (setup.rank, setup.size) == (world.rank, world.size),
        InvalidArgument("init_process_group", "rank"),
        "expected rank {} of {}, as MPI has numbered the processes, but got rank {} of {}",
        world.rank,
        world.size,
        setup.rank,
        setup.size
    );
    let mut state = STATE.lock();
    match &mut *state {
        State::Running(running) if !running.is_used => {
            running.is_used = true;
            let commands = running.commands.clone();
            command(&commands, Command::Deliver(setup.inbox.clone()))?;
            Ok(Box::new(MpiEngine { commands }))
        }
        _ => bail!(
            InvalidArgument("init_process_group", "backend"),
            "a process group uses MPI already; groups of some ranks are made of it by new_group"
        ),
    }
}

fn command(commands: &Sender<Command>, command: Command) -> Result<()> {
    commands.send(command).map_err(|_| error!(Io, "MPI has ended in this process"))
}

impl MpiEngine {
    fn start(&self, to: usize, header: &[u8], payload: &[u8]) -> Result<Arc<Signal>> {
        let mut message = fallible::with_capacity(8 + header.len() + payload.len())?;
        message.extend_from_slice(&(header.len() as u64).to_le_bytes());
        message.extend_from_slice(header);
        message.extend_from_slice(payload);
        let sent = Arc::new(Signal::default());
        command(&self.commands, Command::Send(to, message, sent.clone()))?;
        Ok(sent)
    }
}

impl Engine for MpiEngine {
    fn name(&self) -> &'static str {
        NAME
    }

    fn send(&self, to: usize, header: &[u8], payload: &[u8], timeout: Duration) -> Result<()> {
        match self.start(to, header, payload)?.wait(timeout) {
            Some(Ok(())) => Ok(()),
            Some(Err(reason)) => Err(Error::new(ErrorKind::Io, reason)),
            None => {
                bail!(Io, "rank {to} has taken no bytes for {timeout:?}: it is stopped, or waits elsewhere")
            }
        }
    }

    fn try_send(&self, to: usize, header: &[u8], patience: Duration) {
        if let Ok(sent) = self.start(to, header, &[]) {
            // A rank that cannot be reached is one that MPI's launcher reports.
            drop(sent.wait(patience));
        }
    }
}

impl Drop for MpiEngine {
    fn drop(&mut self) {
        let before = std::mem::replace(&mut *STATE.lock(), State::Ended);
        drop(command(&self.commands, Command::Finish));
        if let State::Running(Running { thread: Some(thread), ended, .. }) = before
            && ended.wait(PATIENCE).is_some()
        {
            drop(thread.join());
        }
    }
}

/// The messages that the thread of MPI sends and receives.
struct Loop<'a> {
    mpi: &'a Mpi,
    inbox: Option<Inbox>,
    sends: Vec<(InFlight, Arc<Signal>)>,
    /// In the order in which they arrived, in which they are delivered too.
    receives: VecDeque<InFlight>,
    /// Which ranks have said goodbye; this one counts among them.
    left: Vec<bool>,
    /// When it ends although some have not, once the group has ended.
    end: Option<Instant>,
}

impl<'a> Loop<'a> {
    fn new(mpi: &'a Mpi) -> Self {
        let left = (0..mpi.size).map(|rank| rank == mpi.rank).collect();
        Loop { mpi, inbox: None, sends: vec![], receives: VecDeque::new(), left, end: None }
    }

    /// Runs until the group has ended and everything is sent. An error is what all ranks are reported as lost with.
    fn run(mut self, commands: &Receiver<Command>) -> Result<()> {
        let outcome = self.serve(commands);
        if let Err(e) = &outcome {
            self.sends.drain(..).for_each(|(_, sent)| sent.complete(Err(e.message().to_owned())));
            let inbox = self.inbox.iter();
            inbox.for_each(|inbox| {
                (0..self.mpi.size).for_each(|rank| inbox.lost(rank, e.message().to_owned()))
            });
        }
        outcome
    }

    fn serve(&mut self, commands: &Receiver<Command>) -> Result<()> {
        let mut pause = SHORTEST;
        while !self.is_over() {
            match commands.recv_timeout(pause) {
                Ok(command) => {
                    self.begin(command)?;
                    pause = SHORTEST;
                }
                Err(RecvTimeoutError::Timeout) => pause = (pause * 2).min(LONGEST),
                Err(RecvTimeoutError::Disconnected) => self.finish(),
            }
            if self.progress()? {
                pause = SHORTEST;
            }
        }
        Ok(())
    }

    /// Whether the group has ended, everything was sent, and nothing more arrives.
    fn is_over(&self) -> bool {
        let all_left = self.sends.is_empty() && self.left.iter().all(|left| *left);
        self.end.is_some_and(|end| all_left || Instant::now() >= end)
    }

    fn finish(&mut self) {
        self.end.get_or_insert(Instant::now() + PATIENCE / 2);
    }

    fn begin(&mut self, command: Command) -> Result<()> {
        match command {
            Command::Deliver(inbox) => self.inbox = Some(inbox),
            Command::Send(to, bytes, sent) => self.sends.push((self.mpi.send(to, bytes)?, sent)),
            Command::Finish => self.finish(),
        }
        Ok(())
    }

    /// Whether anything was sent or received.
    fn progress(&mut self) -> Result<bool> {
        let before = self.sends.len();
        let mut outcome = Ok(());
        self.sends.retain_mut(|(message, sent)| match self.mpi.is_complete(message) {
            Ok(false) => true,
            Ok(true) => {
                sent.complete(Ok(()));
                false
            }
            Err(e) => {
                sent.complete(Err(e.message().to_owned()));
                outcome = Err(e);
                false
            }
        });
        outcome?;
        let mut progressed = self.sends.len() < before;
        if self.inbox.as_ref().is_some_and(Inbox::has_room)
            && let Some(message) = self.mpi.receive()?
        {
            self.receives.push_back(message);
            progressed = true;
        }
        while let Some(first) = self.receives.front_mut() {
            if !self.mpi.is_complete(first)? {
                break;
            }
            self.deliver_first()?;
            progressed = true;
        }
        Ok(progressed)
    }

    fn deliver_first(&mut self) -> Result<()> {
        let (Some(message), Some(inbox)) = (self.receives.pop_front(), &self.inbox) else { return Ok(()) };
        let split = || {
            let (length, rest) = message.bytes().split_first_chunk()?;
            rest.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)
        };
        let Some((header, payload)) = split() else {
            bail!(Io, "rank {} sent a message that is damaged", message.peer)
        };
        if !inbox.arrived(message.peer, header, copied(payload)?)?
            && let Some(left) = self.left.get_mut(message.peer)
        {
            *left = true;
        }
        Ok(())
    }
}
