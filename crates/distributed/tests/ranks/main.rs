//! Process groups of real processes: this binary starts itself once for each rank.

#![allow(clippy::unwrap_used, reason = "a call that fails, fails the test")]

mod features;
mod training;

use flambeau_core::{Complex, Result, ScalarType};
use flambeau_distributed::{Environment, ProcessGroup, ProcessGroupOptions, ReduceOp};
use flambeau_ops::Tensor;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How a rank of a test connects.
fn options(timeout: f64) -> ProcessGroupOptions {
    ProcessGroupOptions { timeout: Duration::from_secs_f64(timeout), ..Default::default() }
}

fn start(test: &str, size: usize, environment: &[(&str, String)]) -> Vec<Child> {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let start = |rank: usize| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args([test, "--exact", "--nocapture", "--test-threads=1"]);
        command.env("RANK", rank.to_string()).env("WORLD_SIZE", size.to_string());
        command.env("MASTER_ADDR", "127.0.0.1").env("MASTER_PORT", port.to_string());
        command.envs(environment.iter().map(|(name, value)| (name, value)));
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    (0..size).map(start).collect()
}

/// Runs `body` in `size` processes, each as one rank, and expects it to succeed in those of `surviving`.
fn on_ranks(
    test: &str,
    size: usize,
    options: ProcessGroupOptions,
    surviving: &[usize],
    body: impl FnOnce(ProcessGroup),
) {
    if std::env::var_os("RANK").is_some() {
        let environment = Environment::from_env().unwrap();
        return body(ProcessGroup::from_environment(&environment, options).unwrap());
    }
    for (rank, child) in start(test, size, &[]).into_iter().enumerate() {
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() || !surviving.contains(&rank), "rank {rank} of {size}:\n{text}");
    }
}

/// Element `i` of the tensor of a rank: small integers, which all dtypes hold.
fn value(rank: usize, i: usize) -> f64 {
    ((i * 31 + rank * 17) % 7) as f64 - if (i + rank).is_multiple_of(5) { 2.0 } else { 0.0 }
}

fn tensor(rank: usize, count: usize, dtype: ScalarType) -> Tensor {
    let values: Vec<f64> = (0..count).map(|i| value(rank, i)).collect();
    Tensor::from_vec(values, &[count as i64]).unwrap().to_dtype(dtype).unwrap()
}

/// The values, converted to f64 by the same operators on every dtype.
fn read(tensor: &Tensor) -> Vec<f64> {
    tensor.to_dtype(ScalarType::F64).unwrap().to_vec().unwrap()
}

fn reduced(size: usize, count: usize, fold: impl Fn(f64, f64) -> f64) -> Vec<f64> {
    (0..count).map(|i| (1..size).fold(value(0, i), |sum, rank| fold(sum, value(rank, i)))).collect()
}

const DTYPES: [ScalarType; 7] = [
    ScalarType::F32,
    ScalarType::F64,
    ScalarType::BF16,
    ScalarType::F16,
    ScalarType::I64,
    ScalarType::I32,
    ScalarType::I16,
];

/// Empty tensors, odd counts, counts on both sides of the limit between one round and two.
const COUNTS: [usize; 5] = [0, 1, 7, 1001, 70_001];

/// How a reduction combines two elements.
type Fold = fn(f64, f64) -> f64;

fn reductions(group: &ProcessGroup, count: usize, dtype: ScalarType) -> Result<()> {
    let (rank, size) = (group.rank(), group.size());
    let folds: [(ReduceOp, Fold); 4] = [
        (ReduceOp::Sum, |a, b| a + b),
        (ReduceOp::Product, |a, b| a * b),
        (ReduceOp::Min, f64::min),
        (ReduceOp::Max, f64::max),
    ];
    for (op, fold) in folds {
        let x = tensor(rank, count, dtype);
        group.all_reduce(&x, op)?.wait()?;
        assert_eq!(read(&x), reduced(size, count, fold), "{op:?} of {dtype} {count}");
        let x = tensor(rank, count, dtype);
        group.reduce(&x, size - 1, op)?.wait()?;
        let expected =
            if rank == size - 1 { reduced(size, count, fold) } else { read(&tensor(rank, count, dtype)) };
        assert_eq!(read(&x), expected);
        let (inputs, output) = (vec![tensor(rank, count, dtype); size], tensor(9, count, dtype));
        group.reduce_scatter(&output, &inputs, op)?.wait()?;
        assert_eq!(read(&output), reduced(size, count, fold));
    }
    Ok(())
}

