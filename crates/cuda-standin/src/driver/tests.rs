//! The C functions, called as programs call them.
#![allow(unsafe_code, reason = "calls the functions of the C interface")]

use super::*;
use std::ptr::{null, null_mut};

const SUCCESS: Code = Status::SUCCESS.0;

/// Stores the number of each thread, times a factor.
const PROGRAM: &CStr = c".version 8.0\n.target sm_90\n.address_size 64\n
    .visible .entry scale(.param .u64 to, .param .u32 factor) { .reg .b32 %r<5>; .reg .b64 %d<4>;
    ld.param.u64 %d0, [to]; ld.param.u32 %r1, [factor]; mov.u32 %r0, %tid.x; mul.wide.u32 %d1, %r0, 4; add.s64 %d1, %d1, %d0;
    mul.lo.u32 %r2, %r0, %r1; st.global.u32 [%d1], %r2; ret; }";

/// A context, a stream and memory of 64 bytes.
struct Bench {
    stream: Object,
    memory: u64,
}

/// The tests share the driver of the process.
fn bench() -> Bench {
    let (mut context, mut stream, mut memory) = (null_mut(), null_mut(), 0);
    // SAFETY: all addresses are of variables.
    unsafe {
        assert_eq!(cuInit(0), SUCCESS);
        assert_eq!(cuDevicePrimaryCtxRetain(&raw mut context, 0), SUCCESS);
        assert_eq!(cuCtxSetCurrent(context), SUCCESS);
        assert_eq!(cuStreamCreate(&raw mut stream, 1), SUCCESS);
        assert_eq!(cuMemAlloc_v2(&raw mut memory, 64), SUCCESS);
    }
    Bench { stream, memory }
}

fn content(bench: &Bench) -> [u32; 16] {
    let mut values = [0u32; 16];
    // SAFETY: both have 64 bytes.
    unsafe {
        assert_eq!(cuStreamSynchronize(bench.stream), SUCCESS);
        assert_eq!(cuMemcpyDtoH_v2(values.as_mut_ptr().cast(), bench.memory, 64), SUCCESS);
    }
    values
}

#[test]
fn a_program_is_loaded_and_launched() {
    let bench = bench();
    let (mut module, mut function, factor, threads) = (null_mut(), null_mut(), 3u32, 16);
    let mut parameters =
        [(&raw const bench.memory).cast_mut().cast(), (&raw const factor).cast_mut().cast::<c_void>()];
    // SAFETY: as above; the kernel has two parameters of these types.
    unsafe {
        assert_eq!(cuModuleLoadData(&raw mut module, PROGRAM.as_ptr().cast()), SUCCESS);
        assert_eq!(cuModuleGetFunction(&raw mut function, module, c"scale".as_ptr()), SUCCESS);
        let launch = |threads, parameters| {
            cuLaunchKernel(function, 1, 1, 1, threads, 1, 1, 0, bench.stream, parameters, null_mut())
        };
        assert_eq!(launch(threads, parameters.as_mut_ptr()), SUCCESS);
        assert_eq!(content(&bench), std::array::from_fn(|i| 3 * i as u32));
        assert_eq!(launch(2000, parameters.as_mut_ptr()), Status::ERROR_INVALID_VALUE.0);
        assert_eq!(launch(threads, null_mut()), Status::ERROR_INVALID_VALUE.0);
        assert_eq!(
            cuModuleGetFunction(&raw mut function, module, c"other".as_ptr()),
            Status::ERROR_NOT_FOUND.0
        );
        assert_eq!(cuModuleUnload(module), SUCCESS);
        assert_eq!(cuModuleUnload(module), Status::ERROR_INVALID_HANDLE.0);
        let code = c"\x7fELF and so on";
        assert_eq!(
            cuModuleLoadData(&raw mut module, code.as_ptr().cast()),
            Status::ERROR_NO_BINARY_FOR_GPU.0
        );
        assert_eq!(cuModuleLoadData(&raw mut module, c"no PTX".as_ptr().cast()), Status::ERROR_INVALID_PTX.0);
    }
}

#[test]
fn pinned_memory_is_read_when_the_copy_runs() {
    let bench = bench();
    let mut pinned = null_mut();
    let mut pageable = [1u32; 16];
    // SAFETY: as above; the pinned memory has 64 bytes.
    unsafe {
        assert_eq!(cuMemcpyHtoDAsync_v2(bench.memory, pageable.as_ptr().cast(), 64, bench.stream), SUCCESS);
        pageable.fill(2);
        assert_eq!(content(&bench), [1; 16]);
        assert_eq!(cuMemHostAlloc(&raw mut pinned, 64, 0), SUCCESS);
        pinned.cast::<[u32; 16]>().write([3; 16]);
        assert_eq!(cuMemcpyHtoDAsync_v2(bench.memory, pinned, 64, bench.stream), SUCCESS);
        pinned.cast::<[u32; 16]>().write([4; 16]);
        assert_eq!(content(&bench), [4; 16]);
        // It is written late too, and into other memory at once.
        assert_eq!(cuMemsetD8Async(bench.memory, 5, 64, bench.stream), SUCCESS);
        assert_eq!(cuMemcpyDtoHAsync_v2(pinned, bench.memory, 64, bench.stream), SUCCESS);
        assert_eq!(pinned.cast::<u32>().read(), 4);
        assert_eq!(
            cuMemcpyDtoHAsync_v2(pageable.as_mut_ptr().cast(), bench.memory, 64, bench.stream),
            SUCCESS
        );
        assert_eq!((pageable[0], pinned.cast::<u32>().read()), (0x0505_0505, 0x0505_0505));
        assert_eq!(cuMemFreeHost(pinned), SUCCESS);
        assert_eq!(cuMemFreeHost(pinned), Status::ERROR_INVALID_VALUE.0);
    }
}

