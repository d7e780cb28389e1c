//! Those functions of NCCL that `crates/distributed` calls, by the names under which `nccl.h` has them, between processes of one machine.
//! They are stricter than it: devices, streams, ranks and addresses are checked, and messages move as late as the stream's other work.
#![expect(unsafe_code, reason = "the functions of a C interface take addresses")]

use super::{Code, Object, current, handle, object, store, with_state};
use crate::fault::{Fault, Status};
use crate::link::{Link, Part};
use crate::state::{Answer, Handle, State, Work, report};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::{c_char, c_int, c_void};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// `ncclUniqueId`: the name of the sockets.
#[repr(C)]
#[derive(Clone, Copy)]
struct UniqueId([u8; 128]);

/// Codes of `ncclResult_t`.
const UNHANDLED_CUDA_ERROR: Code = 1;
const INVALID_ARGUMENT: Code = 4;
const INVALID_USAGE: Code = 5;
const REMOTE_ERROR: Code = 6;

/// A rank that has joined others.
#[derive(Clone)]
struct Communicator {
    device: usize,
    link: Arc<Link>,
}

static COMMUNICATORS: Mutex<BTreeMap<Handle, Communicator>> = Mutex::new(BTreeMap::new());

/// A message of a group that has not ended.
struct Message {
    communicator: Handle,
    stream: Object,
    is_send: bool,
    part: Part,
}

thread_local! {
    /// The messages of the group that this thread has started.
    static GROUP: RefCell<Option<Vec<Message>>> = const { RefCell::new(None) };
}

/// A code of NCCL for a status.
fn code_of(status: Code) -> Code {
    match Status(status) {
        Status::SUCCESS => 0,
        Status::ERROR_INVALID_VALUE | Status::ERROR_INVALID_HANDLE => INVALID_ARGUMENT,
        Status::ERROR_INVALID_CONTEXT => INVALID_USAGE,
        _ => UNHANDLED_CUDA_ERROR,
    }
}

fn answer(name: &'static str, body: impl FnOnce() -> Answer<()>) -> Code {
    code_of(super::answer(name, body))
}

fn invalid(text: impl Into<String>) -> Status {
    report(&Fault::new(Status::ERROR_INVALID_VALUE, text))
}

