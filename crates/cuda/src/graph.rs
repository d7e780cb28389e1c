//! Graphs: work that a thread captures instead of running it, and that is launched many times by one call of the driver.
//!
//! While a thread captures, its work on the device goes into a stream that nobody else has, its allocations come from the memory of the
//! graph, and calls that need a result of the work are errors. A graph keeps all memory that its work uses. A launch comes after what other
//! streams did with that memory before, as a kernel does.
#![expect(unsafe_code, reason = "calls the driver")]

mod capture;
mod pool;

use crate::driver::{CUgraphExec, cuGraphExecDestroy, cuGraphLaunch};
use crate::gpu::{Gpu, current_index, devices};
use capture::{Capture, Uses};
pub(crate) use capture::{
    captured_pool, captured_session, captured_stream, is_captured, note_use, refuse, refuse_on_any_device,
};
use flambeau_core::storage_guards::DeviceGuards;
use flambeau_core::{Access, DataPtr, Result, Storage, bail, ensure};
pub(crate) use pool::Pool;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The memory of a graph, which other graphs may share.
///
/// Of two graphs that share it, one may use memory that the other has freed within its capture. So they are launched in the order of their
/// captures, and never at the same time.
#[derive(Clone)]
pub struct GraphPool(Arc<Pool>);

impl GraphPool {
    /// Memory of which nothing is in use.
    ///
    /// # Errors
    /// `Device` where there is no device of that number.
    pub fn new(device: usize) -> Result<Self> {
        Ok(GraphPool(Pool::new(devices()?.gpu(device)?)))
    }
}

impl fmt::Debug for GraphPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GraphPool").field("device", &self.0.device()).finish()
    }
}

/// Work that was captured, and can be launched many times.
///
/// ```no_run
/// use flambeau_core::Device;
/// use flambeau_cuda::Graph;
/// use flambeau_ops::{Tensor, ops};
/// let x = Tensor::from([1.0f32, 2.0]).to(Device::cuda(0))?;
/// let (graph, y) = Graph::capture(0, || x.add(&x))?;
/// ops::copy_(&x, &Tensor::from([5.0f32, 6.0]), false)?;
/// graph.replay()?;
/// assert_eq!(y.to_vec::<f32>()?, [10.0, 12.0]);
/// # Ok::<(), flambeau_core::Error>(())
/// ```
#[derive(Default)]
pub struct Graph {
    shared: Arc<Shared>,
}

/// What a thread that captures, and all that have the graph, share.
#[derive(Default)]
struct Shared {
    state: Mutex<State>,
}

#[derive(Default)]
enum State {
    #[default]
    Empty,
    Capturing,
    Captured(Captured),
}

/// A graph that can be launched, and what its work uses. The fields are dropped in this order.
struct Captured {
    executable: Executable,
    uses: Uses,
    _workspace: Option<DataPtr>,
    pool: Arc<Pool>,
}

/// A graph of the driver that can be launched.
struct Executable {
    gpu: &'static Gpu,
    handle: CUgraphExec,
}

// SAFETY: the driver's handles may be used by any thread, one at a time.
unsafe impl Send for Executable {}

