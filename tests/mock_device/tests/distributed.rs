//! Collectives, and data parallel training, of tensors on mock devices have the host's bits: this program starts itself once for each rank.
#![cfg(target_os = "linux")]

use flambeau::distributed::{
    DataParallelOptions, DistributedDataParallel, Environment, ProcessGroup, ProcessGroupOptions, ReduceOp,
    Work, ZeroRedundancyOptimizer, functional,
};
use flambeau::nn::optim::{AdamOptions, AdamW, Optimizer};
use flambeau::nn::{Forward, Linear, Module};
use flambeau::{Autograd, Device, ErrorKind, Result, ScalarType, Tensor, no_grad};
use flambeau_mock_device as _;
use std::net::TcpListener;
use std::process::{Command, Stdio};

/// Runs `body` in `size` processes, each as one rank.
fn on_ranks(test: &str, size: usize, body: impl FnOnce(ProcessGroup) -> Result<()>) {
    if std::env::var_os("RANK").is_some() {
        let environment = Environment::from_env().unwrap();
        let group = ProcessGroup::from_environment(&environment, ProcessGroupOptions::default()).unwrap();
        return body(group).unwrap();
    }
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let start = |rank: usize| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args([test, "--exact", "--nocapture", "--test-threads=1"]);
        command.env("RANK", rank.to_string()).env("WORLD_SIZE", size.to_string());
        command.env("MASTER_ADDR", "127.0.0.1").env("MASTER_PORT", port.to_string());
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let ranks: Vec<_> = (0..size).map(start).collect();
    for (rank, child) in ranks.into_iter().enumerate() {
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "rank {rank} of {size}:\n{text}");
    }
}

/// Numbers whose sums are rounded, on a device.
fn values(seed: usize, count: usize, kind: (ScalarType, Device)) -> Result<Tensor> {
    let value = |i: usize| ((i * 7919 + seed * 104_729) % 1009) as f64 * 1.0e-3 - 0.3;
    Tensor::from_vec((0..count).map(value).collect(), &[count as i64])?.to(kind)
}

fn bytes(tensor: &Tensor) -> Result<Vec<u8>> {
    tensor.detach()?.to(Device::CPU)?.reshape(&[-1])?.view_dtype(ScalarType::U8)?.to_vec()
}

/// What all collectives give on a device, as bytes.
fn collectives(group: &ProcessGroup, count: usize, kind: (ScalarType, Device)) -> Result<Vec<Vec<u8>>> {
    let (rank, size) = (group.rank(), group.size());
    let own = |seed: usize| values(10 * rank + seed, count, kind);
    let zeros = || Tensor::zeros(&[count as i64], kind);
    let list =
        |make: &dyn Fn(usize) -> Result<Tensor>, count| (0..count).map(make).collect::<Result<Vec<_>>>();
    let on_root = |root: usize| if rank == root { size } else { 0 };
    let [sum, average, reduced, broadcast] = [own(0)?, own(1)?, own(2)?, own(3)?];
    let [scattered, part] = [zeros()?, zeros()?];
    let gathered = list(&|_| zeros(), size)?;
    let to_first = list(&|_| zeros(), on_root(0))?;
    let exchanged = list(&|_| zeros(), size)?;
    let whole = Tensor::zeros(&[size as i64, count as i64], kind)?;
    // All run at once, in the order of the calls.
    let works = [
        group.all_reduce(&sum, ReduceOp::Sum)?,
        group.all_reduce(&average, ReduceOp::Avg)?,
        group.reduce(&reduced, size - 1, ReduceOp::Max)?,
        group.broadcast(&broadcast, size - 1)?,
        group.all_gather(&gathered, &own(4)?)?,
        group.all_gather_into_tensor(&whole, &own(5)?)?,
        group.gather(&own(6)?, &to_first, 0)?,
        group.scatter(&scattered, &list(&own, on_root(0))?, 0)?,
        group.reduce_scatter(&part, &list(&own, size)?, ReduceOp::Sum)?,
        group.all_to_all(&exchanged, &list(&own, size)?)?,
    ];
    works.iter().try_for_each(Work::wait)?;
    let next = own(7)?;
    let received = zeros()?;
    let sent = group.send(&next, (rank + 1) % size, 3)?;
    group.recv(&received, Some((rank + size - 1) % size), 3)?.wait()?;
    sent.wait()?;
    let singles = [sum, average, reduced, broadcast, scattered, part, whole, received];
    let all = singles.iter().chain(&gathered).chain(&to_first).chain(&exchanged);
    all.map(bytes).collect()
}

