//! Streams and events. Work in one stream is in the order of the calls; that of several can overlap, but uses of the same memory keep the
//! order of the calls, by `order`.
#![expect(unsafe_code, reason = "calls the driver")]

use crate::driver::{
    CUevent, CUevent_flags, CUresult, CUstream, cuEventCreate, cuEventDestroy_v2, cuEventQuery,
    cuEventRecord, cuEventSynchronize, cuStreamCreate, cuStreamQuery, cuStreamSynchronize, cuStreamWaitEvent,
    elapsed_milliseconds,
};
use crate::gpu::{Gpu, NON_BLOCKING, current_index, devices};
use crate::graph;
use crate::launch::gpu_of;
use crate::order::{Order, StreamNumber, Waits};
use flambeau_core::{Access, Result, Storage, bail, ensure, error};
use flambeau_ops::Tensor;
use std::cell::RefCell;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// A device has at most so many streams beside its default one; then they are given out again.
const POOL: usize = 32;

/// Set by the first stream beside the default ones, from which on uses of memory are noted.
static SEVERAL: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// The streams that this thread uses where it is not the default one, by device.
    static CURRENT: RefCell<Vec<(usize, StreamNumber, CUstream)>> = const { RefCell::new(Vec::new()) };
}

/// The streams of a device beside its default one, and the order of uses of memory.
#[derive(Default)]
pub(crate) struct Streams {
    pool: Mutex<Pool>,
    order: Mutex<Order>,
}

#[derive(Default)]
struct Pool {
    handles: Vec<CUstream>,
    next: usize,
}

// SAFETY: the driver's handles may be used by any thread.
unsafe impl Send for Pool {}

/// A queue of work of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Stream {
    device: usize,
    number: StreamNumber,
}

/// Makes a stream current until it is dropped.
#[derive(Debug)]
pub struct StreamGuard {
    before: Stream,
}

impl Drop for StreamGuard {
    fn drop(&mut self) {
        // The stream before was current, so it exists.
        let _ = self.before.set_current();
    }
}

impl Stream {
    /// One of the streams of a device beside its default one. There are 32, which are given out one after the other.
    ///
    /// # Errors
    /// `Device` where there is no such device, or it has no more streams.
    pub fn new(device: usize) -> Result<Self> {
        let gpu = devices()?.gpu(device)?;
        gpu.activate()?;
        let mut pool = gpu.streams.pool.lock().unwrap_or_else(PoisonError::into_inner);
        let at = pool.next % POOL;
        if at == pool.handles.len() {
            let mut handle = ptr::null_mut();
            // SAFETY: the function writes a handle.
            gpu.driver.check(unsafe { cuStreamCreate(&raw mut handle, NON_BLOCKING) }, "cuStreamCreate")?;
            pool.handles.push(handle);
        }
        pool.next = at + 1;
        SEVERAL.store(true, Ordering::SeqCst);
        Ok(Stream { device, number: at + 1 })
    }

    /// The stream of a device that is used where no other is current.
    pub fn default_of(device: usize) -> Self {
        Stream { device, number: 0 }
    }

    /// The stream that this thread uses on a device.
    pub fn current(device: usize) -> Self {
        Stream { device, number: current_on(device).map_or(0, |(number, _)| number) }
    }

    /// The stream of a number that [`id`](Self::id) gave.
    ///
    /// # Errors
    /// `InvalidArgument` where there is none.
    pub fn from_id(device: usize, id: usize) -> Result<Self> {
        let stream = Stream { device, number: id };
        stream.handle()?;
        Ok(stream)
    }

    /// The device.
    pub fn device(&self) -> usize {
        self.device
    }

    /// Its number on the device: 0 for the default stream.
    pub fn id(&self) -> usize {
        self.number
    }

    /// The driver's handle, as an address, for other libraries.
    ///
    /// # Errors
    /// `Device` where the device cannot be used.
    pub fn address(&self) -> Result<usize> {
        Ok(self.handle()?.1.addr())
    }

    fn handle(&self) -> Result<(&'static Gpu, CUstream)> {
        let gpu = devices()?.gpu(self.device)?;
        gpu.activate()?;
        Ok((gpu, gpu.handle_of(self.number)?))
    }

    /// Has this thread use it on its device.
    ///
    /// # Errors
    /// As for [`address`](Self::address).
    pub fn set_current(&self) -> Result<()> {
        let (_, handle) = self.handle()?;
        CURRENT.with_borrow_mut(|all| {
            all.retain(|(device, ..)| *device != self.device);
            if self.number != 0 {
                all.push((self.device, self.number, handle));
            }
        });
        Ok(())
    }