/// The graph of what a stream is given while it captures, or the status of the end of the capture.
fn captured(bench: &Bench, work: impl FnOnce()) -> Result<Object, Code> {
    let (mut graph, mut executable) = (null_mut(), null_mut());
    // SAFETY: all addresses are of variables.
    unsafe {
        assert_eq!(graphs::cuStreamBeginCapture_v2(bench.stream, 2), SUCCESS);
        work();
        match graphs::cuStreamEndCapture(bench.stream, &raw mut graph) {
            SUCCESS => {}
            status => return Err(status),
        }
        assert_eq!(graphs::cuGraphInstantiateWithFlags(&raw mut executable, graph, 0), SUCCESS);
        assert_eq!(graphs::cuGraphDestroy(graph), SUCCESS);
        assert_eq!(graphs::cuGraphDestroy(graph), Status::ERROR_INVALID_HANDLE.0);
    }
    Ok(executable)
}

#[test]
fn captured_work_runs_once_for_each_launch_of_its_graph() {
    let bench = bench();
    // SAFETY: as above; both copies are inside the memory.
    unsafe {
        assert_eq!(cuMemsetD8Async(bench.memory, 0, 64, bench.stream), SUCCESS);
        assert_eq!(cuMemsetD8Async(bench.memory + 32, 7, 4, bench.stream), SUCCESS);
        let work = || {
            assert_eq!(cuMemcpyDtoDAsync_v2(bench.memory, bench.memory + 32, 4, bench.stream), SUCCESS);
            assert_eq!(cuMemsetD8Async(bench.memory + 4, 9, 4, bench.stream), SUCCESS);
        };
        let graph = captured(&bench, work).unwrap();
        assert_eq!(content(&bench)[..2], [0, 0]);
        for value in [1u8, 2] {
            assert_eq!(cuMemsetD8Async(bench.memory + 32, value, 4, bench.stream), SUCCESS);
            assert_eq!(graphs::cuGraphLaunch(graph, bench.stream), SUCCESS);
            assert_eq!(content(&bench)[..2], [u32::from_le_bytes([value; 4]), 0x0909_0909]);
        }
        // It is destroyed while its last launch has not run.
        assert_eq!(cuMemsetD8Async(bench.memory + 32, 3, 4, bench.stream), SUCCESS);
        assert_eq!(graphs::cuGraphLaunch(graph, bench.stream), SUCCESS);
        assert_eq!(graphs::cuGraphExecDestroy(graph), SUCCESS);
        assert_eq!(content(&bench)[0], 0x0303_0303);
        assert_eq!(graphs::cuGraphLaunch(graph, bench.stream), Status::ERROR_INVALID_HANDLE.0);
    }
}

#[test]
fn what_a_capture_does_not_permit_is_an_error_and_ends_it() {
    let bench = bench();
    let (mut event, numbers, mut other) = (null_mut(), [1u32; 16], [0u32; 16]);
    let unsupported = Status::ERROR_STREAM_CAPTURE_UNSUPPORTED.0;
    // SAFETY: as above; the copies are inside the memory.
    unsafe {
        assert_eq!(cuEventCreate(&raw mut event, 0), SUCCESS);
        assert_eq!(cuEventRecord(event, bench.stream), SUCCESS);
        let target = other.as_mut_ptr().cast();
        let calls: [(&dyn Fn() -> Code, Code); 6] = [
            (&|| cuStreamSynchronize(bench.stream), unsupported),
            (&|| cuStreamQuery(bench.stream), unsupported),
            (&|| cuEventRecord(event, bench.stream), unsupported),
            (&|| cuStreamWaitEvent(bench.stream, event, 0), Status::ERROR_STREAM_CAPTURE_ISOLATION.0),
            (&|| cuMemcpyHtoDAsync_v2(bench.memory, numbers.as_ptr().cast(), 64, bench.stream), unsupported),
            (&|| cuMemcpyDtoHAsync_v2(target, bench.memory, 64, bench.stream), unsupported),
        ];
        for (call, status) in calls {
            let ended = captured(&bench, || assert_eq!(call(), status));
            assert_eq!(ended, Err(Status::ERROR_STREAM_CAPTURE_INVALIDATED.0));
        }
        assert_eq!(graphs::cuStreamEndCapture(bench.stream, &raw mut event), Status::ERROR_ILLEGAL_STATE.0);
        assert_eq!(graphs::cuStreamBeginCapture_v2(null_mut(), 2), unsupported);
        assert_eq!(graphs::cuStreamBeginCapture_v2(bench.stream, 2), SUCCESS);
        assert_eq!(graphs::cuStreamBeginCapture_v2(bench.stream, 2), Status::ERROR_ILLEGAL_STATE.0);
        // A stream that is destroyed takes its capture along.
        assert_eq!(cuStreamDestroy_v2(bench.stream), SUCCESS);
    }
}

