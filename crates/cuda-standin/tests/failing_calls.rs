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

use flambeau_core::{Device, ErrorKind, Result, ScalarType};
use flambeau_cuda as _;
use flambeau_ops::{Tensor, ops};
use std::ffi::{CStr, CString};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder of the test's executable, in which cargo puts the library too.
fn folder() -> PathBuf {
    std::env::current_exe().unwrap().parent().unwrap().to_owned()
}

fn library() -> PathBuf {
    folder().join("libflambeau_cuda_standin.so")
}

/// The folder of NVRTC; `None` if it was not fetched.
fn nvrtc() -> Option<PathBuf> {
    let target = folder().ancestors().nth(2)?.to_owned();
    Some(target.join("cuda-tools/nvidia/cu13/lib")).filter(|folder| folder.exists())
}

/// Set in the processes that a test starts.
const CHILD: &str = "FLAMBEAU_STANDIN_TEST_CHILD";

/// Runs a test in another process, where the stand-in is the driver. Returns what it printed; `None` if it failed.
fn in_child(test: &str, nvrtc: &Path, failing: &str) -> std::result::Result<String, String> {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]).env(CHILD, "1");
    command.env("FLAMBEAU_CUDA_DRIVER", library()).env("FLAMBEAU_CUDA_PATH", nvrtc);
    command
        .env("FLAMBEAU_CACHE", folder().join("standin-cache"))
        .env("FLAMBEAU_CUDA_BLAS", "own")
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
        let path = CString::new(library().to_str().unwrap()).unwrap();
        // SAFETY: the library is this project's, and its functions have these types.
        unsafe {
            let handle = libc::dlopen(path.as_ptr(), libc::RTLD_NOW);
            assert!(!handle.is_null(), "{path:?}");
            let symbol = |name: &CStr| libc::dlsym(handle, name.as_ptr());
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

/// Copies, kernels, a lookup by indices and waits; the sum that it gives is always the same.
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
    Ok(sum + rows.add(&zeros)?.sum()?.item::<f32>()? + there.sum()?.item::<f32>()?)
}

/// What [`work`] gives: twice the sum of 0 to 99, rows 3, 7 and 7, and 1 and 2.
const EXPECTED: f32 = 9900.0 + 13.0 + 29.0 + 29.0 + 3.0;

/// The functions that are called once devices are in use.
const REPEATED: [&str; 9] = [
    "cuMemAlloc_v2",
    "cuMemHostAlloc",
    "cuEventCreate",
    "cuMemcpyHtoDAsync_v2",
    "cuMemcpyDtoHAsync_v2",
    "cuEventRecord",
    "cuEventSynchronize",
    "cuStreamSynchronize",
    "cuLaunchKernel",
];

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
    let live = standin.count("");
    standin.fail_at("", 0);
    assert_eq!(work().unwrap(), EXPECTED);
    let counts = REPEATED.map(|name| (name, standin.count(name)));
    let mut failed = 0;
    for (name, count) in counts {
        assert!(count > 0, "{name} was not called");
        for number in 1..=count {
            flambeau_cuda::empty_cache();
            standin.fail_at(name, number);
            let outcome = work();
            // The next call of the device works.
            standin.fail_at("", 0);
            assert_eq!(work().unwrap(), EXPECTED, "after {name}:{number}");
            flambeau_cuda::empty_cache();
            assert_eq!(standin.count(""), live, "allocations after {name}:{number}");
            match outcome {
                Err(error) => {
                    let text = error.to_string();
                    let is_known = matches!(error.kind(), ErrorKind::Device | ErrorKind::OutOfMemory);
                    assert!(
                        is_known && (name.contains("Alloc") || text.contains(name.trim_end_matches("_v2"))),
                        "{name}: {text}"
                    );
                    failed += 1;
                }
                // Memory is tried again after cached blocks were given back.
                Ok(value) => {
                    assert!(name == "cuMemAlloc_v2" && value == EXPECTED, "{name}:{number}: {value}")
                }
            }
        }
    }
    println!("{failed} calls failed, each with an error");
    assert!(failed > 20, "{failed}");
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
        return;
    }
    let Some(nvrtc) = nvrtc() else {
        println!("1 check skipped: NVRTC was not fetched");
        return;
    };
    let mut errors = 0;
    for (name, count) in FIRST {
        for number in 1..=count {
            let text = in_child("each_first_call_fails_once", &nvrtc, &format!("{name}:{number}"));
            let text = text.unwrap_or_else(|text| panic!("{text}"));
            errors += usize::from(text.contains("an error"));
        }
    }
    println!("{errors} calls failed, each with an error");
    assert!(errors >= 15, "{errors}");
}
