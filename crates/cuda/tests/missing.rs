//! What programs are told where something is missing: each in a process of its own.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use flambeau_core::{Device, ErrorKind, ScalarType};
use flambeau_cuda as _;
use flambeau_ops::Tensor;
use std::process::Command;

/// Set in the processes that a test starts.
const CHILD: &str = "FLAMBEAU_CUDA_TEST_CHILD";

/// Runs the test of this name again, in another process with these variables, and returns what it printed.
fn in_child(test: &str, variables: &[(&str, &str)]) -> String {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]).env(CHILD, "1");
    command.envs(variables.iter().copied());
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

#[test]
fn without_a_driver_every_use_is_the_same_error() {
    if !is_child() {
        in_child(
            "without_a_driver_every_use_is_the_same_error",
            &[("FLAMBEAU_CUDA_DRIVER", "libmissing.so.1")],
        );
        return;
    }
    let device = Device::cuda(0);
    let first = Tensor::ones(&[2], (ScalarType::F32, device)).map(drop).unwrap_err();
    let second = Tensor::from([1.0f32]).to(device).map(drop).unwrap_err();
    for error in [&first, &second] {
        assert_eq!(error.kind(), ErrorKind::Device, "{error}");
        let text = error.to_string();
        assert!(text.contains("no driver is installed") && text.contains("libmissing.so.1"), "{text}");
    }
    assert!(!flambeau_cuda::is_available());
    assert!(flambeau_cuda::device_count().is_err() && flambeau_cuda::synchronize(0).is_err());
    assert!(flambeau_cuda::properties(3).is_err());
    flambeau_cuda::empty_cache();
    // The host is not affected.
    assert_eq!(Tensor::ones(&[2], ScalarType::F32).unwrap().to_vec::<f32>().unwrap(), [1.0; 2]);
}

#[test]
fn a_library_that_is_no_driver_is_an_error() {
    if !is_child() {
        let libc = ("FLAMBEAU_CUDA_DRIVER", "libc.so.6");
        in_child("a_library_that_is_no_driver_is_an_error", &[libc]);
        return;
    }
    let error = Tensor::ones(&[2], (ScalarType::F32, Device::cuda(0))).map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Device);
    assert!(error.to_string().contains("cuInit"), "{error}");
}

#[test]
fn without_nvrtc_the_error_says_how_to_install_it() {
    if !is_child() {
        let none = [
            ("FLAMBEAU_CUDA_PATH", "/missing"),
            ("VIRTUAL_ENV", ""),
            ("CUDA_HOME", ""),
            ("CONDA_PREFIX", ""),
        ];
        in_child("without_nvrtc_the_error_says_how_to_install_it", &none);
        return;
    }
    // It may be installed where the system finds it.
    if let Err(error) = flambeau_cuda::testing::nvrtc_version() {
        assert_eq!(error.kind(), ErrorKind::Device);
        assert!(error.to_string().contains("pip install nvidia-cuda-nvrtc"), "{error}");
    } else {
        println!("1 check skipped: NVRTC is installed");
    }
}