impl Drop for Executable {
    fn drop(&mut self) {
        // A forked child has no devices.
        if devices().is_ok() && self.gpu.activate().is_ok() {
            // SAFETY: the graph exists, and nobody has its handle after this. If it runs, it runs to its end.
            let _ = unsafe { cuGraphExecDestroy(self.handle) };
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Graph {
    /// A graph without work.
    pub fn new() -> Self {
        Self::default()
    }

    /// The graph of what a function has the device do, and the function's result.
    ///
    /// # Errors
    /// Those of [`capture_begin`](Self::capture_begin), of the function, and of [`capture_end`](Self::capture_end).
    pub fn capture<R>(device: usize, body: impl FnOnce() -> Result<R>) -> Result<(Self, R)> {
        let graph = Graph::new();
        graph.capture_begin(device, None)?;
        // Where it fails, the graph is dropped, which ends the capture.
        let result = body()?;
        graph.capture_end()?;
        Ok((graph, result))
    }

    /// From now on, work of this thread on the device goes into the graph instead of being run. Memory comes from `pool`, or from one that is
    /// the graph's own.
    ///
    /// # Errors
    /// `InvalidArgument` where the graph has work already, this thread captures another graph, or another thread captures into the pool;
    /// `Device` for what the driver reports.
    pub fn capture_begin(&self, device: usize, pool: Option<&GraphPool>) -> Result<()> {
        let gpu = devices()?.gpu(device)?;
        let mut state = self.shared.state();
        ensure!(
            matches!(*state, State::Empty),
            InvalidArgument("capture_begin"),
            "expected a graph without work, but it has captured some; `reset` drops that"
        );
        let pool = pool.map_or_else(|| Pool::new(gpu), |pool| Arc::clone(&pool.0));
        Capture::begin(gpu, pool, &self.shared).map_err(|error| error.in_operator("capture_begin"))?;
        *state = State::Capturing;
        Ok(())
    }

    /// Ends the capture, by the thread that began it. The graph can be launched then.
    ///
    /// # Errors
    /// `InvalidArgument` where this thread does not capture the graph; `Device` for what the driver reports, and then the graph has no work.
    pub fn capture_end(&self) -> Result<()> {
        let Some(capture) = capture::take(&self.shared) else {
            bail!(InvalidArgument("capture_end"), "expected a graph that this thread captures")
        };
        let captured = capture.finish().map_err(|error| error.in_operator("capture_end"));
        let mut state = self.shared.state();
        match captured {
            Ok(captured) => *state = State::Captured(captured),
            Err(error) => {
                *state = State::Empty;
                return Err(error);
            }
        }
        Ok(())
    }

    /// Launches the work in the stream that this thread uses. Another launch of the same graph comes after it.
    ///
    /// # Errors
    /// `InvalidArgument` where nothing was captured, or memory that it uses was replaced since; `Aliasing` and `Busy` as for an operator;
    /// `Device` for what the driver reports.
    pub fn replay(&self) -> Result<()> {
        match &*self.shared.state() {
            State::Captured(captured) => captured.launch().map_err(|error| error.in_operator("replay")),
            _ => bail!(InvalidArgument("replay"), "expected a graph whose capture has ended successfully"),
        }
    }

    /// Drops the work, and ends a capture of this thread without a graph.
    ///
    /// # Errors
    /// `InvalidArgument` where another thread captures the graph.
    pub fn reset(&self) -> Result<()> {
        let is_own = capture::take(&self.shared).is_some();
        let mut state = self.shared.state();
        ensure!(
            is_own || !matches!(*state, State::Capturing),
            InvalidArgument("reset"),
            "expected a graph that no other thread captures"
        );
        let before = std::mem::take(&mut *state);
        drop(state);
        drop(before);
        Ok(())
    }

    /// The memory of the graph, for another one that is to share it. `None` where nothing was captured.
    pub fn pool(&self) -> Option<GraphPool> {
        match &*self.shared.state() {
            State::Captured(captured) => Some(GraphPool(Arc::clone(&captured.pool))),
            _ => None,
        }
    }
}

impl fmt::Debug for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match &*self.shared.state() {
            State::Empty => "empty",
            State::Capturing => "capturing",
            State::Captured(_) => "captured",
        };
        f.debug_struct("Graph").field("state", &state).finish()
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // A capture by another thread ends with that thread's next work.
        drop(capture::take(&self.shared));
    }
}

impl Captured {
    fn launch(&self) -> Result<()> {
        let gpu = self.executable.gpu;
        refuse(gpu.index, "a launch of a graph")?;
        for (address, (storage, _)) in &self.uses {
            ensure!(
                storage.data_ptr().addr() as u64 == *address,
                InvalidArgument,
                "expected the memory that was captured, but a tensor that the graph uses has other memory now"
            );
        }
        let accesses: Vec<(&Storage, Access)> =
            self.uses.values().map(|(storage, access)| (storage, *access)).collect();
        let _guards = DeviceGuards::acquire(&accesses)?;
        accesses.iter().try_for_each(|(storage, access)| gpu.order_storage(storage, *access))?;
        for (address, bytes) in self.pool.segments() {
            gpu.order(address, bytes, Access::Write)?;
        }
        gpu.activate()?;
        // SAFETY: the graph exists, and the lock of its state has this thread launch it alone; its memory lives as long as it does.
        let status = unsafe { cuGraphLaunch(self.executable.handle, gpu.stream()) };
        gpu.driver.check(status, "cuGraphLaunch")?;
        gpu.wait_if_synchronous()
    }
}

/// Whether this thread captures a graph on its current device.
pub fn is_current_stream_capturing() -> bool {
    is_captured(current_index())
}