fn movements(group: &ProcessGroup, count: usize, dtype: ScalarType) -> Result<()> {
    let (rank, size) = (group.rank(), group.size());
    let x = |rank| tensor(rank, count, dtype);
    let empty = || Tensor::zeros(&[count as i64], dtype);
    for root in 0..size {
        let received = x(rank);
        group.broadcast(&received, root)?.wait()?;
        assert_eq!(read(&received), read(&x(root)));
        let outputs: Result<Vec<Tensor>> =
            (0..if rank == root { size } else { 0 }).map(|_| empty()).collect();
        let outputs = outputs?;
        group.gather(&x(rank), &outputs, root)?.wait()?;
        assert!(outputs.iter().enumerate().all(|(from, output)| read(output) == read(&x(from))));
        let inputs: Vec<Tensor> =
            if rank == root { (0..size).map(|to| x(root * 10 + to)).collect() } else { vec![] };
        let received = empty()?;
        group.scatter(&received, &inputs, root)?.wait()?;
        assert_eq!(read(&received), read(&x(root * 10 + rank)));
    }
    let outputs: Result<Vec<Tensor>> = (0..size).map(|_| empty()).collect();
    let outputs = outputs?;
    group.all_gather(&outputs, &x(rank))?.wait()?;
    assert!(outputs.iter().enumerate().all(|(from, output)| read(output) == read(&x(from))));
    let whole = Tensor::zeros(&[size as i64, count as i64], dtype)?;
    group.all_gather_into_tensor(&whole, &x(rank))?.wait()?;
    assert_eq!(read(&whole), (0..size).flat_map(|from| read(&x(from))).collect::<Vec<f64>>());
    let inputs: Vec<Tensor> = (0..size).map(|to| x(rank * 10 + to)).collect();
    group.all_to_all(&outputs, &inputs)?.wait()?;
    assert!(outputs.iter().enumerate().all(|(from, output)| read(output) == read(&x(from * 10 + rank))));
    group.barrier()?.wait()
}

fn collectives(test: &str, size: usize) {
    on_ranks(test, size, options(30.0), &(0..size).collect::<Vec<_>>(), |group| {
        for dtype in DTYPES {
            for count in COUNTS {
                reductions(&group, count, dtype).unwrap();
                movements(&group, count, dtype).unwrap();
            }
        }
        strided_and_other_dtypes(&group).unwrap();
    });
}

/// Tensors with gaps, bools, bits and complex numbers.
fn strided_and_other_dtypes(group: &ProcessGroup) -> Result<()> {
    let (rank, size) = (group.rank(), group.size() as i64);
    let matrix = Tensor::from_vec((0..6).map(f64::from).collect(), &[2, 3])?;
    group.all_reduce(&matrix.t()?, ReduceOp::Sum)?.wait()?;
    assert_eq!(read(&matrix), (0..6).map(|i| f64::from(i) * size as f64).collect::<Vec<_>>());
    let flags = Tensor::from([rank == 0, false, true]);
    group.all_reduce(&flags, ReduceOp::Max)?.wait()?;
    assert_eq!(flags.to_vec::<bool>()?, [true, false, true]);
    let bits = Tensor::from([1u8 << rank]);
    group.all_reduce(&bits, ReduceOp::Bor)?.wait()?;
    assert_eq!(bits.to_vec::<u8>()?, [((1u16 << size) - 1) as u8]);
    let number = Tensor::from([Complex { re: 1.0f64, im: rank as f64 }]);
    group.all_reduce(&number, ReduceOp::Avg)?.wait()?;
    let mean = Complex { re: 1.0, im: (size - 1) as f64 / 2.0 };
    assert_eq!(number.to_vec::<Complex<f64>>()?, [mean]);
    Ok(())
}

#[test]
fn collectives_of_two_ranks_match_loops() {
    collectives("collectives_of_two_ranks_match_loops", 2);
}

#[test]
fn collectives_of_three_ranks_match_loops() {
    collectives("collectives_of_three_ranks_match_loops", 3);
}

#[test]
fn sums_have_the_bits_of_the_tree() {
    on_ranks("sums_have_the_bits_of_the_tree", 4, options(30.0), &[0, 1, 2, 3], |group| {
        let of_rank = |rank: usize| -> Vec<f32> {
            (0..9001)
                .map(|i| ((i * 7919 + rank * 104_729) % 1009) as f32 * 1.0e-3 + 1.0e4 * (rank % 3) as f32)
                .collect()
        };
        let [a, b, c, d] = [0, 1, 2, 3].map(of_rank);
        let x = Tensor::from_vec(of_rank(group.rank()), &[9001]).unwrap();
        group.all_reduce(&x, ReduceOp::Sum).unwrap().wait().unwrap();
        let found: Vec<u32> = x.to_vec::<f32>().unwrap().iter().map(|x| x.to_bits()).collect();
        let expected: Vec<u32> = (0..9001).map(|i| ((a[i] + b[i]) + (c[i] + d[i])).to_bits()).collect();
        assert!(found == expected);
    });
}

