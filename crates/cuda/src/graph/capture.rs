//! What a thread captures: a stream of its own, the memory that the work uses, and the calls that are refused meanwhile.
#![expect(unsafe_code, reason = "calls the driver")]

use super::pool::PoolGuard;
use super::{Captured, Executable, Pool, Shared, State};
use crate::blas::{SharedSession, WORKSPACE, is_open};
use crate::driver::{
    CUgraph, CUstream, CUstreamCaptureMode, cuGraphDestroy, cuGraphInstantiateWithFlags,
    cuStreamBeginCapture_v2, cuStreamCreate, cuStreamDestroy_v2, cuStreamEndCapture,
};
use crate::gpu::{Gpu, NON_BLOCKING};
use flambeau_core::{Access, DataPtr, Result, Storage, bail, ensure};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

/// Calls that may wait, such as those that allocate or load programs, are permitted meanwhile, in this thread and in others: what would wait
/// for the captured work itself is refused here.
const MODE: CUstreamCaptureMode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;

/// How many threads capture: while it is 0, nothing else is looked at.
static CAPTURES: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// What this thread captures.
    static CAPTURE: RefCell<Option<Capture>> = const { RefCell::new(None) };
}

/// Memory that is not of the pool, by address, and how it is used.
pub(super) type Uses = BTreeMap<u64, (Storage, Access)>;

/// A capture. The fields are dropped in this order, which frees all of one that is given up.
pub(super) struct Capture {
    stream: CaptureStream,
    session: Option<CaptureSession>,
    uses: Uses,
    workspace: Option<DataPtr>,
    pool: PoolGuard,
    graph: GraphMark,
    _count: Count,
}

/// Its part of [`CAPTURES`].
struct Count;

