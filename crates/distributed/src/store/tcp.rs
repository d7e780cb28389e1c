//! A store over TCP: one process serves it, and every process is a client. PyTorch's `TCPStore`.

use super::{DEFAULT_TIMEOUT, HashStore, Store};
use crate::wire::{Decoder, Encoder, read_message, write_message};
use flambeau_core::{Error, ErrorKind, Result, bail, error};
use parking_lot::Mutex;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How much longer than the server a client waits for an answer, before it takes the server for dead.
const GRACE: Duration = Duration::from_secs(5);

/// How often a client tries to connect while the server has not started.
const INTERVAL: Duration = Duration::from_millis(20);

/// How a [`TcpStore`] is opened.
#[derive(Debug, Clone)]
pub struct TcpStoreOptions {
    /// Whether this process serves the store.
    pub is_master: bool,
    /// How long to wait for the server.
    pub timeout: Duration,
    /// For how many clients, the server's own included, the call waits; with `None` it does not wait.
    pub world_size: Option<usize>,
}

impl Default for TcpStoreOptions {
    fn default() -> Self {
        TcpStoreOptions { is_master: false, timeout: DEFAULT_TIMEOUT, world_size: None }
    }
}

/// A store that one process serves over TCP.
///
/// ```
/// use flambeau_distributed::store::{Store, TcpStore, TcpStoreOptions};
/// use std::time::Duration;
/// let server = TcpStore::new("127.0.0.1", 0, &TcpStoreOptions { is_master: true, ..Default::default() })?;
/// let client = TcpStore::new("127.0.0.1", server.port(), &TcpStoreOptions::default())?;
/// client.set("key", b"value")?;
/// assert_eq!(server.get("key", Duration::from_secs(5))?, b"value");
/// # Ok::<(), flambeau_core::Error>(())
/// ```
pub struct TcpStore {
    address: SocketAddr,
    stream: Mutex<TcpStream>,
    server: Option<Server>,
}

impl TcpStore {
    /// Connects to the store at `host` and `port`, which this process serves first if it is the master. A master with the port 0 gets
    /// one that is free.
    ///
    /// # Errors
    /// `Io` where the address is in use, cannot be resolved, or nobody serves there in time.
    pub fn new(host: &str, port: u16, options: &TcpStoreOptions) -> Result<Self> {
        let addresses = resolve(host, port)?;
        let server = if options.is_master { Some(Server::start(&addresses)?) } else { None };
        let addresses = server.as_ref().map_or(addresses, |server| vec![server.address]);
        let stream = connect(&addresses, options.timeout)?;
        let address = stream.peer_addr()?;
        let store = TcpStore { address, stream: Mutex::new(stream), server };
        if let Some(world_size) = options.world_size {
            store.meet(world_size, options.timeout)?;
        }
        Ok(store)
    }

    /// The port of the server.
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// The address of this process by which the server's machine reaches it.
    ///
    /// # Errors
    /// `Io` where the connection is lost.
    pub fn local_address(&self) -> Result<IpAddr> {
        Ok(self.stream.lock().local_addr()?.ip())
    }

    /// Whether this process serves the store.
    pub fn is_master(&self) -> bool {
        self.server.is_some()
    }

    fn meet(&self, world_size: usize, timeout: Duration) -> Result<()> {
        const COUNT: &str = "tcp_store/clients";
        const COMPLETE: &str = "tcp_store/complete";
        let arrived = self.add(COUNT, 1)?;
        if arrived as usize >= world_size {
            self.set(COMPLETE, b"1")?;
        }
        self.get(COMPLETE, timeout).map(drop).map_err(|_| {
            error!(
                Io("TcpStore", "world_size"),
                "expected {world_size} clients in {timeout:?} but some have not connected"
            )
        })
    }

    /// Sends a request and returns the answer, for which the server may take as long as `wait`.
    fn request(&self, request: &[u8], wait: Duration) -> Result<Vec<u8>> {
        let lost = |e: Error| e.context(format_args!("the store at {} cannot be reached", self.address));
        let mut stream = self.stream.lock();
        stream.set_read_timeout(wait.checked_add(GRACE)).map_err(Error::from)?;
        write_message(&mut *stream, request).map_err(lost)?;
        let answer = read_message(&mut *stream).map_err(lost)?;
        let mut decoder = Decoder::new(&answer);
        match decoder.u8()? {
            OK => Ok(decoder.bytes()?.to_vec()),
            INVALID => Err(Error::new(ErrorKind::InvalidArgument, decoder.text()?)),
            _ => Err(Error::new(ErrorKind::Io, decoder.text()?)),
        }
    }
}

fn resolve(host: &str, port: u16) -> Result<Vec<SocketAddr>> {
    let unknown =
        |e: std::io::Error| Error::from(e).context(format_args!("TcpStore: the address {host:?} is unknown"));
    Ok((host, port).to_socket_addrs().map_err(unknown)?.collect())
}

/// Connects as soon as somebody serves there.
fn connect(addresses: &[SocketAddr], timeout: Duration) -> Result<TcpStream> {
    let begin = Instant::now();
    loop {
        let left = timeout.saturating_sub(begin.elapsed()).max(INTERVAL);
        let connected =
            addresses.iter().map(|address| TcpStream::connect_timeout(address, left)).find_map(Result::ok);
        if let Some(stream) = connected {
            stream.set_nodelay(true)?;
            return Ok(stream);
        }
        if begin.elapsed() >= timeout {
            bail!(Io, "TcpStore: nobody serves a store at {addresses:?} after {timeout:?}");
        }
        thread::sleep(INTERVAL);
    }
}

