//! The library of MPI, opened at run time by the standard ABI of MPI 5: the functions that the engine calls, as safe functions.
//!
//! Only the thread that has initialized MPI calls them (`MPI_THREAD_FUNNELED`).

#![expect(unsafe_code, reason = "calls a C library, which reads and writes buffers later")]

use flambeau_core::{Result, bail, ensure, error, fallible};
use libloading::Library;
use std::ffi::{c_char, c_int, c_void};
use std::marker::PhantomData;

/// Handles of the ABI are pointers to nothing, and predefined ones are small numbers.
type Handle = usize;

const COMM_WORLD: Handle = 0x101;
const ERRORS_RETURN: Handle = 0x143;
const BYTE: Handle = 0x247;
const SUCCESS: c_int = 0;
const ANY_SOURCE: c_int = -1;
const THREAD_FUNNELED: c_int = 1024;
const MAX_ERROR_STRING: usize = 512;

/// `MPI_Status` of the ABI.
#[repr(C)]
#[derive(Default)]
struct Status {
    source: c_int,
    tag: c_int,
    error: c_int,
    internal: [c_int; 5],
}

const _: () = assert!(size_of::<Status>() == 32);

/// The names of the library, the newest first.
const NAMES: [&str; 2] = ["libmpi_abi.so.1", "libmpi_abi.so"];
/// The variable with the path of the library.
const PATH: &str = "FLAMBEAU_MPI_LIBRARY";

/// The tag of all messages, in a communicator of their own.
const TAG: c_int = 1;

/// Declares the functions that are looked up when the library is opened.
macro_rules! functions {
    ($($field:ident $name:literal ($($argument:ty),*);)*) => {
        struct Functions { $($field: unsafe extern "C" fn($($argument),*) -> c_int,)* }

        impl Functions {
            fn find(library: &Library) -> Result<Functions> {
                Ok(Functions { $($field: {
                    // SAFETY: a function of this name has this type in every library of the ABI.
                    let found = unsafe { library.get($name) };
                    *found.map_err(|e| error!(Io, "the library of MPI has no standard ABI: {e}"))?
                },)* })
            }
        }
    };
}

functions! {
    init_thread c"MPI_Init_thread" (*mut c_int, *mut c_void, c_int, *mut c_int);
    initialized c"MPI_Initialized" (*mut c_int);
    finalize c"MPI_Finalize" ();
    set_errhandler c"MPI_Comm_set_errhandler" (Handle, Handle);
    duplicate c"MPI_Comm_dup" (Handle, *mut Handle);
    rank c"MPI_Comm_rank" (Handle, *mut c_int);
    size c"MPI_Comm_size" (Handle, *mut c_int);
    broadcast c"MPI_Bcast" (*mut c_void, c_int, Handle, c_int, Handle);
    isend c"MPI_Isend_c" (*const c_void, i64, Handle, c_int, c_int, Handle, *mut Handle);
    improbe c"MPI_Improbe" (c_int, c_int, Handle, *mut c_int, *mut Handle, *mut Status);
    imrecv c"MPI_Imrecv_c" (*mut c_void, i64, Handle, *mut Handle, *mut Handle);
    get_count c"MPI_Get_count_c" (*const Status, Handle, *mut i64);
    test c"MPI_Test" (*mut Handle, *mut c_int, *mut Status);
    error_string c"MPI_Error_string" (c_int, *mut c_char, *mut c_int);
}

/// MPI while it is initialized, in a communicator of this crate. It stays on its thread.
pub(super) struct Mpi {
    functions: Functions,
    communicator: Handle,
    pub(super) rank: usize,
    pub(super) size: usize,
    on_one_thread: PhantomData<*const ()>,
}

/// A message that is being sent or received. Its buffer belongs to MPI until [`Mpi::is_complete`] has said so.
pub(super) struct InFlight {
    /// The rank that it goes to or comes from.
    pub(super) peer: usize,
    buffer: Vec<u8>,
    request: Handle,
    completed: bool,
}