/// A product of cuBLAS: 2 x 3 by 3 x 2, whose result has the leading dimension that is given.
fn product(bench: &Bench, library: Object, leading: c_int) -> Code {
    let (alpha, beta) = (2f32, 0f32);
    let at = |elements: u64| object(bench.memory + 4 * elements);
    // SAFETY: as above; all three matrices are inside the memory.
    unsafe {
        blas::cublasGemmStridedBatchedEx(
            library,
            0,
            1,
            2,
            2,
            3,
            (&raw const alpha).cast(),
            at(0),
            0,
            2,
            0,
            at(6),
            0,
            2,
            0,
            (&raw const beta).cast(),
            at(12),
            0,
            leading,
            0,
            1,
            68,
            0,
        )
    }
}

#[test]
fn products_of_cublas_are_computed_and_their_arguments_checked() {
    let (bench, mut library) = (bench(), null_mut());
    let numbers: [f32; 12] = std::array::from_fn(|i| i as f32);
    // SAFETY: as above.
    unsafe {
        assert_eq!(blas::cublasCreate_v2(&raw mut library), SUCCESS);
        assert_eq!(blas::cublasSetStream_v2(library, bench.stream), SUCCESS);
        assert_eq!(cuMemcpyHtoDAsync_v2(bench.memory, numbers.as_ptr().cast(), 48, bench.stream), SUCCESS);
        assert_eq!(blas::cublasSetWorkspace_v2(library, object(bench.memory + 8), 8), blas::INVALID_VALUE);
        assert_eq!(blas::cublasSetWorkspace_v2(object(3), object(bench.memory), 8), blas::INVALID_VALUE);
    }
    assert_eq!(product(&bench, library, 1), blas::INVALID_VALUE);
    assert_eq!(product(&bench, library, -2), blas::INVALID_VALUE);
    assert_eq!(product(&bench, object(3), 2), blas::INVALID_VALUE);
    assert_eq!(product(&bench, library, 2), SUCCESS);
    // Columns [0, 1], [2, 3], [4, 5] by the transposed of [6, 7], [8, 9], [10, 11], twice.
    let result = content(&bench)[12..].iter().map(|bits| f32::from_bits(*bits)).collect::<Vec<_>>();
    assert_eq!(result, [112.0, 160.0, 124.0, 178.0]);
}

#[test]
fn wrong_arguments_are_errors() {
    let bench = bench();
    let (mut name, mut count, mut device) = (null(), 0, 0);
    // SAFETY: as above.
    unsafe {
        assert_eq!(cuGetErrorName(700, &raw mut name), SUCCESS);
        assert_eq!(CStr::from_ptr(name), c"CUDA_ERROR_ILLEGAL_ADDRESS");
        assert_eq!(cuGetErrorString(2, &raw mut name), SUCCESS);
        assert_eq!(CStr::from_ptr(name), c"out of memory");
        assert_eq!(cuGetErrorName(12345, &raw mut name), Status::ERROR_INVALID_VALUE.0);
        assert_eq!(cuDeviceGetCount(&raw mut count), SUCCESS);
        assert_eq!(cuDeviceGet(&raw mut device, count), Status::ERROR_INVALID_DEVICE.0);
        assert_eq!(cuDeviceGetCount(null_mut()), Status::ERROR_INVALID_VALUE.0);
        assert_eq!(cuStreamSynchronize(object(77)), Status::ERROR_INVALID_HANDLE.0);
        assert_eq!(cuEventRecord(object(77), bench.stream), Status::ERROR_INVALID_HANDLE.0);
        assert_eq!(cuCtxSetCurrent(object(77)), Status::ERROR_INVALID_CONTEXT.0);
        assert_eq!(cuMemsetD8Async(bench.memory, 0, 65, bench.stream), Status::ERROR_INVALID_VALUE.0);
        assert_eq!(cuMemcpyDtoD_v2(bench.memory, bench.memory + 8, 64), Status::ERROR_INVALID_VALUE.0);
        assert_eq!(cuMemFree_v2(bench.memory + 8), Status::ERROR_INVALID_VALUE.0);
        assert_eq!(cuMemFree_v2(bench.memory), SUCCESS);
        assert_eq!(cuMemFree_v2(bench.memory), Status::ERROR_INVALID_VALUE.0);
        assert_eq!(cuCtxSetCurrent(null_mut()), SUCCESS);
        assert_eq!(cuCtxSynchronize(), Status::ERROR_INVALID_CONTEXT.0);
    }
}
