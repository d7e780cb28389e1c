//! The engine `nccl` on the stand-in, whose library has the functions of NCCL too: this program starts itself once for each rank.
//!
//! NVRTC is what `cargo xtask cuda-tools` fetched; without it the tests are skipped, and counted.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(unsafe_code, reason = "the test calls a function of the stand-in")]

mod library;

use flambeau_core::{Device, Result, ScalarType};
use flambeau_cuda as _;
use flambeau_distributed::{Environment, ProcessGroup, ProcessGroupOptions, ReduceOp, Work};
use flambeau_ops::Tensor;
use library::{folder, library, nvrtc, symbol};
use std::ffi::CString;
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::time::Duration;

fn group() -> Result<ProcessGroup> {
    let (engine, timeout) = ("nccl".to_owned(), Duration::from_secs(60));
    let options = ProcessGroupOptions { engine, timeout, ..Default::default() };
    ProcessGroup::from_environment(&Environment::from_env()?, options)
}

/// Runs `body` in `size` processes, each as one rank, in which the driver's call that `failing` names for a rank fails.
fn on_ranks(test: &str, size: usize, failing: &dyn Fn(usize) -> String, body: impl FnOnce(ProcessGroup)) {
    if std::env::var_os("RANK").is_some() {
        return body(group().unwrap());
    }
    let Some(nvrtc) = nvrtc() else {
        println!("1 check skipped: NVRTC was not fetched");
        return;
    };
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let start = |rank: usize| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args([test, "--exact", "--nocapture", "--test-threads=1"]);
        command.env("RANK", rank.to_string()).env("WORLD_SIZE", size.to_string());
        command.env("MASTER_ADDR", "127.0.0.1").env("MASTER_PORT", port.to_string());
        command.env("FLAMBEAU_CUDA_DRIVER", library()).env("FLAMBEAU_NCCL_LIBRARY", library());
        command.env("FLAMBEAU_CUDA_PATH", &nvrtc).env("FLAMBEAU_CACHE", folder().join("standin-cache"));
        command.env("FLAMBEAU_CUDA_BLAS", "own").env("CUDA_FORCE_PTX_JIT", "1");
        command.env("FLAMBEAU_STANDIN_FAIL", failing(rank)).env_remove("CUDA_VISIBLE_DEVICES");
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let ranks: Vec<_> = (0..size).map(start).collect();
    for (rank, child) in ranks.into_iter().enumerate() {
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "rank {rank} of {size}:\n{text}");
        let counted = text.lines().filter(|line| line.contains("tensors compared"));
        counted.for_each(|line| println!("{line}"));
    }
}

fn none_fails(_: usize) -> String {
    String::new()
}

/// How often a function of the library was called.
fn calls(name: &str) -> u64 {
    let name = CString::new(name).unwrap();
    // SAFETY: the library is this project's, and its function has this type and takes a text that ends with a zero byte.
    unsafe {
        let count = std::mem::transmute::<*mut libc::c_void, unsafe extern "C" fn(*const i8) -> u64>(symbol(
            c"flambeau_standin_count",
        ));
        count(name.as_ptr().cast())
    }
}

/// The device of a rank: not all have the same number.
fn device_of(rank: usize) -> Device {
    Device::cuda((rank % 2) as u8)
}

/// Element `i` of the tensor of a rank: small integers, which all dtypes hold.
fn value(rank: usize, i: usize) -> f64 {
    ((i * 31 + rank * 17) % 7) as f64 - if (i + rank).is_multiple_of(5) { 2.0 } else { 0.0 }
}

fn tensor(rank: usize, count: usize, kind: (ScalarType, Device)) -> Result<Tensor> {
    let values = (0..count).map(|i| value(rank, i)).collect();
    Tensor::from_vec(values, &[count as i64])?.to_dtype(kind.0)?.to(kind.1)
}

fn read(tensor: &Tensor) -> Result<Vec<f64>> {
    tensor.to(Device::CPU)?.to_dtype(ScalarType::F64)?.reshape(&[-1])?.to_vec()
}

fn values(rank: usize, count: usize) -> Vec<f64> {
    (0..count).map(|i| value(rank, i)).collect()
}