impl InFlight {
    /// The bytes; empty while MPI may still write them.
    pub(super) fn bytes(&self) -> &[u8] {
        if self.completed { &self.buffer } else { &[] }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        if !self.completed {
            // MPI may still read or write it.
            std::mem::forget(std::mem::take(&mut self.buffer));
        }
    }
}

fn open() -> Result<Library> {
    let path = std::env::var(PATH).ok();
    let names: Vec<&str> = path.as_deref().map_or(NAMES.to_vec(), |path| vec![path]);
    let mut reasons = Vec::new();
    for name in names {
        // SAFETY: the user trusts the initialisers of their library of MPI.
        match unsafe { Library::new(name) } {
            Ok(library) => return Ok(library),
            Err(e) => reasons.push(e.to_string()),
        }
    }
    bail!(
        Io("init_process_group", "backend"),
        "expected a library of MPI with the standard ABI of MPI 5, in the search path of libraries or in {PATH}, but found none: {}",
        reasons.join("; ")
    )
}

impl Mpi {
    /// Opens the library and initializes it.
    ///
    /// # Errors
    /// `Io` where there is no library with the ABI, or where it reports an error.
    pub(super) fn start() -> Result<Mpi> {
        let library = open()?;
        let functions = Functions::find(&library)?;
        // It stays open until the process ends, since MPI has threads and handlers of its own.
        std::mem::forget(library);
        let mut mpi =
            Mpi { functions, communicator: COMM_WORLD, rank: 0, size: 0, on_one_thread: PhantomData };
        mpi.initialize()?;
        Ok(mpi)
    }

    /// Whether there is a library with all functions. It stays open, as [`start`](Self::start) leaves it.
    pub(super) fn is_available() -> bool {
        let found = open().and_then(|library| {
            let functions = Functions::find(&library);
            std::mem::forget(library);
            functions
        });
        found.is_ok()
    }

    fn initialize(&mut self) -> Result<()> {
        let f = &self.functions;
        let (mut started, mut provided) = (0, 0);
        // SAFETY: the addresses are those of locals.
        self.check("MPI_Initialized", unsafe { (f.initialized)(&raw mut started) })?;
        ensure!(
            started == 0,
            InvalidArgument("init_process_group", "backend"),
            "expected a process that has not initialized MPI, since one thread makes all calls of it"
        );
        let none = std::ptr::null_mut();
        // SAFETY: MPI takes null for arguments that are not given, and the address is that of a local.
        let code = unsafe { (f.init_thread)(none, none.cast(), THREAD_FUNNELED, &raw mut provided) };
        self.check("MPI_Init_thread", code)?;
        ensure!(
            provided >= THREAD_FUNNELED,
            Io,
            "the library of MPI must support programs with threads, of which one calls it"
        );
        // SAFETY: predefined handles.
        self.check("MPI_Comm_set_errhandler", unsafe { (f.set_errhandler)(COMM_WORLD, ERRORS_RETURN) })?;
        let mut own = 0;
        // SAFETY: a predefined handle, and the address of a local.
        self.check("MPI_Comm_dup", unsafe { (f.duplicate)(COMM_WORLD, &raw mut own) })?;
        let (mut rank, mut size) = (0, 0);
        // SAFETY: a communicator that MPI has returned, and addresses of locals.
        self.check("MPI_Comm_rank", unsafe { (f.rank)(own, &raw mut rank) })?;
        // SAFETY: as above.
        self.check("MPI_Comm_size", unsafe { (f.size)(own, &raw mut size) })?;
        self.communicator = own;
        (self.rank, self.size) = (rank as usize, size as usize);
        Ok(())
    }

    fn check(&self, name: &str, code: c_int) -> Result<()> {
        if code == SUCCESS {
            return Ok(());
        }
        let (mut text, mut length) = ([0u8; MAX_ERROR_STRING], 0);
        // SAFETY: the buffer has the length that the ABI says is the longest.
        unsafe { (self.functions.error_string)(code, text.as_mut_ptr().cast(), &raw mut length) };
        let length = usize::try_from(length).unwrap_or(0).min(MAX_ERROR_STRING);
        bail!(Io, "{name}: {}", String::from_utf8_lossy(&text[..length]))
    }

