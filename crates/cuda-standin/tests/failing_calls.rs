//! Each call of the driver fails once: the program gets an error that names it, nothing leaks, and the next calls work.
//!
//! The backend of CUDA runs on the stand-in, whose library is beside the test. NVRTC is what `cargo xtask cuda-tools` fetched; without it the
//! test is skipped, and counted.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(
    unsafe_code,
    reason = "the test calls functions of the stand-in, and sets the environment before it starts threads"
)]

mod library;

use flambeau_core::allocator::allocator_for;
use flambeau_core::{Device, DeviceType, ErrorKind, Result, ScalarType, TensorImpl};
use flambeau_cuda::{Event, Graph, Stream, testing};
use flambeau_ops::{Tensor, ops};
use library::{folder, library, nvrtc, symbol};
use std::ffi::CString;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

/// Set in the processes that a test starts.
const CHILD: &str = "FLAMBEAU_STANDIN_TEST_CHILD";

/// Runs a test in another process, where the stand-in is the driver. Returns what it printed, as an error if it failed.
fn in_child(test: &str, nvrtc: &Path, failing: &str) -> std::result::Result<String, String> {
    in_child_with(test, nvrtc, failing, &[("FLAMBEAU_CUDA_BLAS", "own")])
}

/// The same with some variables.
fn in_child_with(
    test: &str,
    nvrtc: &Path,
    failing: &str,
    variables: &[(&str, &str)],
) -> std::result::Result<String, String> {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]).env(CHILD, "1");
    command.env("FLAMBEAU_CUDA_DRIVER", library()).env("FLAMBEAU_CUDA_PATH", nvrtc);
    command
        .env("FLAMBEAU_CACHE", folder().join("standin-cache"))
        .envs(variables.iter().copied())
        .env("CUDA_FORCE_PTX_JIT", "1");
    command.env("FLAMBEAU_STANDIN_FAIL", failing).env_remove("CUDA_VISIBLE_DEVICES");
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    match output.status.success() {
        true => Ok(text),
        false => Err(format!("{failing}: {text}{}", String::from_utf8_lossy(&output.stderr))),
    }
}

fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

/// A function of the library, which the driver's user has opened.
struct StandIn {
    fail_at: unsafe extern "C" fn(*const i8, u32) -> u32,
    count: unsafe extern "C" fn(*const i8) -> u64,
}

impl StandIn {
    fn open() -> Self {
        // SAFETY: the library is this project's, and its functions have these types.
        unsafe {
            StandIn {
                fail_at: std::mem::transmute::<*mut libc::c_void, unsafe extern "C" fn(*const i8, u32) -> u32>(
                    symbol(c"flambeau_standin_fail_at"),
                ),
                count: std::mem::transmute::<*mut libc::c_void, unsafe extern "C" fn(*const i8) -> u64>(
                    symbol(c"flambeau_standin_count"),
                ),
            }
        }
    }

    fn fail_at(&self, name: &str, number: u64) {
        let name = CString::new(name).unwrap();
        // SAFETY: a text that ends with a zero byte.
        unsafe { (self.fail_at)(name.as_ptr().cast(), number as u32) };
    }

    fn count(&self, name: &str) -> u64 {
        let name = CString::new(name).unwrap();
        // SAFETY: as above.
        unsafe { (self.count)(name.as_ptr().cast()) }
    }
}