    /// Has this thread use it on its device until the guard is dropped.
    ///
    /// # Errors
    /// As for [`address`](Self::address).
    pub fn enter(&self) -> Result<StreamGuard> {
        let before = Stream::current(self.device);
        self.set_current()?;
        Ok(StreamGuard { before })
    }

    /// Waits until its work is done.
    ///
    /// # Errors
    /// What the device reports of that work, and `Index` where a kernel found an index out of range.
    pub fn synchronize(&self) -> Result<()> {
        let (gpu, _) = self.handle()?;
        let _guard = self.enter()?;
        gpu.wait()
    }

    /// Whether its work is done.
    ///
    /// # Errors
    /// What the device reports of that work.
    pub fn query(&self) -> Result<bool> {
        graph::refuse(self.device, "a query of a stream")?;
        let (gpu, handle) = self.handle()?;
        // SAFETY: the stream exists.
        is_ready(gpu, unsafe { cuStreamQuery(handle) }, "cuStreamQuery")
    }

    /// Has later work wait for what an event has recorded; for nothing, if it has recorded nothing.
    ///
    /// # Errors
    /// What the driver reports.
    pub fn wait_event(&self, event: &Event) -> Result<()> {
        let Some((_, recorded)) = event.recorded() else { return Ok(()) };
        graph::refuse(self.device, "a wait for an event")?;
        let (gpu, handle) = self.handle()?;
        // SAFETY: stream and event exist.
        gpu.driver.check(unsafe { cuStreamWaitEvent(handle, recorded, 0) }, "cuStreamWaitEvent")
    }

    /// Has later work wait for the work that is in another stream now.
    ///
    /// # Errors
    /// What the driver reports.
    pub fn wait_stream(&self, other: &Stream) -> Result<()> {
        // All that a thread captures is in one order, and a launch of the graph waits for what others do with the same memory.
        if graph::is_captured(self.device) && other.device == self.device {
            return Ok(());
        }
        let event = Event::new(false);
        event.record(other)?;
        self.wait_event(&event)
    }
}

/// Whether a status says that work is done.
fn is_ready(gpu: &Gpu, status: CUresult, function: &str) -> Result<bool> {
    if status == CUresult::CUDA_ERROR_NOT_READY {
        return Ok(false);
    }
    gpu.driver.check(status, function).map(|()| true)
}

/// A point in the work of a stream, with its time or without.
#[derive(Debug)]
pub struct Event {
    has_time: bool,
    /// The device of the first recording, and the driver's handle.
    handle: Mutex<Option<(usize, CUevent)>>,
}

// SAFETY: the driver's handles may be used by any thread.
unsafe impl Send for Event {}
// SAFETY: as above.
unsafe impl Sync for Event {}

impl Event {
    /// An event that has recorded nothing.
    pub fn new(has_time: bool) -> Self {
        Event { has_time, handle: Mutex::new(None) }
    }