    /// The bytes of rank 0 on every rank.
    ///
    /// # Errors
    /// `Io` with MPI's text.
    pub(super) fn broadcast<const N: usize>(&self, mut bytes: [u8; N]) -> Result<[u8; N]> {
        let address = bytes.as_mut_ptr().cast();
        // SAFETY: N bytes are readable and writable, and the call returns when they are complete.
        let code = unsafe { (self.functions.broadcast)(address, N as c_int, BYTE, 0, self.communicator) };
        self.check("MPI_Bcast", code)?;
        Ok(bytes)
    }

    /// Starts to send bytes.
    ///
    /// # Errors
    /// `Io` with MPI's text.
    pub(super) fn send(&self, peer: usize, buffer: Vec<u8>) -> Result<InFlight> {
        let mut sent = InFlight { peer, buffer, request: 0, completed: false };
        let (address, count) = (sent.buffer.as_ptr().cast(), sent.buffer.len() as i64);
        let request = &raw mut sent.request;
        // SAFETY: the buffer stays allocated and is not written until the request has completed.
        let code = unsafe {
            (self.functions.isend)(address, count, BYTE, peer as c_int, TAG, self.communicator, request)
        };
        self.check("MPI_Isend_c", code)?;
        Ok(sent)
    }

    /// Starts to receive the next message, if one has arrived.
    ///
    /// # Errors
    /// `Io` with MPI's text, `OutOfMemory`.
    pub(super) fn receive(&self) -> Result<Option<InFlight>> {
        let (mut found, mut message, mut status) = (0, 0, Status::default());
        // SAFETY: addresses of locals.
        let code = unsafe {
            (self.functions.improbe)(
                ANY_SOURCE,
                TAG,
                self.communicator,
                &raw mut found,
                &raw mut message,
                &raw mut status,
            )
        };
        self.check("MPI_Improbe", code)?;
        if found == 0 {
            return Ok(None);
        }
        let mut count = 0i64;
        // SAFETY: a status that MPI has written, and the address of a local.
        let code = unsafe { (self.functions.get_count)(&raw const status, BYTE, &raw mut count) };
        self.check("MPI_Get_count_c", code)?;
        let buffer = fallible::filled(0u8, usize::try_from(count).unwrap_or(0))?;
        let peer = usize::try_from(status.source).unwrap_or(0);
        let mut received = InFlight { peer, buffer, request: 0, completed: false };
        let (address, request) = (received.buffer.as_mut_ptr().cast(), &raw mut received.request);
        // SAFETY: the buffer has as many bytes, and stays allocated and untouched until the request has completed.
        let code = unsafe { (self.functions.imrecv)(address, count, BYTE, &raw mut message, request) };
        self.check("MPI_Imrecv_c", code)?;
        Ok(Some(received))
    }

    /// Whether a message has been sent or received completely.
    ///
    /// # Errors
    /// `Io` with MPI's text.
    pub(super) fn is_complete(&self, message: &mut InFlight) -> Result<bool> {
        if message.completed {
            return Ok(true);
        }
        let (mut done, mut status) = (0, Status::default());
        let request = &raw mut message.request;
        // SAFETY: a request that MPI has returned, and addresses of locals.
        let code = unsafe { (self.functions.test)(request, &raw mut done, &raw mut status) };
        self.check("MPI_Test", code)?;
        message.completed = done != 0;
        Ok(message.completed)
    }

    /// Ends MPI in this process; it waits until the other ranks do the same.
    ///
    /// # Errors
    /// `Io` with MPI's text.
    pub(super) fn finish(self) -> Result<()> {
        // SAFETY: it was initialized by this thread.
        self.check("MPI_Finalize", unsafe { (self.functions.finalize)() })
    }
}
