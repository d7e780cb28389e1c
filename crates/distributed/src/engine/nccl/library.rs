//! The library of NCCL, opened at run time: the functions that the engine calls, as safe functions.
//!
//! The types are written here and not those of `cudarc`: an enumeration that a function returns has no value for a code of a newer version.

#![expect(unsafe_code, reason = "calls a C library, which reads and writes the memory of devices later")]

use crate::transport::{Communicator, Message};
use flambeau_core::{Result, bail, ensure, error};
use flambeau_cuda::{Event, Stream, hand_over, record_stream};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::PathBuf;
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

/// How long the thread sleeps while the device is busy: at first, and at most. Each time is twice the one before.
const SHORTEST: Duration = Duration::from_micros(10);
const LONGEST: Duration = Duration::from_micros(500);

/// How long a rank that the library tells of an error waits for the other rank to say which it was.
const PATIENCE: Duration = Duration::from_secs(5);

/// The name of the library, and the variable with its path.
const FILE: &str = "libnccl.so.2";
const PATH: &str = "FLAMBEAU_NCCL_LIBRARY";

/// `ncclComm_t`, a stream of the driver, and bytes of an identity.
type Handle = *mut c_void;
type CudaStream = *mut c_void;
pub(super) type Identity = [u8; 128];

/// `ncclUniqueId`, which is passed as a value.
#[repr(C)]
#[derive(Clone, Copy)]
struct UniqueId(Identity);

/// Codes of `ncclResult_t`, and `ncclUint8` of `ncclDataType_t`: all elements are moved as bytes.
const SUCCESS: c_int = 0;
const IN_PROGRESS: c_int = 7;
const BYTE: c_int = 1;

/// Declares the functions that are looked up when the library is opened.
macro_rules! functions {
    ($($field:ident $name:literal ($($argument:ty),*);)*) => {
        struct Functions {
            $($field: unsafe extern "C" fn($($argument),*) -> c_int,)*
            error_string: unsafe extern "C" fn(c_int) -> *const c_char,
        }

        impl Functions {
            fn find(library: &libloading::Library) -> Result<Functions> {
                fn one<F: Copy>(library: &libloading::Library, name: &CStr) -> Result<F> {
                    // SAFETY: a function of this name has the type of its field in every version 2 of the library.
                    let found = unsafe { library.get::<F>(name) };
                    let name = name.to_string_lossy();
                    Ok(*found.map_err(|_| error!(Io, "the library of NCCL is too old: it has no function {name}"))?)
                }
                Ok(Functions {
                    $($field: one(library, $name)?,)*
                    error_string: one(library, c"ncclGetErrorString")?,
                })
            }
        }
    };
}

functions! {
    get_unique_id c"ncclGetUniqueId" (*mut UniqueId);
    init_rank c"ncclCommInitRank" (*mut Handle, c_int, UniqueId, c_int);
    destroy c"ncclCommDestroy" (Handle);
    abort c"ncclCommAbort" (Handle);
    async_error c"ncclCommGetAsyncError" (Handle, *mut c_int);
    group_start c"ncclGroupStart" ();
    group_end c"ncclGroupEnd" ();
    send c"ncclSend" (*const c_void, usize, c_int, c_int, Handle, CudaStream);
    receive c"ncclRecv" (*mut c_void, usize, c_int, c_int, Handle, CudaStream);
}

/// The library, which stays open until the process ends.
pub(super) struct Library {
    functions: Functions,
}

/// Where the library is looked for: what the variable names, or the search path and then the packages of Python.
fn candidates() -> Vec<PathBuf> {
    if let Some(path) = std::env::var_os(PATH) {
        return vec![path.into()];
    }
    let packages = flambeau_cuda::python_packages();
    let of_package = packages.iter().map(|packages| packages.join("nvidia/nccl/lib").join(FILE));
    std::iter::once(FILE.into()).chain(of_package).collect()
}

/// The library, opened by the first call that finds it.
///
/// # Errors
/// `Io` naming where it was looked for.
pub(super) fn open() -> Result<&'static Library> {
    static LIBRARY: OnceLock<Library> = OnceLock::new();
    if let Some(library) = LIBRARY.get() {
        return Ok(library);
    }
    let mut reasons = Vec::new();
    for path in candidates() {
        // SAFETY: the user trusts the initialisers of their library of NCCL.
        match unsafe { libloading::Library::new(&path) } {
            Ok(library) => {
                let functions = Functions::find(&library)?;
                // It has threads of its own.
                std::mem::forget(library);
                return Ok(LIBRARY.get_or_init(|| Library { functions }));
            }
            Err(e) => {
                let cause =
                    std::error::Error::source(&e).map_or_else(String::new, |cause| format!(": {cause}"));
                reasons.push(format!("{}: {e}{cause}", path.display()));
            }
        }
    }
    bail!(
        Io("init_process_group", "backend"),
        "expected the library of NCCL, {FILE}, in the search path of libraries, in the package nvidia-nccl of the active environment of \
         Python, or in {PATH}, but found none: {}",
        reasons.join("; ")
    )
}

impl Library {
    fn check(&self, name: &str, code: c_int) -> Result<()> {
        if code == SUCCESS {
            return Ok(());
        }
        // SAFETY: the function returns a static text for every number, or null.
        let text = unsafe { (self.functions.error_string)(code) };
        // SAFETY: as above.
        let text = if text.is_null() { c"unknown error" } else { unsafe { CStr::from_ptr(text) } };
        bail!(Io, "{name} failed: {} ({code})", text.to_string_lossy())
    }