const SET: u8 = 1;
const GET: u8 = 2;
const ADD: u8 = 3;
const COMPARE_SET: u8 = 4;
const DELETE: u8 = 5;
const CHECK: u8 = 6;
const NUM_KEYS: u8 = 7;

const OK: u8 = 0;
const FAILED: u8 = 1;
const INVALID: u8 = 2;

impl Store for TcpStore {
    fn set(&self, key: &str, value: &[u8]) -> Result<()> {
        let request = Encoder::default().u8(SET).bytes(key.as_bytes()).bytes(value);
        self.request(&request.finish(), Duration::ZERO).map(drop)
    }

    fn get(&self, key: &str, timeout: Duration) -> Result<Vec<u8>> {
        let milliseconds = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
        let request = Encoder::default().u8(GET).bytes(key.as_bytes()).u64(milliseconds);
        self.request(&request.finish(), timeout)
    }

    fn add(&self, key: &str, amount: i64) -> Result<i64> {
        let request = Encoder::default().u8(ADD).bytes(key.as_bytes()).i64(amount);
        super::number(key, &self.request(&request.finish(), Duration::ZERO)?)
    }

    fn compare_set(&self, key: &str, expected: &[u8], desired: &[u8]) -> Result<Vec<u8>> {
        let request = Encoder::default().u8(COMPARE_SET).bytes(key.as_bytes()).bytes(expected).bytes(desired);
        self.request(&request.finish(), Duration::ZERO)
    }

    fn delete_key(&self, key: &str) -> Result<bool> {
        let request = Encoder::default().u8(DELETE).bytes(key.as_bytes());
        Ok(self.request(&request.finish(), Duration::ZERO)? == b"1")
    }

    fn check(&self, keys: &[&str]) -> Result<bool> {
        let request = Encoder::default().u8(CHECK).u64(keys.len() as u64);
        let request = keys.iter().fold(request, |request, key| request.bytes(key.as_bytes()));
        Ok(self.request(&request.finish(), Duration::ZERO)? == b"1")
    }

    fn num_keys(&self) -> Result<usize> {
        let answer = self.request(&Encoder::default().u8(NUM_KEYS).finish(), Duration::ZERO)?;
        Ok(super::number("num_keys", &answer)? as usize)
    }
}

/// Accepts connections until it is dropped; each is served by a thread, which ends with its connection.
struct Server {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
}

impl Server {
    fn start(addresses: &[SocketAddr]) -> Result<Server> {
        let listener = TcpListener::bind(addresses)
            .map_err(|e| Error::from(e).context(format_args!("TcpStore: cannot serve at {addresses:?}")))?;
        let address = listener.local_addr()?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let accept = move || {
            let values = Arc::new(HashStore::default());
            for stream in listener.incoming() {
                if stopped.load(Ordering::Acquire) {
                    return;
                }
                let values = values.clone();
                // A connection that cannot be served is closed, which its client reports.
                let serve = move |stream| drop(serve(stream, &values));
                if let Ok(stream) = stream {
                    drop(thread::Builder::new().name("store connection".into()).spawn(move || serve(stream)));
                }
            }
        };
        thread::Builder::new().name("store".into()).spawn(accept)?;
        Ok(Server { address, stop })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        // Wakes the thread that accepts connections.
        drop(TcpStream::connect_timeout(&self.address, GRACE));
    }
}

fn serve(mut stream: TcpStream, values: &HashStore) -> Result<()> {
    stream.set_nodelay(true)?;
    loop {
        let request = read_message(&mut stream)?;
        let answer = match answer(&request, values) {
            Ok(value) => Encoder::default().u8(OK).bytes(&value),
            Err(e) => {
                let code = if e.kind() == ErrorKind::Io { FAILED } else { INVALID };
                Encoder::default().u8(code).bytes(e.message().as_bytes())
            }
        };
        write_message(&mut stream, &answer.finish())?;
    }
}

fn answer(request: &[u8], values: &HashStore) -> Result<Vec<u8>> {
    let mut request = Decoder::new(request);
    let truth = |truth: bool| if truth { b"1".to_vec() } else { b"0".to_vec() };
    match request.u8()? {
        SET => values.set(&request.text()?, request.bytes()?).map(|()| vec![]),
        GET => values.get(&request.text()?, Duration::from_millis(request.u64()?)),
        ADD => Ok(values.add(&request.text()?, request.i64()?)?.to_string().into_bytes()),
        COMPARE_SET => values.compare_set(&request.text()?, request.bytes()?, request.bytes()?),
        DELETE => values.delete_key(&request.text()?).map(truth),
        CHECK => {
            let keys: Result<Vec<String>> = (0..request.count()?).map(|_| request.text()).collect();
            values.check(&keys?.iter().map(String::as_str).collect::<Vec<_>>()).map(truth)
        }
        NUM_KEYS => Ok(values.num_keys()?.to_string().into_bytes()),
        other => bail!(InvalidArgument, "the store has no request {other}"),
    }
}