fn communicator(of: Object) -> Answer<Communicator> {
    let all = COMMUNICATORS.lock().unwrap_or_else(PoisonError::into_inner);
    all.get(&handle(of)).cloned().ok_or(Status::ERROR_INVALID_HANDLE)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ncclGetErrorString(code: c_int) -> *const c_char {
    let text = match code as Code {
        0 => c"no error",
        UNHANDLED_CUDA_ERROR => c"unhandled cuda error",
        INVALID_ARGUMENT => c"invalid argument",
        INVALID_USAGE => c"invalid usage",
        REMOTE_ERROR => c"remote process exited or there was a network error",
        _ => c"unknown result code",
    };
    text.as_ptr()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ncclGetUniqueId(id: *mut UniqueId) -> Code {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    answer("ncclGetUniqueId", || {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("flambeau-standin-{}-{number}", std::process::id());
        let mut made = UniqueId([0; 128]);
        made.0.iter_mut().zip(name.bytes()).for_each(|(to, from)| *to = from);
        // SAFETY: the condition of the function: the address is null, or one that may be written; this holds for all that follow.
        unsafe { store(id, made) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ncclCommInitRank(to: *mut Object, size: c_int, id: UniqueId, rank: c_int) -> Code {
    answer("ncclCommInitRank", || {
        let device = current()?;
        let (Ok(size), Ok(rank)) = (usize::try_from(size), usize::try_from(rank)) else {
            return Err(invalid("NCCL: a negative rank"));
        };
        if rank >= size {
            return Err(invalid(format!("NCCL: rank {rank} of {size}")));
        }
        let name = String::from_utf8_lossy(&id.0);
        let link = Link::join(name.trim_end_matches('\0'), rank, size)
            .map_err(|e| report(&Fault::new(Status::ERROR_UNKNOWN, format!("NCCL: joining: {e}"))))?;
        let mut all = COMMUNICATORS.lock().unwrap_or_else(PoisonError::into_inner);
        let number = all.last_key_value().map_or(0x100, |(number, _)| *number) + 16;
        // SAFETY: as above.
        unsafe { store(to, object(number)) }?;
        all.insert(number, Communicator { device, link });
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ncclCommDestroy(of: Object) -> Code {
    answer("ncclCommDestroy", || {
        let mut all = COMMUNICATORS.lock().unwrap_or_else(PoisonError::into_inner);
        all.remove(&handle(of)).map(drop).ok_or(Status::ERROR_INVALID_HANDLE)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ncclCommAbort(of: Object) -> Code {
    answer("ncclCommAbort", || {
        communicator(of)?.link.abort();
        COMMUNICATORS.lock().unwrap_or_else(PoisonError::into_inner).remove(&handle(of));
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ncclCommGetAsyncError(of: Object, to: *mut c_int) -> Code {
    answer("ncclCommGetAsyncError", || {
        let code = if communicator(of)?.link.has_failed() { REMOTE_ERROR } else { 0 };
        // SAFETY: as above.
        unsafe { store(to, code as c_int) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ncclGroupStart() -> Code {
    answer("ncclGroupStart", || {
        GROUP.with_borrow_mut(|group| match group {
            Some(_) => Err(invalid("NCCL: a group in a group")),
            None => {
                *group = Some(Vec::new());
                Ok(())
            }
        })
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ncclGroupEnd() -> Code {
    // Also where the call is to fail, the group has ended.
    let messages = GROUP.take();
    code_of(with_state("ncclGroupEnd", |state| {
        submit(state, messages.ok_or_else(|| invalid("NCCL: the end of a group that was not started"))?)
    }))
}

/// Puts the messages into their streams: those that are sent before those that are received, as if all were at once.
fn submit(state: &mut State, messages: Vec<Message>) -> Answer<()> {
    for is_send in [true, false] {
        let mut parts: BTreeMap<(Handle, Handle), Vec<Part>> = BTreeMap::new();
        for message in messages.iter().filter(|message| message.is_send == is_send) {
            let stream = state.stream(message.stream)?;
            parts.entry((message.communicator, stream)).or_default().push(message.part);
        }
        for ((of, stream), parts) in parts {
            let link = communicator(object(of))?.link;
            let work = if is_send { Work::Send { link, parts } } else { Work::Receive { link, parts } };
            state.submit(stream, work)?;
        }
    }
    Ok(())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ncclSend(
    from: *const c_void,
    count: usize,
    kind: c_int,
    peer: c_int,
    of: Object,
    stream: Object,
) -> Code {
    message("ncclSend", true, (from.addr() as u64, count, kind), peer, of, stream)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ncclRecv(
    to: *mut c_void,
    count: usize,
    kind: c_int,
    peer: c_int,
    of: Object,
    stream: Object,
) -> Code {
    message("ncclRecv", false, (to.addr() as u64, count, kind), peer, of, stream)
}

/// Adds a message to the group, in which all have to be here: alone, ranks that send to each other wait forever on GPUs.
fn message(
    name: &'static str,
    is_send: bool,
    (address, count, kind): (u64, usize, c_int),
    peer: c_int,
    of: Object,
    stream: Object,
) -> Code {
    code_of(with_state(name, |state| {
        let communicator = communicator(of)?;
        if state.stream_device(state.stream(stream)?)? != communicator.device {
            return Err(invalid(format!("{name}: the stream is one of another device")));
        }
        let bytes = (count as u64).checked_mul(width(kind)?).ok_or(Status::ERROR_INVALID_VALUE)?;
        state.check(communicator.device, address, bytes)?;
        let peer = usize::try_from(peer).ok().filter(|peer| communicator.link.has(*peer));
        let peer = peer.ok_or_else(|| invalid(format!("{name}: there is no other rank of that number")))?;
        let part = Part { peer, address, bytes };
        GROUP.with_borrow_mut(|group| match group {
            Some(messages) => {
                messages.push(Message { communicator: handle(of), stream, is_send, part });
                Ok(())
            }
            None => Err(invalid(format!("{name}: expected a call in a group"))),
        })
    }))
}

/// The bytes of an element of `ncclDataType_t`.
fn width(kind: c_int) -> Answer<u64> {
    match kind {
        0 | 1 | 10 | 11 => Ok(1),
        6 | 9 => Ok(2),
        2 | 3 | 7 => Ok(4),
        4 | 5 | 8 => Ok(8),
        _ => Err(Status::ERROR_INVALID_VALUE),
    }
}