    /// An identity, which one rank makes for a communicator.
    ///
    /// # Errors
    /// What the library reports.
    pub(super) fn unique_id(&self) -> Result<Identity> {
        let mut id = UniqueId([0; 128]);
        // SAFETY: the address is that of a local.
        self.check("ncclGetUniqueId", unsafe { (self.functions.get_unique_id)(&raw mut id) })?;
        Ok(id.0)
    }

    /// Joins the ranks that have the same identity, with the device that is current, that of the stream. It waits for all of them.
    ///
    /// # Errors
    /// What the library reports.
    pub(super) fn join(&'static self, id: &[u8], rank: usize, size: usize, stream: Stream) -> Result<Joined> {
        let Ok(id) = Identity::try_from(id) else {
            bail!(Io, "the first rank made no identity of NCCL: {}", String::from_utf8_lossy(id))
        };
        let mut handle = std::ptr::null_mut();
        // SAFETY: the address is that of a local.
        let code = unsafe {
            (self.functions.init_rank)(&raw mut handle, size as c_int, UniqueId(id), rank as c_int)
        };
        self.check("ncclCommInitRank", code)?;
        Ok(Joined { library: self, handle, stream, is_aborted: false })
    }
}

/// The ranks that have joined.
pub(super) struct Joined {
    library: &'static Library,
    handle: Handle,
    /// The stream in which all messages are.
    stream: Stream,
    is_aborted: bool,
}

// SAFETY: the library allows calls of any thread, one at a time.
unsafe impl Send for Joined {}

impl Joined {
    /// Puts all messages into the stream, as one group.
    ///
    /// # Safety
    /// - (live) The tensors are contiguous, on the device of the stream, and live until its work is done or the communicator aborted.
    unsafe fn start(&self, sends: &[Message], receives: &[Message]) -> Result<()> {
        let (f, check) = (&self.library.functions, |name, code| self.library.check(name, code));
        // What comes after waits for the messages, and they for what came before.
        let _current = self.stream.enter()?;
        sends.iter().try_for_each(|(_, tensor)| record_stream(tensor, &self.stream))?;
        receives.iter().try_for_each(|(_, tensor)| hand_over(tensor, None))?;
        let stream: CudaStream = std::ptr::with_exposed_provenance_mut(self.stream.address()?);
        // SAFETY: the function has no conditions.
        check("ncclGroupStart", unsafe { (f.group_start)() })?;
        let mut outcome = Ok(());
        for (to, tensor) in sends {
            // SAFETY: (live); the handle is that of ranks that have joined.
            let code = unsafe {
                (f.send)(tensor.data_ptr().cast(), tensor.nbytes(), BYTE, *to as c_int, self.handle, stream)
            };
            outcome = outcome.and_then(|()| check("ncclSend", code));
        }
        for (from, tensor) in receives {
            // SAFETY: as above.
            let code = unsafe {
                (f.receive)(
                    tensor.data_ptr().cast(),
                    tensor.nbytes(),
                    BYTE,
                    *from as c_int,
                    self.handle,
                    stream,
                )
            };
            outcome = outcome.and_then(|()| check("ncclRecv", code));
        }
        // A group is ended also after an error in it.
        // SAFETY: the function has no conditions.
        let ended = check("ncclGroupEnd", unsafe { (f.group_end)() });
        outcome.and(ended)
    }

    /// Waits until the stream's work is done.
    fn wait(&self, check: &dyn Fn() -> Result<()>) -> Result<()> {
        let done = Event::new(false);
        done.record(&self.stream)?;
        let mut pause = SHORTEST;
        while !done.query()? {
            let mut code = SUCCESS;
            // SAFETY: the handle is that of ranks that have joined, and the address that of a local.
            let status = unsafe { (self.library.functions.async_error)(self.handle, &raw mut code) };
            self.library.check("ncclCommGetAsyncError", status)?;
            check()?;
            if code != IN_PROGRESS
                && let Err(e) = self.library.check("a message by NCCL", code)
            {
                let end = Instant::now() + PATIENCE;
                while Instant::now() < end {
                    check()?;
                    thread::sleep(LONGEST);
                }
                return Err(e);
            }
            thread::sleep(pause);
            pause = (pause * 2).min(LONGEST);
        }
        Ok(())
    }

    fn abort(&mut self) {
        if !std::mem::replace(&mut self.is_aborted, true) {
            // SAFETY: the handle is that of ranks that have joined, and is not used after this. A failure is of no use to anyone.
            let _ = unsafe { (self.library.functions.abort)(self.handle) };
        }
    }
}

impl Communicator for Joined {
    fn exchange(
        &mut self,
        sends: &[Message],
        receives: &[Message],
        check: &dyn Fn() -> Result<()>,
    ) -> Result<()> {
        ensure!(!self.is_aborted, Io, "the communicator of NCCL was aborted after an error");
        let fits = |(_, tensor): &Message| {
            tensor.is_contiguous() && tensor.device().index() == Some(self.stream.device())
        };
        ensure!(
            sends.iter().chain(receives).all(fits),
            Internal,
            "expected contiguous tensors on cuda:{}",
            self.stream.device()
        );
        // SAFETY: (live) checked above; this call borrows the tensors, and ends when they are in use no more.
        let outcome = unsafe { self.start(sends, receives) }.and_then(|()| self.wait(check));
        if outcome.is_err() {
            self.abort();
        }
        outcome
    }
}

impl Drop for Joined {
    fn drop(&mut self) {
        if !self.is_aborted {
            // SAFETY: the handle is that of ranks that have joined, and is not used after this; nobody waits for a failure.
            let _ = unsafe { (self.library.functions.destroy)(self.handle) };
        }
    }
}
