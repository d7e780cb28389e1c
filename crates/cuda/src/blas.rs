//! cuBLAS, for products of floating point matrices, where it is installed. `FLAMBEAU_CUDA_BLAS=own` uses this crate's kernel instead.
//!
//! Each stream has a handle with a workspace of its own, of the same size, so that the same call gives the same bits on the same device and
//! version, in whatever stream it is.
#![expect(unsafe_code, reason = "calls cuBLAS")]

use crate::driver::{CUstream, DevicePtr};
use crate::gpu::Gpu;
use crate::graph;
use crate::library::{find, functions};
use cudarc::cublas::sys::{
    cublasComputeType_t, cublasGemmAlgo_t, cublasHandle_t, cublasOperation_t, cublasStatus_t, cudaDataType_t,
};
use flambeau_core::{Result, ScalarType, bail};
use std::collections::HashMap;
use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

functions! {
    cudarc::cublas::sys {
        cublasCreate_v2,
        cublasDestroy_v2,
        cublasSetStream_v2,
        cublasSetWorkspace_v2,
        cublasGemmStridedBatchedEx,
    }
}

/// Bytes of a handle's workspace, as NVIDIA advises for recent devices.
pub(crate) const WORKSPACE: usize = 32 << 20;

/// The names under which cuBLAS is installed, newest first.
const NAMES: [&str; 3] = ["libcublas.so.13", "libcublas.so.12", "libcublas.so"];

/// Whether cuBLAS is installed, and the environment does not ask for the kernel of this crate; opened by the first call.
pub(crate) fn is_open() -> bool {
    static OPEN: OnceLock<bool> = OnceLock::new();
    let is_refused = || std::env::var("FLAMBEAU_CUDA_BLAS").is_ok_and(|value| value == "own");
    let open = || find(&NAMES).is_some_and(|library| library.check(&FUNCTIONS).is_ok());
    *OPEN.get_or_init(|| !is_refused() && open())
}

/// The handles of a device, by the address of their stream; `None` where there is none for it, so that products are computed by the kernel
/// of this crate.
#[derive(Default)]
pub(crate) struct Blas {
    sessions: Mutex<HashMap<usize, Option<SharedSession>>>,
    /// Those of captures that have ended. cuBLAS waits for the device when a handle is destroyed, so they are used again.
    of_captures: Mutex<Vec<SharedSession>>,
}

pub(crate) type SharedSession = Arc<Mutex<Session>>;

pub(crate) struct Session {
    handle: cublasHandle_t,
}

static PRODUCTS: AtomicU64 = AtomicU64::new(0);

/// How many products this process had cuBLAS compute.
pub fn products_by_cublas() -> u64 {
    PRODUCTS.load(Ordering::Relaxed)
}

// SAFETY: a handle may be used by any thread, by one at a time.
unsafe impl Send for Session {}

/// A matrix in memory: its address, the strides of rows and columns, and that from one of a batch to the next, in elements.
#[derive(Clone, Copy)]
pub(crate) struct Matrix {
    pub(crate) address: u64,
    pub(crate) rows: i64,
    pub(crate) columns: i64,
    pub(crate) batch: i64,
}

/// An operand as cuBLAS takes it.
struct Operand {
    /// Whether it is transposed in memory.
    transposed: bool,
    leading: i32,
}

impl Operand {
    fn operation(&self) -> cublasOperation_t {
        if self.transposed { cublasOperation_t::CUBLAS_OP_T } else { cublasOperation_t::CUBLAS_OP_N }
    }
}

impl Matrix {
    /// Row-major, or transposed; `None` where neither rows nor columns are adjacent.
    fn operand(&self, rows: i64, columns: i64) -> Option<Operand> {
        let leading = |stride: i64, length: i64, count: i64| {
            // The stride of a single row is never used, and need not make sense.
            let stride = if count == 1 { length.max(1) } else { stride };
            (stride >= length.max(1)).then(|| i32::try_from(stride).ok()).flatten()
        };
        if self.columns == 1 || columns == 1 {
            let leading = leading(self.rows, columns, rows)?;
            return Some(Operand { transposed: false, leading });
        }
        if self.rows == 1 || rows == 1 {
            let leading = leading(self.columns, rows, columns)?;
            return Some(Operand { transposed: true, leading });
        }
        None
    }
}

/// A type, and that in which its products are summed.
fn types(dtype: ScalarType) -> Option<(cudaDataType_t, cublasComputeType_t)> {
    Some(match dtype {
        ScalarType::F32 => (cudaDataType_t::CUDA_R_32F, cublasComputeType_t::CUBLAS_COMPUTE_32F),
        ScalarType::F64 => (cudaDataType_t::CUDA_R_64F, cublasComputeType_t::CUBLAS_COMPUTE_64F),
        ScalarType::F16 => (cudaDataType_t::CUDA_R_16F, cublasComputeType_t::CUBLAS_COMPUTE_32F),
        ScalarType::BF16 => (cudaDataType_t::CUDA_R_16BF, cublasComputeType_t::CUBLAS_COMPUTE_32F),
        _ => return None,
    })
}

/// A number as cuBLAS reads it.
#[repr(C)]
union Number {
    single: f32,
    double: f64,
}

impl Number {
    fn new(value: f64, dtype: ScalarType) -> Self {
        if dtype == ScalarType::F64 { Number { double: value } } else { Number { single: value as f32 } }
    }
}