#[test]
fn messages_are_matched_by_rank_and_tag() {
    on_ranks("messages_are_matched_by_rank_and_tag", 3, options(20.0), &[0, 1, 2], |group| {
        let (rank, zero) = (group.rank(), || Tensor::from([0i64]));
        let next = (rank + 1) % 3;
        // Both directions at once, received in the reverse of the order in which they were sent.
        let sent: Vec<_> = (0..4)
            .map(|tag| group.send(&Tensor::from([10 * rank as i64 + tag]), next, tag).unwrap())
            .collect();
        for tag in (0..4).rev() {
            let x = zero();
            group.recv(&x, Some((rank + 2) % 3), tag).unwrap().wait().unwrap();
            assert_eq!(x.to_vec::<i64>().unwrap(), [10 * ((rank as i64 + 2) % 3) + tag]);
        }
        sent.iter().for_each(|work| work.wait().unwrap());
        // From any rank.
        if rank == 0 {
            let mut sources = Vec::new();
            for _ in 0..2 {
                let x = zero();
                let work = group.recv(&x, None, 9).unwrap();
                work.wait().unwrap();
                assert_eq!(x.to_vec::<i64>().unwrap(), [work.source_rank().unwrap() as i64]);
                sources.extend(work.source_rank());
            }
            sources.sort_unstable();
            assert_eq!(sources, [1, 2]);
        } else {
            group.send(&Tensor::from([rank as i64]), 0, 9).unwrap().wait().unwrap();
        }
        // A message of another dtype is an error of that call alone.
        if rank == 1 {
            group.send(&Tensor::from([1.0f32]), 2, 5).unwrap().wait().unwrap();
        }
        if rank == 2 {
            let e = group.recv(&zero(), Some(1), 5).unwrap().wait().unwrap_err();
            assert!(
                e.message().contains("expected a tensor of int64 [1] but rank 1 sent one of float32 [1]"),
                "{e}"
            );
        }
        group.barrier().unwrap().wait().unwrap();
    });
}

#[test]
fn subgroups_have_their_own_ranks() {
    on_ranks("subgroups_have_their_own_ranks", 3, options(20.0), &[0, 1, 2], |group| {
        let outer = group.new_group(&[2, 0]).unwrap();
        let all = group.new_group(&[0, 1, 2]).unwrap().unwrap();
        assert_eq!(outer.is_some(), group.rank() != 1);
        if let Some(outer) = &outer {
            assert_eq!((outer.ranks(), outer.rank()), ([0, 2].as_slice(), group.rank() / 2));
            let x = Tensor::from([group.rank() as i64 + 1]);
            outer.all_reduce(&x, ReduceOp::Sum).unwrap().wait().unwrap();
            assert_eq!(x.to_vec::<i64>().unwrap(), [4]);
        }
        let x = Tensor::from([1i64]);
        all.all_reduce(&x, ReduceOp::Sum).unwrap().wait().unwrap();
        assert_eq!(x.to_vec::<i64>().unwrap(), [3]);
        group.barrier().unwrap().wait().unwrap();
        let lists: [&[usize]; 3] = [&[0, 1], &[0, 2], &[0, 1]];
        let different = group.new_group(lists[group.rank()]).map(drop);
        let failed = Tensor::from([i64::from(different.is_err())]);
        group.all_reduce(&failed, ReduceOp::Sum).unwrap().wait().unwrap();
        assert!(failed.to_vec::<i64>().unwrap()[0] >= 1);
    });
}

#[test]
fn other_calls_on_other_ranks_are_errors() {
    on_ranks("other_calls_on_other_ranks_are_errors", 2, options(20.0), &[0, 1], |group| {
        let begin = Instant::now();
        let x = Tensor::from([1.0f32, 2.0]);
        let work = match group.rank() {
            0 => group.all_reduce(&x, ReduceOp::Sum),
            _ => group.broadcast(&x, 1),
        };
        let outcome = work.unwrap().wait();
        let e = if group.rank() == 0 {
            outcome.unwrap_err()
        } else {
            group.barrier().and_then(|work| work.wait()).unwrap_err()
        };
        let text = e.message();
        assert!(text.contains("all_reduce number 0 of float32 [2] (Sum)"), "{text}");
        // Rank 1 reads in its next call what rank 0 sent, or that rank 0 has failed.
        assert!(
            group.rank() == 1
                || text.contains("rank 1 made another call, broadcast number 0 of float32 [2] (from rank 1)"),
            "{text}"
        );
        assert!(begin.elapsed() < Duration::from_secs(10));
        let e = group.barrier().map(drop).unwrap_err();
        assert!(e.message().contains("broken"), "{e}");
    });
}