/// Copies of all kinds, kernels, a lookup by indices, streams, events and waits; the number that it gives is always the same.
fn work() -> Result<f32> {
    let device = Device::cuda(0);
    let values: Vec<f32> = (0..100).map(|i| i as f32).collect();
    let x = Tensor::from_vec(values, &[50, 2])?.to(device)?;
    let rows = Tensor::embedding(&x, &Tensor::from([3i64, 7, 7]).to(device)?)?;
    let sum = x.add(&x)?.sum()?.item::<f32>()?;
    let zeros = Tensor::zeros(&[3, 2], (ScalarType::F32, device))?;
    flambeau_cuda::synchronize(0)?;
    let pinned = flambeau_cuda::pin_memory(&Tensor::from([1.0f32, 2.0]))?;
    let there = ops::_to_copy(&pinned, None, None, Some(device), None, true, None)?;
    let moved = between_devices(&x)? + in_two_streams(&x)? + in_a_graph(&x)?;
    Ok(sum + moved + rows.add(&zeros)?.sum()?.item::<f32>()? + there.sum()?.item::<f32>()?)
}

/// What [`work`] gives: twice the sum of 0 to 99, rows 3, 7 and 7, and 1 and 2; 4950 from each of three copies, and twice that;
/// and again from a graph.
const EXPECTED: f32 = 9900.0 + 13.0 + 29.0 + 29.0 + 3.0 + 3.0 * 4950.0 + 9900.0 + 9900.0;

/// Copies inside of a device, to another one and back.
fn between_devices(x: &Tensor) -> Result<f32> {
    let [first, second] = [Device::cuda(0), Device::cuda(1)];
    let there = x.to(second)?;
    let back = there.to(first)?;
    let storage = x.storage().copied_to(first)?;
    let within = Tensor::from_impl(TensorImpl::new(storage, x.geometry().clone(), x.dtype())?);
    let cleared = allocator_for(DeviceType::Cuda)?.allocate_zeroed(64)?;
    drop(cleared);
    let sums = [there.sum()?, back.sum()?, within.sum()?];
    sums.iter().map(|sum| sum.item::<f32>()).sum()
}

/// A graph that is captured, launched twice, and dropped.
fn in_a_graph(x: &Tensor) -> Result<f32> {
    let (graph, y) =
        Graph::capture(0, || x.add(&Tensor::zeros(&[50, 2], (ScalarType::F32, Device::cuda(0)))?)?.add(x))?;
    graph.replay()?;
    graph.replay()?;
    y.sum()?.item::<f32>()
}

/// Two streams, of which one waits for the other, and what they and an event answer.
fn in_two_streams(x: &Tensor) -> Result<f32> {
    static STREAMS: OnceLock<[Stream; 2]> = OnceLock::new();
    let streams = match STREAMS.get() {
        Some(streams) => streams,
        None => {
            let made = [Stream::new(0)?, Stream::new(0)?];
            STREAMS.get_or_init(|| made)
        }
    };
    let (start, end) = (Event::new(true), Event::new(true));
    start.record(&streams[0])?;
    let y = {
        let _guard = streams[0].enter()?;
        x.add(x)?
    };
    let sum = {
        let _guard = streams[1].enter()?;
        y.sum()?
    };
    end.record(&streams[1])?;
    streams[0].wait_event(&end)?;
    let _are_ready = [end.query()?, streams[0].query()?];
    end.synchronize()?;
    start.elapsed_time(&end)?;
    flambeau_cuda::properties(0)?;
    sum.item::<f32>()
}

/// A failure of these may be made up for: memory that a device refuses is requested again, and what is given back is not in use any more. Its
/// user is not told, since nothing that a program does has failed; the driver keeps it.
const SILENT: [&str; 8] = [
    "cuMemAlloc_v2",
    "cuMemFree_v2",
    "cuMemFreeHost",
    "cuEventDestroy_v2",
    "cuStreamDestroy_v2",
    "cuGraphDestroy",
    "cuGraphExecDestroy",
    "cuCtxSetCurrent",
];

/// Functions that say what went wrong, which are called only after something has.
const AFTER_FAILURES: [&str; 1] = ["cuGetErrorName"];

/// What came of failures.
#[derive(Default)]
struct Outcomes {
    functions: usize,
    errors: usize,
    made_up_for: usize,
}