/// Every collective on a device, beside loops in f64.
fn collectives(group: &ProcessGroup, count: usize, kind: (ScalarType, Device)) -> Result<usize> {
    let (rank, size) = (group.rank(), group.size());
    let own = |number: usize| tensor(number, count, kind);
    let zeros = || Tensor::zeros(&[count as i64], kind);
    let list =
        |make: &dyn Fn(usize) -> Result<Tensor>, count| (0..count).map(make).collect::<Result<Vec<_>>>();
    let fold = |combine: fn(f64, f64) -> f64| -> Vec<f64> {
        (0..count).map(|i| (1..size).fold(value(0, i), |sum, rank| combine(sum, value(rank, i)))).collect()
    };
    let root = size - 1;
    let [sum, maximum, product, reduced] = [own(rank)?, own(rank)?, own(rank)?, own(rank)?];
    let [received, scattered, part] = [own(rank)?, zeros()?, zeros()?];
    let (gathered, exchanged) = (list(&|_| zeros(), size)?, list(&|_| zeros(), size)?);
    let to_root = list(&|_| zeros(), if rank == root { size } else { 0 })?;
    let from_root = list(&|to| own(10 + to), if rank == root { size } else { 0 })?;
    let works = [
        group.all_reduce(&sum, ReduceOp::Sum)?,
        group.all_reduce(&maximum, ReduceOp::Max)?,
        group.all_reduce(&product, ReduceOp::Product)?,
        group.reduce(&reduced, root, ReduceOp::Sum)?,
        group.broadcast(&received, root)?,
        group.all_gather(&gathered, &own(rank)?)?,
        group.gather(&own(rank)?, &to_root, root)?,
        group.scatter(&scattered, &from_root, root)?,
        group.reduce_scatter(&part, &list(&|_| own(rank), size)?, ReduceOp::Sum)?,
        group.all_to_all(&exchanged, &list(&|to| own(10 * rank + to), size)?)?,
    ];
    works.iter().try_for_each(Work::wait)?;
    assert_eq!(read(&sum)?, fold(|a, b| a + b));
    assert_eq!(read(&maximum)?, fold(f64::max));
    assert_eq!(read(&product)?, fold(|a, b| a * b));
    assert_eq!(read(&reduced)?, if rank == root { fold(|a, b| a + b) } else { values(rank, count) });
    assert_eq!(read(&received)?, values(root, count));
    assert_eq!(read(&scattered)?, values(10 + rank, count));
    assert_eq!(read(&part)?, fold(|a, b| a + b));
    for from in 0..size {
        assert_eq!(read(&gathered[from])?, values(from, count));
        assert_eq!(read(&exchanged[from])?, values(10 * from + rank, count));
    }
    to_root.iter().enumerate().try_for_each(|(from, output)| {
        assert_eq!(read(output)?, values(from, count));
        Ok::<(), flambeau_core::Error>(())
    })?;
    Ok(7 + 2 * size + to_root.len())
}

/// Numbers whose sums are rounded have the bits of the host, also with gaps between them.
fn same_bits(group: &ProcessGroup, count: usize, kind: (ScalarType, Device)) -> Result<()> {
    let number = |i: usize| ((i * 7919 + group.rank() * 104_729) % 1009) as f64 * 1.0e-3 - 0.3;
    let here =
        Tensor::from_vec((0..2 * count).map(number).collect(), &[count as i64, 2])?.to_dtype(kind.0)?;
    let there = here.to(kind.1)?;
    for op in [ReduceOp::Sum, ReduceOp::Avg] {
        group.all_reduce(&here.select(1, 0)?, op)?.wait()?;
        group.all_reduce(&there.select(1, 0)?, op)?.wait()?;
        let bytes = |tensor: &Tensor| tensor.to(Device::CPU)?.view_dtype(ScalarType::U8)?.to_vec::<u8>();
        assert_eq!(bytes(&here)?, bytes(&there)?, "{op:?} of {count} {}", kind.0);
    }
    Ok(())
}

fn every_collective(group: ProcessGroup, dtypes: &[ScalarType], counts: &[usize]) -> Result<()> {
    let device = device_of(group.rank());
    let mut compared = 0;
    for dtype in dtypes {
        for count in counts {
            compared += collectives(&group, *count, (*dtype, device))?;
            if dtype.is_floating_point() {
                same_bits(&group, *count, (*dtype, device))?;
            }
        }
    }
    // Of two groups, which have communicators of their own, at the same time.
    let halves = [group.new_group(&[0])?, group.new_group(&(1..group.size()).collect::<Vec<_>>())?];
    for half in halves.iter().flatten() {
        let x = Tensor::ones(&[5], (ScalarType::F32, device))?;
        let (of_half, of_all) = (half.all_reduce(&x, ReduceOp::Sum)?, group.barrier()?);
        of_half.wait()?;
        of_all.wait()?;
        assert_eq!(read(&x)?, vec![half.size() as f64; 5]);
    }
    // The store ends with rank 0, and the others need it until they have joined their half.
    group.barrier()?.wait()?;
    let (sent, joined) = (calls("ncclSend"), calls("ncclCommInitRank"));
    println!("rank {}: {compared} tensors compared, {sent} messages by {joined} communicators", group.rank());
    assert_eq!(group.engine(), "nccl");
    assert!(sent as usize > compared / 2 && joined >= 1, "{sent} messages, {joined} communicators");
    Ok(())
}

#[test]
fn collectives_on_two_ranks() {
    let dtypes = [ScalarType::F32, ScalarType::F64, ScalarType::BF16, ScalarType::I64];
    on_ranks("collectives_on_two_ranks", 2, &none_fails, |group| {
        every_collective(group, &dtypes, &[0, 1, 7, 1001, 5001]).unwrap();
    });
}

#[test]
fn collectives_on_four_ranks() {
    on_ranks("collectives_on_four_ranks", 4, &none_fails, |group| {
        every_collective(group, &[ScalarType::F32], &[1, 3, 5001]).unwrap();
    });
}