#[test]
fn other_sizes_on_other_ranks_are_errors() {
    on_ranks("other_sizes_on_other_ranks_are_errors", 3, options(20.0), &[0, 1, 2], |group| {
        let x = Tensor::zeros(&[2 + i64::from(group.rank() == 1)], ScalarType::F64).unwrap();
        let e = group.all_reduce(&x, ReduceOp::Sum).unwrap().wait().unwrap_err();
        assert!(e.message().contains("float64 [2]") && e.message().contains("float64 [3]"), "{e}");
    });
}

#[test]
fn a_rank_that_ends_is_named() {
    on_ranks("a_rank_that_ends_is_named", 3, options(60.0), &[0, 2], |group| {
        let x = Tensor::zeros(&[100_000], ScalarType::F32).unwrap();
        group.all_reduce(&x, ReduceOp::Sum).unwrap().wait().unwrap();
        // Rank 1 ends when the others have that result, which the news of its end could overtake.
        let token = Tensor::from([0i64]);
        if group.rank() == 1 {
            for peer in [0, 2] {
                group.recv(&token, Some(peer), 0).unwrap().wait().unwrap();
            }
            std::process::abort();
        }
        drop(group.send(&token, 1, 0).unwrap().wait());
        let begin = Instant::now();
        let e = group.all_reduce(&x, ReduceOp::Sum).and_then(|work| work.wait()).unwrap_err();
        assert!(
            e.message().contains("rank 1 has ended") || e.message().contains("connection to rank 1"),
            "{e}"
        );
        assert!(begin.elapsed() < Duration::from_secs(10));
    });
}

#[test]
fn a_rank_that_is_late_is_named() {
    on_ranks("a_rank_that_is_late_is_named", 3, options(2.0), &[0, 2], |group| {
        if group.rank() == 1 {
            // It neither calls nor ends.
            std::thread::sleep(Duration::from_secs(6));
            return;
        }
        let begin = Instant::now();
        let e = group.barrier().unwrap().wait().unwrap_err();
        assert!(e.message().contains("timeout"), "{e}");
        // Rank 2 waits for rank 0, which knows whom it waits for.
        assert!(group.rank() == 2 || e.message().contains("from ranks [1]"), "{e}");
        assert!(begin.elapsed() < Duration::from_secs(5));
        let e = group.recv(&Tensor::from([0i64]), Some(1), 0).and_then(|work| work.wait()).unwrap_err();
        assert!(e.message().contains("broken") || e.message().contains("timeout"), "{e}");
    });
}

#[test]
fn groups_of_one_rank_leave_no_threads() {
    let threads = || std::fs::read_dir("/proc/self/task").map(|tasks| tasks.count()).unwrap_or(0);
    let x = Tensor::from([1.0f32]);
    let cycle = || {
        let group = ProcessGroup::single().unwrap();
        group.all_reduce(&x, ReduceOp::Sum).unwrap().wait().unwrap();
    };
    cycle();
    let before = threads();
    (0..1000).for_each(|_| cycle());
    assert!(threads() <= before + 8, "{before} threads before, {} after 1,000 groups", threads());
}

#[test]
fn bad_arguments_are_errors_before_anything_is_sent() {
    let group = ProcessGroup::single().unwrap();
    let (x, y) = (Tensor::from([1.0f32]), Tensor::from([1.0f32, 2.0]));
    let message = |outcome: Result<flambeau_distributed::Work>| outcome.map(drop).unwrap_err().to_string();
    assert!(message(group.broadcast(&x, 1)).contains("broadcast: expected a rank below 1 but got 1"));
    assert!(message(group.all_reduce(&x, ReduceOp::Band)).contains("BAND"));
    assert!(message(group.all_gather(&[], &x)).contains("expected 1 tensors"));
    assert!(
        message(group.all_gather(std::slice::from_ref(&y), &x)).contains("expected tensors of float32 [1]")
    );
    assert!(message(group.all_gather_into_tensor(&y, &x)).contains("1 times 1 elements"));
    assert!(message(group.send(&x, 0, 0)).contains("another rank"));
    let meta =
        Tensor::empty(&[1], (ScalarType::F32, "meta".parse::<flambeau_core::Device>().unwrap())).unwrap();
    assert!(
        message(group.all_reduce(&meta, ReduceOp::Sum))
            .contains("expected a tensor with elements but got one on meta")
    );
    group.shutdown();
    assert!(message(group.barrier()).contains("destroyed"));
}