    fn recorded(&self) -> Option<(usize, CUevent)> {
        *self.handle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the end of the work that is in a stream now.
    ///
    /// # Errors
    /// `InvalidArgument` where it has recorded a stream of another device, and what the driver reports.
    pub fn record(&self, stream: &Stream) -> Result<()> {
        graph::refuse(stream.device, "a recording of an event")?;
        let (gpu, queue) = stream.handle()?;
        let mut known = self.handle.lock().unwrap_or_else(PoisonError::into_inner);
        let event = match *known {
            Some((device, event)) => {
                ensure!(
                    device == stream.device,
                    InvalidArgument,
                    "expected a stream of cuda:{device}, of which the event has recorded one, but got one of cuda:{}",
                    stream.device
                );
                event
            }
            None => {
                let event = gpu.new_event(self.has_time)?;
                *known = Some((stream.device, event));
                event
            }
        };
        // SAFETY: both exist.
        gpu.driver.check(unsafe { cuEventRecord(event, queue) }, "cuEventRecord")
    }

    /// Whether what it has recorded is done; also if it has recorded nothing.
    ///
    /// # Errors
    /// What the device reports of that work.
    pub fn query(&self) -> Result<bool> {
        let Some((device, event)) = self.recorded() else { return Ok(true) };
        let gpu = devices()?.gpu(device)?;
        gpu.activate()?;
        // SAFETY: the event exists.
        is_ready(gpu, unsafe { cuEventQuery(event) }, "cuEventQuery")
    }

    /// Waits until what it has recorded is done.
    ///
    /// # Errors
    /// What the device reports of that work.
    pub fn synchronize(&self) -> Result<()> {
        let Some((device, event)) = self.recorded() else { return Ok(()) };
        graph::refuse(device, "a wait for an event")?;
        let gpu = devices()?.gpu(device)?;
        gpu.activate()?;
        // SAFETY: the event exists.
        gpu.driver.check(unsafe { cuEventSynchronize(event) }, "cuEventSynchronize")
    }

    /// The milliseconds from this event to a later one. Both have time, and are done.
    ///
    /// # Errors
    /// `InvalidArgument` where one has no time or has recorded nothing, and what the driver reports.
    pub fn elapsed_time(&self, end: &Event) -> Result<f32> {
        let (Some((device, from)), Some((_, to))) = (self.recorded(), end.recorded()) else {
            bail!(InvalidArgument, "Both events must be recorded before calculating elapsed time.")
        };
        ensure!(
            self.has_time && end.has_time,
            InvalidArgument,
            "Both events must be created with argument 'enable_timing=True'."
        );
        let gpu = devices()?.gpu(device)?;
        gpu.activate()?;
        elapsed_milliseconds(gpu.driver, from, to)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        let Some((device, event)) = self.recorded() else { return };
        if let Ok(gpu) = devices().and_then(|devices| devices.gpu(device)) {
            gpu.destroy_event(event);
        }
    }
}

/// Notes that a stream uses a tensor, so that its memory is written and used again only after that. Uses by operators are noted without it.
///
/// # Errors
/// `Device` where the tensor is not on the stream's device, and what the driver reports.
pub fn record_stream(tensor: &Tensor, stream: &Stream) -> Result<()> {
    let gpu = gpu_of(tensor)?;
    ensure!(
        gpu.index == stream.device,
        Device("record_stream", "s"),
        "expected a stream of {} but got one of cuda:{}",
        tensor.device(),
        stream.device
    );
    let _guard = stream.enter()?;
    gpu.order_storage(tensor.storage(), Access::Read)
}

/// Has a stream of another library, which is given by the driver's handle, wait for what this thread's stream does with a tensor, so that
/// the library may use its memory there. Of no stream, the uses in other streams of this library are waited for alone.
///
/// # Errors
/// `Device` where the tensor is on the host, and what the driver reports.
pub fn hand_over(tensor: &Tensor, stream: Option<usize>) -> Result<()> {
    let gpu = gpu_of(tensor)?;
    graph::refuse(gpu.index, "an exchange with another library")
        .map_err(|error| error.in_operator("__dlpack__"))?;
    gpu.order_storage(tensor.storage(), Access::Write)?;
    let Some(address) = stream.filter(|address| *address != gpu.stream().addr()) else { return Ok(()) };
    gpu.activate()?;
    let event = gpu.new_event(false)?;
    let other: CUstream = ptr::with_exposed_provenance_mut(address);
    // SAFETY: the event and this thread's stream exist, and the caller says that the other is a stream.
    let done = unsafe {
        gpu.driver
            .check(cuEventRecord(event, gpu.stream()), "cuEventRecord")
            .and_then(|()| gpu.driver.check(cuStreamWaitEvent(other, event, 0), "cuStreamWaitEvent"))
    };
    gpu.destroy_event(event);
    done
}

fn current_on(device: usize) -> Option<(StreamNumber, CUstream)> {
    if !SEVERAL.load(Ordering::Relaxed) {
        return None;
    }
    CURRENT.with_borrow(|all| {
        all.iter().find(|(of, ..)| *of == device).map(|(_, number, handle)| (*number, *handle))
    })
}

impl Gpu {
    /// The stream that this thread uses.
    pub(crate) fn stream(&self) -> CUstream {
        let current = || current_on(self.index).map_or(self.default_stream, |(_, handle)| handle);
        graph::captured_stream(self.index).unwrap_or_else(current)
    }

    fn handle_of(&self, number: StreamNumber) -> Result<CUstream> {
        let Some(at) = number.checked_sub(1) else { return Ok(self.default_stream) };
        let pool = self.streams.pool.lock().unwrap_or_else(PoisonError::into_inner);
        let handle = pool.handles.get(at).copied();
        handle.ok_or_else(|| error!(InvalidArgument, "cuda:{} has no stream of number {number}", self.index))
    }