impl Drop for Count {
    fn drop(&mut self) {
        CAPTURES.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The graph that the work is for. One that is given up is empty again.
struct GraphMark(Weak<Shared>);

impl GraphMark {
    fn is_of(&self, graph: &Arc<Shared>) -> bool {
        ptr::eq(self.0.as_ptr(), Arc::as_ptr(graph))
    }
}

impl Drop for GraphMark {
    fn drop(&mut self) {
        let Some(graph) = self.0.upgrade() else { return };
        let mut state = graph.state();
        if matches!(*state, State::Capturing) {
            *state = State::Empty;
        }
    }
}

/// A stream that captures.
struct CaptureStream {
    gpu: &'static Gpu,
    handle: CUstream,
    is_capturing: bool,
}

/// A handle of cuBLAS for the stream.
struct CaptureSession {
    gpu: &'static Gpu,
    session: SharedSession,
}

impl Drop for CaptureSession {
    fn drop(&mut self) {
        self.gpu.close_capture(Arc::clone(&self.session));
    }
}

/// A graph of the driver, from which one that can be launched is made.
struct DriverGraph {
    gpu: &'static Gpu,
    handle: CUgraph,
}

impl Drop for DriverGraph {
    fn drop(&mut self) {
        if !self.handle.is_null() && self.gpu.activate().is_ok() {
            // SAFETY: the graph exists, and nobody has its handle after this.
            let _ = unsafe { cuGraphDestroy(self.handle) };
        }
    }
}

impl CaptureStream {
    fn new(gpu: &'static Gpu) -> Result<Self> {
        gpu.activate()?;
        let mut handle = ptr::null_mut();
        // SAFETY: the function writes a handle.
        gpu.driver.check(unsafe { cuStreamCreate(&raw mut handle, NON_BLOCKING) }, "cuStreamCreate")?;
        Ok(CaptureStream { gpu, handle, is_capturing: false })
    }

    fn begin(&mut self) -> Result<()> {
        self.gpu.activate()?;
        // SAFETY: the stream exists.
        let status = unsafe { cuStreamBeginCapture_v2(self.handle, MODE) };
        self.gpu.driver.check(status, "cuStreamBeginCapture")?;
        self.is_capturing = true;
        Ok(())
    }

    fn end(&mut self) -> Result<DriverGraph> {
        self.gpu.activate()?;
        let mut graph = DriverGraph { gpu: self.gpu, handle: ptr::null_mut() };
        // SAFETY: the stream exists, and the function writes a handle.
        let status = unsafe { cuStreamEndCapture(self.handle, &raw mut graph.handle) };
        self.gpu.driver.check(status, "cuStreamEndCapture")?;
        self.is_capturing = false;
        ensure!(!graph.handle.is_null(), Device, "cuda: cuStreamEndCapture gave no graph");
        Ok(graph)
    }
}

impl Drop for CaptureStream {
    fn drop(&mut self) {
        if self.is_capturing {
            // The graph of work that is given up.
            drop(self.end());
        }
        if self.gpu.activate().is_ok() {
            // SAFETY: the stream exists, and nobody has its handle after this.
            let _ = unsafe { cuStreamDestroy_v2(self.handle) };
        }
    }
}

impl DriverGraph {
    fn instantiate(&self) -> Result<Executable> {
        self.gpu.activate()?;
        let mut handle = ptr::null_mut();
        // SAFETY: the graph exists, and the function writes a handle.
        let status = unsafe { cuGraphInstantiateWithFlags(&raw mut handle, self.handle, 0) };
        self.gpu.driver.check(status, "cuGraphInstantiateWithFlags")?;
        Ok(Executable { gpu: self.gpu, handle })
    }
}

impl Capture {
    /// Has this thread capture from now on.
    ///
    /// # Errors
    /// `InvalidArgument` where it does already, or somebody captures into the pool; `OutOfMemory` and `Device` for what the driver reports.
    pub(super) fn begin(gpu: &'static Gpu, pool: Arc<Pool>, graph: &Arc<Shared>) -> Result<()> {
        let is_busy = CAPTURE.with_borrow(Option::is_some) && !abandon_if_orphaned();
        ensure!(!is_busy, InvalidArgument, "expected a thread that captures no graph, but this one does");
        let pool = pool.begin(gpu)?;
        let stream = CaptureStream::new(gpu)?;
        let mut workspace = None;
        let mut session = None;
        if is_open() {
            let memory = pool.0.allocate(WORKSPACE)?;
            session = gpu.open_for_capture(stream.handle, memory.as_ptr().addr() as u64);
            workspace = Some(memory);
        }
        let session = session.map(|session| CaptureSession { gpu, session });
        CAPTURES.fetch_add(1, Ordering::Relaxed);
        let (graph, _count) = (GraphMark(Arc::downgrade(graph)), Count);
        let mut capture = Capture { stream, session, uses: Uses::new(), workspace, pool, graph, _count };
        if let Err(error) = capture.stream.begin() {
            // The caller has the lock of the graph's state.
            capture.graph.0 = Weak::new();
            return Err(error);
        }
        CAPTURE.set(Some(capture));
        Ok(())
    }

    /// What can be launched.
    ///
    /// # Errors
    /// `Device` for what the driver reports; then all is freed.
    pub(super) fn finish(self) -> Result<Captured> {
        let Capture { mut stream, session, uses, workspace, pool, .. } = self;
        let graph = stream.end()?;
        let executable = graph.instantiate()?;
        drop((graph, stream, session));
        Ok(Captured { executable, uses, _workspace: workspace, pool: Arc::clone(&pool.0) })
    }
}

/// Takes the capture of a graph from this thread, if it captures that.
pub(super) fn take(graph: &Arc<Shared>) -> Option<Capture> {
    let taken = CAPTURE.try_with(|capture| {
        let mut capture = capture.borrow_mut();
        capture.take_if(|capture| capture.graph.is_of(graph))
    });
    taken.ok().flatten()
}

/// Gives up the capture of this thread if nobody has its graph any more; returns whether that was so.
fn abandon_if_orphaned() -> bool {
    let taken = CAPTURE
        .try_with(|capture| capture.borrow_mut().take_if(|capture| capture.graph.0.strong_count() == 0));
    taken.ok().flatten().is_some()
}

/// Calls `body` with what this thread captures on a device.
fn with_capture<R>(device: usize, body: impl FnOnce(&mut Capture) -> R) -> Option<R> {
    if CAPTURES.load(Ordering::Relaxed) == 0 {
        return None;
    }
    abandon_if_orphaned();
    let found = CAPTURE.try_with(|capture| {
        let mut capture = capture.borrow_mut();
        capture.as_mut().filter(|capture| capture.stream.gpu.index == device).map(body)
    });
    found.ok().flatten()
}

/// Whether this thread captures on a device.
pub(crate) fn is_captured(device: usize) -> bool {
    with_capture(device, |_| ()).is_some()
}

/// The stream into which this thread's work on a device goes, if it captures.
pub(crate) fn captured_stream(device: usize) -> Option<CUstream> {
    with_capture(device, |capture| capture.stream.handle)
}

/// The memory from which this thread's allocations on a device come, if it captures.
pub(crate) fn captured_pool(device: usize) -> Option<Arc<Pool>> {
    with_capture(device, |capture| Arc::clone(&capture.pool.0))
}

/// The session of cuBLAS for what this thread captures on a device: `None` where it does not capture, `Some(None)` where there is none.
pub(crate) fn captured_session(device: usize) -> Option<Option<SharedSession>> {
    with_capture(device, |capture| capture.session.as_ref().map(|of| Arc::clone(&of.session)))
}

/// Has a graph that this thread captures keep a storage, and notes how it is used; returns whether it captures.
pub(crate) fn note_use(device: usize, storage: &Storage, access: Access) -> bool {
    let noted = with_capture(device, |capture| {
        let address = storage.data_ptr().addr() as u64;
        if storage.nbytes() > 0 && !capture.pool.0.contains(address) {
            let (_, known) = capture.uses.entry(address).or_insert_with(|| (storage.clone(), access));
            if access == Access::Write {
                *known = access;
            }
        }
    });
    noted.is_some()
}

/// Refuses what cannot be captured.
///
/// # Errors
/// `Device` where this thread captures on the device.
pub(crate) fn refuse(device: usize, what: &str) -> Result<()> {
    if is_captured(device) {
        bail!(Device, "cuda: {what} is not permitted while a graph is captured");
    }
    Ok(())
}

/// The same of what concerns all devices.
///
/// # Errors
/// `Device` where this thread captures.
pub(crate) fn refuse_on_any_device(what: &str) -> Result<()> {
    if CAPTURES.load(Ordering::Relaxed) == 0 {
        return Ok(());
    }
    let device = CAPTURE.try_with(|capture| capture.borrow().as_ref().map(|of| of.stream.gpu.index));
    device.ok().flatten().map_or(Ok(()), |device| refuse(device, what))
}