impl Outcomes {
    /// Has a call fail in [`work`]; the next one works, and nothing is left behind.
    fn fail(&mut self, standin: &StandIn, name: &str, number: u64) {
        flambeau_cuda::empty_cache();
        let live = standin.count("");
        standin.fail_at(name, number);
        let outcome = work();
        if SILENT.contains(&name) {
            flambeau_cuda::empty_cache();
        }
        // The next call of the device works.
        standin.fail_at("", 0);
        assert_eq!(work().unwrap(), EXPECTED, "after {name}:{number}");
        flambeau_cuda::empty_cache();
        // What the driver does not take back stays.
        let refused = u64::from(SILENT[1..].contains(&name));
        assert!(
            standin.count("") <= live + refused,
            "{live} objects before {name}:{number}, {} after",
            standin.count("")
        );
        match outcome {
            Err(error) => {
                let text = error.to_string();
                let is_known = matches!(error.kind(), ErrorKind::Device | ErrorKind::OutOfMemory);
                let is_named = name.contains("Alloc") || text.contains(name.trim_end_matches("_v2"));
                assert!(is_known && is_named, "{name}: {text}");
                self.errors += 1;
            }
            Ok(value) => {
                assert!(SILENT.contains(&name) && value == EXPECTED, "{name}:{number}: {value}");
                self.made_up_for += 1;
            }
        }
    }
}

#[test]
fn each_call_fails_once() {
    if !is_child() {
        match nvrtc() {
            Some(nvrtc) => print!("{}", in_child("each_call_fails_once", &nvrtc, "").unwrap()),
            None => println!("1 check skipped: NVRTC was not fetched"),
        }
        return;
    }
    assert_eq!(work().unwrap(), EXPECTED);
    flambeau_cuda::empty_cache();
    let standin = StandIn::open();
    let counted = |name: &'static str| (name, standin.count(name));
    standin.fail_at("", 0);
    assert_eq!(work().unwrap(), EXPECTED);
    let mut counts: Vec<(&str, u64)> = testing::driver_functions().into_iter().map(counted).collect();
    // What is given back is counted with the cache.
    flambeau_cuda::empty_cache();
    counts
        .iter_mut()
        .filter(|(name, _)| SILENT.contains(name))
        .for_each(|(name, count)| *count = standin.count(name));
    let mut outcomes = Outcomes::default();
    for (name, count) in counts {
        let is_first = FIRST.iter().any(|(first, _)| *first == name);
        assert!(count > 0 || is_first || AFTER_FAILURES.contains(&name), "no test has {name} fail");
        outcomes.functions += usize::from(count > 0);
        // Some are called for each access to memory.
        (1..=count.min(25)).for_each(|number| outcomes.fail(&standin, name, number));
    }
    let Outcomes { functions, errors, made_up_for } = outcomes;
    println!(
        "{functions} functions failed in {} calls: {errors} errors, {made_up_for} made up for",
        errors + made_up_for
    );
    assert!(functions > 15 && errors > 60, "{functions} functions, {errors} errors");
}

/// The functions that are called by the first use of a device, and by the first use of a kernel.
const FIRST: [(&str, u32); 14] = [
    ("cuInit", 1),
    ("cuDriverGetVersion", 1),
    ("cuDeviceGetCount", 1),
    ("cuDeviceGet", 1),
    ("cuDeviceGetName", 1),
    ("cuDeviceGetAttribute", 2),
    ("cuDevicePrimaryCtxRetain", 1),
    ("cuCtxSetCurrent", 1),
    ("cuStreamCreate", 1),
    ("cuMemHostAlloc", 4),
    ("cuMemsetD8Async", 1),
    ("cuEventCreate", 3),
    ("cuModuleLoadData", 1),
    ("cuModuleGetFunction", 1),
];

