//! Connects all pairs of ranks, which find each other's addresses in the store.

use super::stream::{Address, Listener, Stream};
use crate::store::Store;
use crate::wire::{Decoder, Encoder, read_message, write_message};
use flambeau_core::{Error, Result, bail, ensure, error};
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::net::IpAddr;
use std::thread;
use std::time::{Duration, Instant};

/// How often a rank looks whether a connection has arrived.
const INTERVAL: Duration = Duration::from_millis(2);

/// How long a process that has connected may take to say which rank it is.
const HELLO: Duration = Duration::from_secs(5);

/// The connections to all ranks, by rank. A rank connects to those below it, and accepts the others.
pub(super) fn all(
    store: &dyn Store,
    rank: usize,
    size: usize,
    host: IpAddr,
    timeout: Duration,
) -> Result<Vec<Option<Stream>>> {
    let mut streams: Vec<Option<Stream>> = (0..size).map(|_| None).collect();
    if size == 1 {
        return Ok(streams);
    }
    let (begin, mut remaining) = (Instant::now(), size - 1 - rank);
    let left = || timeout.saturating_sub(begin.elapsed());
    let key = key_of_job(store, left())?;
    let listener = Listener::new(host, &String::from_utf8_lossy(&key))?;
    register(store, rank, &listener.address)?;
    for (peer, stream) in streams.iter_mut().enumerate().take(rank) {
        *stream = Some(dial(store, (rank, peer), &key, left())?);
    }
    while remaining > 0 {
        if let Some((peer, stream)) = accept(&listener, size, &key)? {
            remaining -= usize::from(streams[peer].replace(stream).is_none());
        } else if left().is_zero() {
            let missing: Vec<usize> = (rank + 1..size).filter(|peer| streams[*peer].is_none()).collect();
            bail!(
                Io("init_process_group", "timeout"),
                "rank {rank} has waited {timeout:?} for ranks {missing:?}"
            );
        } else {
            thread::sleep(INTERVAL);
        }
    }
    Ok(streams)
}

/// A random key that all ranks of the job know, so that connections of other programs are refused.
fn key_of_job(store: &dyn Store, timeout: Duration) -> Result<Vec<u8>> {
    let random = RandomState::new().build_hasher().finish() ^ u64::from(std::process::id()).rotate_left(32);
    store.compare_set("transport/key", b"", format!("{random:016x}").as_bytes())?;
    store.get("transport/key", timeout)
}

/// Publishes the address of a rank. Two processes that claim the same rank are an error.
fn register(store: &dyn Store, rank: usize, mine: &Address) -> Result<()> {
    let mine = mine.text();
    let registered = store.compare_set(&format!("transport/address/{rank}"), b"", mine.as_bytes())?;
    ensure!(
        registered == mine.as_bytes(),
        InvalidArgument("init_process_group", "rank"),
        "expected ranks that differ but another process has rank {rank} already, at {}",
        String::from_utf8_lossy(&registered)
    );
    Ok(())
}

fn dial(store: &dyn Store, (rank, peer): (usize, usize), key: &[u8], timeout: Duration) -> Result<Stream> {
    let absent =
        |_| error!(Io("init_process_group", "timeout"), "rank {rank} has waited {timeout:?} for rank {peer}");
    let address = store.get(&format!("transport/address/{peer}"), timeout).map_err(absent)?;
    let text = String::from_utf8_lossy(&address).into_owned();
    let Some(address) = Address::parse(&text) else {
        bail!(Io("init_process_group"), "the store has {text:?} as the address of rank {peer}")
    };
    let context = |e: std::io::Error| {
        Error::from(e).context(format_args!("rank {rank} cannot connect to rank {peer} at {text}"))
    };
    let mut stream = address.connect(timeout.max(INTERVAL)).map_err(context)?;
    write_message(&mut stream, &Encoder::default().bytes(key).u64(rank as u64).finish())?;
    Ok(stream)
}

/// A connection that has arrived, and the rank that it is from. A connection that is not of this job is closed.
fn accept(listener: &Listener, size: usize, key: &[u8]) -> Result<Option<(usize, Stream)>> {
    let Some(mut stream) = listener.accept()? else { return Ok(None) };
    stream.set_read_timeout(Some(HELLO))?;
    let rank = read_message(&mut stream).and_then(|hello| {
        let mut hello = Decoder::new(&hello);
        let same_job = hello.bytes()? == key;
        Ok((same_job, hello.u64()? as usize))
    });
    stream.set_read_timeout(None)?;
    Ok(match rank {
        Ok((true, rank)) if rank < size => Some((rank, stream)),
        _ => None,
    })
}