/// A batch of products of row-major matrices, `m x k` and `k x n`.
pub(crate) struct Gemm {
    pub(crate) dtype: ScalarType,
    pub(crate) sizes: [i64; 4],
    pub(crate) alpha: f64,
    pub(crate) beta: f64,
}

impl Gpu {
    /// Computes `alpha * a b + beta * out`, if cuBLAS is installed and takes such operands; else `false`.
    ///
    /// # Errors
    /// `Device` where cuBLAS reports one.
    pub(crate) fn gemm(&self, gemm: &Gemm, a: Matrix, b: Matrix, out: Matrix) -> Result<bool> {
        let [batches, m, n, k] = gemm.sizes;
        let (Some((data_type, computing)), true) = (types(gemm.dtype), k > 0) else { return Ok(false) };
        let (Some(left), Some(right)) = (a.operand(m, k), b.operand(k, n)) else { return Ok(false) };
        let Some(result) = out.operand(m, n).filter(|result| !result.transposed) else { return Ok(false) };
        let [Ok(batches), Ok(m), Ok(n), Ok(k)] = [batches, m, n, k].map(i32::try_from) else {
            return Ok(false);
        };
        let Some(session) = self.session()? else { return Ok(false) };
        let session = session.lock().unwrap_or_else(PoisonError::into_inner);
        let (alpha, beta) = (Number::new(gemm.alpha, gemm.dtype), Number::new(gemm.beta, gemm.dtype));
        self.activate()?;
        let pointer = |address: u64| ptr::without_provenance_mut::<c_void>(address as usize);
        // SAFETY: the matrices are inside tensors of the device, whose guards the caller holds. cuBLAS has columns first, so it computes the
        // transposed product, of the operands in reverse order.
        let status = unsafe {
            cublasGemmStridedBatchedEx(
                session.handle,
                right.operation(),
                left.operation(),
                n,
                m,
                k,
                (&raw const alpha).cast(),
                pointer(b.address),
                data_type,
                right.leading,
                b.batch,
                pointer(a.address),
                data_type,
                left.leading,
                a.batch,
                (&raw const beta).cast(),
                pointer(out.address),
                data_type,
                result.leading,
                out.batch,
                batches,
                computing,
                cublasGemmAlgo_t::CUBLAS_GEMM_DFALT,
            )
        };
        if status != cublasStatus_t::CUBLAS_STATUS_SUCCESS {
            bail!(Device, "cuda: cublasGemmStridedBatchedEx failed with {status:?} ({})", status as u32);
        }
        PRODUCTS.fetch_add(1, Ordering::Relaxed);
        Ok(true)
    }

    /// Whether there is cuBLAS for this thread's stream.
    pub(crate) fn has_blas(&self) -> bool {
        self.session().is_ok_and(|session| session.is_some())
    }

    fn session(&self) -> Result<Option<SharedSession>> {
        if !is_open() {
            return Ok(None);
        }
        if let Some(session) = graph::captured_session(self.index) {
            return Ok(session);
        }
        let stream = self.stream();
        let mut sessions = self.blas.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = sessions.get(&stream.addr()) {
            return Ok(known.clone());
        }
        self.activate()?;
        let workspace = self.allocate_segment(WORKSPACE)?;
        let session = self.open(stream, workspace).map(|session| Arc::new(Mutex::new(session)));
        if session.is_none() {
            self.free_segment(workspace);
        }
        sessions.insert(stream.addr(), session.clone());
        Ok(session)
    }

    fn open(&self, stream: CUstream, workspace: DevicePtr) -> Option<Session> {
        let mut handle = ptr::null_mut();
        // SAFETY: the context is current, and the function writes a handle.
        if unsafe { cublasCreate_v2(&raw mut handle) } == cublasStatus_t::CUBLAS_STATUS_SUCCESS {
            let session = Session { handle };
            if session.use_in(stream, workspace) {
                return Some(session);
            }
        }
        if !handle.is_null() {
            // SAFETY: the handle exists, and nobody has it after this.
            let _ = unsafe { cublasDestroy_v2(handle) };
        }
        None
    }

    /// A session for products that a stream captures, with a workspace that lives as long as their graph; `None` where there is none.
    pub(crate) fn open_for_capture(&self, stream: CUstream, workspace: DevicePtr) -> Option<SharedSession> {
        let idle = self.blas.of_captures.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let Some(shared) = idle else {
            return self.open(stream, workspace).map(|session| Arc::new(Mutex::new(session)));
        };
        let used = shared.lock().unwrap_or_else(PoisonError::into_inner).use_in(stream, workspace);
        used.then_some(shared)
    }

    /// Takes back a session that [`open_for_capture`](Self::open_for_capture) gave.
    pub(crate) fn close_capture(&self, session: SharedSession) {
        self.blas.of_captures.lock().unwrap_or_else(PoisonError::into_inner).push(session);
    }
}

impl Session {
    /// Has products computed in a stream, with a workspace of [`WORKSPACE`] bytes; returns whether that is so.
    fn use_in(&self, stream: CUstream, workspace: DevicePtr) -> bool {
        let is_done = |status| status == cublasStatus_t::CUBLAS_STATUS_SUCCESS;
        let memory = ptr::without_provenance_mut(workspace as usize);
        // SAFETY: the handle and the stream exist, and the workspace has so many bytes, as long as products are computed in it.
        unsafe {
            is_done(cublasSetStream_v2(self.handle, stream.cast()))
                && is_done(cublasSetWorkspace_v2(self.handle, memory, WORKSPACE))
        }
    }
}