#[test]
fn each_first_call_fails_once() {
    if is_child() {
        // It may be an error for good, or for once, or be made up for: never a panic.
        let (first, second) = (work(), work());
        for outcome in [&first, &second] {
            match outcome {
                Ok(value) => assert_eq!(*value, EXPECTED),
                Err(error) => {
                    assert!(matches!(error.kind(), ErrorKind::Device | ErrorKind::OutOfMemory), "{error}");
                }
            }
        }
        // The host works on.
        assert_eq!(Tensor::ones(&[2], ScalarType::F32).unwrap().to_vec::<f32>().unwrap(), [1.0; 2]);
        println!("{}", if first.is_err() { "an error" } else { "made up for" });
        println!("{}", if second.is_err() { "for good" } else { "and the next call works" });
        return;
    }
    let Some(nvrtc) = nvrtc() else {
        println!("1 check skipped: NVRTC was not fetched");
        return;
    };
    let (mut errors, mut for_good, mut calls) = (0, 0, 0);
    for (name, count) in FIRST {
        for number in 1..=count {
            let text = in_child("each_first_call_fails_once", &nvrtc, &format!("{name}:{number}"));
            let text = text.unwrap_or_else(|text| panic!("{text}"));
            errors += usize::from(text.contains("an error"));
            for_good += usize::from(text.contains("for good"));
            calls += 1;
        }
    }
    println!(
        "{calls} first calls of {} functions failed: {errors} errors, {for_good} of them for good",
        FIRST.len()
    );
    assert!(errors >= 15, "{errors}");
}

/// A product in the default stream, and one in another.
fn products() -> Result<f32> {
    let ones = |sizes: &[i64]| Tensor::ones(sizes, (ScalarType::F32, Device::cuda(0)));
    let first = ops::mm(&ones(&[3, 4])?, &ones(&[4, 5])?)?;
    let _guard = Stream::new(0)?.enter()?;
    ops::mm(&ones(&[2, 3])?, &first)?.sum()?.item::<f32>()
}

#[test]
fn each_call_of_cublas_fails_once() {
    const EXPECTED: f32 = 120.0;
    if is_child() {
        let first = products();
        match &first {
            Ok(value) => assert_eq!(*value, EXPECTED),
            Err(error) => {
                let is_named = error.to_string().contains("cublasGemmStridedBatchedEx");
                assert!(is_named && error.kind() == ErrorKind::Device, "{error}");
            }
        }
        assert_eq!(products().unwrap(), EXPECTED);
        println!(
            "{}, {} by cuBLAS",
            if first.is_err() { "an error" } else { "right" },
            testing::products_by_cublas()
        );
        return;
    }
    let Some(nvrtc) = nvrtc() else {
        println!("1 check skipped: NVRTC was not fetched");
        return;
    };
    // The same library is the one of cuBLAS where it is found under that name.
    let links = folder().join("standin-cublas");
    std::fs::create_dir_all(&links).unwrap();
    let link = links.join("libcublas.so");
    let _ = std::fs::remove_file(&link);
    std::os::unix::fs::symlink(library(), &link).unwrap();
    let variables = [("FLAMBEAU_CUDA_BLAS", "library"), ("LD_LIBRARY_PATH", links.to_str().unwrap())];
    let run =
        |failing: &str| in_child_with("each_call_of_cublas_fails_once", &nvrtc, failing, &variables).unwrap();
    assert!(run("").contains("right, 4 by cuBLAS"), "{}", run(""));
    // Without a handle the other kernel computes the products of that stream.
    for function in ["cublasCreate_v2", "cublasSetStream_v2", "cublasSetWorkspace_v2"] {
        for (number, count) in [(1, 2), (2, 3)] {
            let text = run(&format!("{function}:{number}"));
            assert!(text.contains(&format!("right, {count} by cuBLAS")), "{function}:{number}: {text}");
        }
    }
    for number in [1, 2] {
        assert!(run(&format!("cublasGemmStridedBatchedEx:{number}")).contains("an error"));
    }
    println!("4 functions of cuBLAS failed in 8 calls: 2 errors, 6 made up for");
}