    /// All streams of the device.
    fn all_streams(&self) -> Vec<CUstream> {
        let pool = self.streams.pool.lock().unwrap_or_else(PoisonError::into_inner);
        std::iter::once(self.default_stream).chain(pool.handles.iter().copied()).collect()
    }

    /// Waits until the work of all streams is done, and reports an index that a kernel found out of range.
    ///
    /// # Errors
    /// As for [`wait`](Self::wait).
    pub(crate) fn wait_for_all(&self) -> Result<()> {
        graph::refuse(self.index, "a wait for the device")?;
        if SEVERAL.load(Ordering::Relaxed) {
            self.activate()?;
            for stream in self.all_streams() {
                // SAFETY: the stream exists.
                self.driver.check(unsafe { cuStreamSynchronize(stream) }, "cuStreamSynchronize")?;
            }
        }
        self.wait()
    }

    pub(crate) fn new_event(&self, has_time: bool) -> Result<CUevent> {
        let flags = if has_time { 0 } else { CUevent_flags::CU_EVENT_DISABLE_TIMING as u32 };
        let mut event = ptr::null_mut();
        // SAFETY: the function writes a handle.
        self.driver.check(unsafe { cuEventCreate(&raw mut event, flags) }, "cuEventCreate")?;
        Ok(event)
    }

    /// Destroys an event, which the driver does once its work is done. A failure is what the next use of the device reports.
    pub(crate) fn destroy_event(&self, event: CUevent) {
        if self.activate().is_ok() {
            // SAFETY: the event exists, and nobody has its handle after this.
            let _ = unsafe { cuEventDestroy_v2(event) };
        }
    }

    /// Has this thread's stream wait for the work that is in others now. That it waits is noted already, so after a failure the host does.
    fn wait_for(&self, others: &Waits) -> Result<()> {
        let mut done = Ok(());
        for other in others {
            let handle = self.handle_of(*other)?;
            if let Err(error) = self.wait_for_stream(handle) {
                // SAFETY: the stream exists. If this fails too, so does every later use of the device.
                let _ = unsafe { cuStreamSynchronize(handle) };
                done = Err(error);
            }
        }
        done
    }

    fn wait_for_stream(&self, other: CUstream) -> Result<()> {
        let event = self.new_event(false)?;
        // SAFETY: streams and event exist.
        let recorded = self.driver.check(unsafe { cuEventRecord(event, other) }, "cuEventRecord");
        let waits = recorded.and_then(|()| {
            // SAFETY: as above.
            let status = unsafe { cuStreamWaitEvent(self.stream(), event, 0) };
            self.driver.check(status, "cuStreamWaitEvent")
        });
        self.destroy_event(event);
        waits
    }

    /// Has this thread's stream use memory after what others do with it.
    ///
    /// # Errors
    /// What the driver reports.
    pub(crate) fn order(&self, address: u64, bytes: usize, access: Access) -> Result<()> {
        if let Some(pool) = graph::captured_pool(self.index) {
            return pool.ensure_has(address, bytes);
        }
        if !SEVERAL.load(Ordering::Relaxed) || bytes == 0 {
            return Ok(());
        }
        let own = current_on(self.index).map_or(0, |(number, _)| number);
        let mut order = self.streams.order.lock().unwrap_or_else(PoisonError::into_inner);
        let waits = order.access(address, address + bytes as u64, own, access);
        self.activate()?;
        self.wait_for(&waits)
    }

    /// The same for the memory of a storage.
    ///
    /// # Errors
    /// What the driver reports.
    pub(crate) fn order_storage(&self, storage: &Storage, access: Access) -> Result<()> {
        if graph::note_use(self.index, storage, access) {
            return Ok(());
        }
        self.order(storage.data_ptr().addr() as u64, storage.nbytes(), access)
    }

    /// Has this thread's stream use memory that was free after what others did with it.
    ///
    /// # Errors
    /// What the driver reports.
    pub(crate) fn order_allocation(&self, address: u64, bytes: usize) -> Result<()> {
        if !SEVERAL.load(Ordering::Relaxed) || bytes == 0 {
            return Ok(());
        }
        let own = current_on(self.index).map_or(0, |(number, _)| number);
        let mut order = self.streams.order.lock().unwrap_or_else(PoisonError::into_inner);
        let waits = order.allocate(address, address + bytes as u64, own);
        self.activate()?;
        self.wait_for(&waits)
    }
}

/// The stream that this thread uses on its current device.
///
/// # Errors
/// `Device` where there is no driver or no device.
pub fn current_stream() -> Result<Stream> {
    devices().map(|_| Stream::current(current_index()))
}