fn the_same_bits(test: &str, size: usize) {
    on_ranks(test, size, |group| {
        let mut compared = 0;
        for dtype in [ScalarType::F32, ScalarType::F64, ScalarType::BF16] {
            for count in [1, 7, 1001, 70_001] {
                let here = collectives(&group, count, (dtype, Device::CPU))?;
                for device in ["mock:0", "mock:1"] {
                    let there = collectives(&group, count, (dtype, device.parse()?))?;
                    assert_eq!(here, there, "{dtype} {count} on {device}");
                    compared += there.len();
                }
            }
        }
        println!("{compared} tensors of rank {} compared", group.rank());
        Ok(())
    });
}

#[test]
fn collectives_on_two_ranks_have_the_bits_of_the_host() {
    the_same_bits("collectives_on_two_ranks_have_the_bits_of_the_host", 2);
}

#[test]
fn collectives_on_three_ranks_have_the_bits_of_the_host() {
    the_same_bits("collectives_on_three_ranks_have_the_bits_of_the_host", 3);
}

/// A tensor with gaps, gradients, tensors of two devices, and one without elements.
#[test]
fn views_gradients_and_mistakes() {
    on_ranks("views_gradients_and_mistakes", 2, |group| {
        let there: Device = "mock:0".parse()?;
        let matrix = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]).to(there)?;
        group.all_reduce(&matrix.select(1, 0)?, ReduceOp::Sum)?.wait()?;
        assert_eq!(matrix.to(Device::CPU)?.to_vec::<f32>()?, [2.0, 2.0, 6.0, 4.0]);
        let x = Tensor::from([1.0f32, 2.0]).to(there)?.with_requires_grad(true)?;
        let all = functional::all_gather(&group, &x)?;
        assert_eq!((all.device(), all.sizes()), (there, &[2, 2][..]));
        all.mul_scalar(3.0)?.sum()?.backward()?;
        let grad = x.grad().unwrap();
        assert_eq!((grad.device(), grad.to(Device::CPU)?.to_vec::<f32>()?), (there, vec![6.0, 6.0]));
        let meta = Tensor::zeros(&[2], (ScalarType::F32, Device::META))?;
        let e = group.all_reduce(&meta, ReduceOp::Sum).err().unwrap();
        assert_eq!(e.kind(), ErrorKind::Device);
        assert!(e.message().contains("expected a tensor with elements but got one on meta"), "{e}");
        group.barrier()?.wait()
    });
}

/// The parameters after some steps on a device, and the state of the optimizer, which is shared among the ranks.
fn trained(group: &ProcessGroup, device: Device) -> Result<Vec<Vec<u8>>> {
    // The parameters of rank 0 are those of all.
    flambeau::manual_seed(group.rank() as u64);
    let mut model = Linear::new(20, 3)?;
    model.to_device(device)?;
    let options = DataParallelOptions { bucket_bytes: 100, first_bucket_bytes: 100, ..Default::default() };
    let model = DistributedDataParallel::new(model, group.clone(), options)?;
    let make = |params| AdamW::new(params, AdamOptions::default().lr(0.01));
    let mut optimizer = ZeroRedundancyOptimizer::new(model.parameters(), group.clone(), make)?;
    for step in 0..3 {
        optimizer.zero_grad()?;
        let batch = values(step * group.size() + group.rank(), 100, (ScalarType::F32, device))?;
        let output = model.forward(&batch.view(&[5, 20])?)?;
        output.mul(&output)?.mean()?.backward()?;
        optimizer.step()?;
    }
    let _unrecorded = no_grad();
    let state = optimizer.consolidated_state_dict()?;
    model.parameters().iter().chain(state.values()).map(bytes).collect()
}

#[test]
fn data_parallel_training_has_the_bits_of_the_host() {
    on_ranks("data_parallel_training_has_the_bits_of_the_host", 2, |group| {
        let here = trained(&group, Device::CPU)?;
        assert_eq!(here, trained(&group, "mock:1".parse()?)?);
        assert!(here.len() > 4);
        Ok(())
    });
}