/// A rank whose tensor is on the host makes another call, and outputs of the wrong size are found before anything is sent.
#[test]
fn mistakes_are_errors_on_all_ranks() {
    on_ranks("mistakes_are_errors_on_all_ranks", 2, &none_fails, |group| {
        let device = if group.rank() == 0 { Device::cuda(0) } else { Device::CPU };
        let x = Tensor::ones(&[3], (ScalarType::F32, device)).unwrap();
        let e = group.all_reduce(&x, ReduceOp::Sum).unwrap().wait().unwrap_err();
        assert!(e.message().contains("(Sum, on cuda)"), "{e}");
        let list = [x, Tensor::ones(&[3], (ScalarType::F32, Device::cuda(1))).unwrap()];
        let e = group.all_gather(&list, &list[0]).err().unwrap();
        assert!(e.message().contains("expected tensors on one device"), "{e}");
    });
}

#[test]
fn an_abort_ends_the_calls_of_all_ranks() {
    on_ranks("an_abort_ends_the_calls_of_all_ranks", 2, &none_fails, |group| {
        let x = Tensor::ones(&[3], (ScalarType::F32, Device::cuda(0))).unwrap();
        group.all_reduce(&x, ReduceOp::Sum).unwrap().wait().unwrap();
        match group.rank() {
            0 => group.store().set("first", b"1").unwrap(),
            // An abort would end the first call of a rank that still waits for it.
            _ => {
                group.store().get("first", Duration::from_secs(60)).unwrap();
                group.abort("no more of it");
            }
        }
        let outcome = group.all_reduce(&x, ReduceOp::Sum).and_then(|work| work.wait());
        assert!(outcome.unwrap_err().message().contains("no more of it"));
    });
}

/// The message of the error that each of two ranks gets where a call of rank 0 fails.
fn failing(test: &str, call: &str, expected: &[&str]) {
    let on_first = |rank: usize| if rank == 0 { call.to_owned() } else { String::new() };
    on_ranks(test, 2, &on_first, |group| {
        let x = Tensor::ones(&[3], (ScalarType::F32, Device::cuda(0))).unwrap();
        let e = group.all_reduce(&x, ReduceOp::Sum).unwrap().wait().unwrap_err();
        assert!(expected.iter().all(|part| e.message().contains(part)), "{expected:?}: {e}");
        let e = group.barrier().and_then(|work| work.wait()).unwrap_err();
        assert!(e.message().contains("the process group is broken"), "{e}");
        // The store ends with rank 0, which waits until the other one has had its error. It may end before it has answered that.
        match group.rank() {
            0 => drop(group.store().get("done", Duration::from_secs(60)).unwrap()),
            _ => drop(group.store().set("done", b"1")),
        }
    });
}

#[test]
fn a_call_that_fails_to_send_is_an_error_on_all_ranks() {
    let expected =
        ["ncclSend failed: unhandled cuda error (1)", "all_reduce number 0 of float32 [3] (Sum, on cuda)"];
    failing("a_call_that_fails_to_send_is_an_error_on_all_ranks", "ncclSend:1", &expected);
}

#[test]
fn a_call_that_fails_to_end_a_group_is_an_error_on_all_ranks() {
    failing(
        "a_call_that_fails_to_end_a_group_is_an_error_on_all_ranks",
        "ncclGroupEnd:1",
        &["ncclGroupEnd failed"],
    );
}

#[test]
fn a_rank_without_an_identity_tells_the_others() {
    failing("a_rank_without_an_identity_tells_the_others", "ncclGetUniqueId:1", &["ncclGetUniqueId failed"]);
}

/// The library is searched for, and what was looked for is named.
#[test]
fn without_the_library_the_error_says_where_it_was_looked_for() {
    const NAME: &str = "without_the_library_the_error_says_where_it_was_looked_for";
    const EXPECTED: &str = "EXPECTED_IN_ERROR";
    if let Ok(expected) = std::env::var(EXPECTED) {
        let store = std::sync::Arc::new(flambeau_distributed::HashStore::default());
        let options = ProcessGroupOptions { engine: "nccl".to_owned(), ..Default::default() };
        let e = ProcessGroup::new(store, 0, 1, options).err().unwrap();
        assert!(expected.split('|').all(|part| e.message().contains(part)), "{e}");
        return;
    }
    let run = |path: Option<&str>, expected: &str| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args([NAME, "--exact"]).env(EXPECTED, expected).env_remove("FLAMBEAU_NCCL_LIBRARY");
        command.envs(path.map(|path| ("FLAMBEAU_NCCL_LIBRARY", path)));
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    };
    let everywhere = "libnccl.so.2, in the search path|nvidia-nccl|FLAMBEAU_NCCL_LIBRARY";
    run(Some("/absent/libnccl.so.2"), &format!("{everywhere}|/absent/libnccl.so.2: "));
    run(Some("libc.so.6"), "the library of NCCL is too old|ncclGetUniqueId");
    if !flambeau_distributed::engine::is_nccl_available() {
        run(None, &format!("{everywhere}|libnccl.so.2: "));
    }
}
