//! Unused parameters, hooks, collectives with derivatives, batch normalization over ranks, checkpoints of another number of ranks.

use super::{on_ranks, options};
use flambeau_autograd::Autograd;
use flambeau_core::{Result, ScalarType};
use flambeau_distributed::checkpoint::{self, Shard, ShardedState};
use flambeau_distributed::{
    CommHook, DataParallelOptions, DistributedDataParallel, ProcessGroup, ReduceOp, SyncBatchNorm, functional,
};
use flambeau_nn::{BatchNorm1d, ChannelNormOptions, Forward, Linear, Module};
use flambeau_ops::Tensor;

fn values(tensor: &Tensor) -> Vec<f64> {
    tensor.to_dtype(ScalarType::F64).unwrap().contiguous().unwrap().view(&[-1]).unwrap().to_vec().unwrap()
}

/// Two layers, of which a rank uses one.
#[derive(Module)]
struct Branches {
    first: Linear,
    second: Linear,
    third: Linear,
}

fn branches(group: &ProcessGroup, hook: Option<CommHook>) -> Result<DistributedDataParallel<Branches>> {
    let layer = || Linear::new(3, 1);
    let module = Branches { first: layer()?, second: layer()?, third: layer()? };
    let options = DataParallelOptions { find_unused_parameters: true, hook, ..Default::default() };
    DistributedDataParallel::new(module, group.clone(), options)
}

#[test]
fn parameters_that_are_not_used_count_as_zeros() {
    on_ranks("features::parameters_that_are_not_used_count_as_zeros", 2, options(20.0), &[0, 1], |group| {
        // The hook doubles the averages.
        let hook = CommHook::new(|group, bucket| {
            let work = group.all_reduce(&bucket.buffer, ReduceOp::Sum)?;
            let sum = bucket.buffer.clone();
            Ok(Box::new(move || work.wait().map(|()| sum)))
        });
        for (hook, scale) in [(None, 0.5), (Some(hook), 1.0)] {
            let model = branches(&group, hook).unwrap();
            let module = model.module();
            let x = Tensor::from([[1.0f32, 2.0, 3.0]]);
            for _ in 0..2 {
                // The first forward pass has no backward pass.
                model.prepare().unwrap();
                let layer = if group.rank() == 0 { &module.first } else { &module.second };
                let output = layer.forward(&x).unwrap();
                model.find_unused(std::slice::from_ref(&output)).unwrap();
            }
            model.prepare().unwrap();
            let layer = if group.rank() == 0 { &module.first } else { &module.second };
            let output = layer.forward(&x).unwrap();
            model.find_unused(std::slice::from_ref(&output)).unwrap();
            output.sum().unwrap().backward().unwrap();
            for layer in [&module.first, &module.second] {
                assert_eq!(values(&layer.weight.grad().unwrap()), [scale, 2.0 * scale, 3.0 * scale]);
            }
            assert!(module.third.weight.grad().is_none());
        }
    });
}

#[test]
fn collectives_have_derivatives() {
    on_ranks("features::collectives_have_derivatives", 2, options(20.0), &[0, 1], |group| {
        let weight = (group.rank() + 1) as f64;
        let x = || Tensor::from([weight, 2.0 * weight]).with_requires_grad(true).unwrap();
        let gradient = |x: &Tensor, y: Tensor| {
            y.mul_scalar(weight).unwrap().sum().unwrap().backward().unwrap();
            values(&x.grad().unwrap())
        };
        let a = x();
        let sum = functional::all_reduce(&group, &a).unwrap();
        assert_eq!((values(&sum), gradient(&a, sum)), (vec![3.0, 6.0], vec![3.0, 3.0]));
        let a = x();
        let all = functional::all_gather(&group, &a).unwrap();
        assert_eq!((values(&all), gradient(&a, all)), (vec![1.0, 2.0, 2.0, 4.0], vec![3.0, 3.0]));
        let a = x();
        let part = functional::reduce_scatter(&group, &a).unwrap();
        assert_eq!((values(&part), gradient(&a, part)), (vec![3.0 * weight], vec![1.0, 2.0]));
        let a = x();
        let root = functional::broadcast(&group, &a, 1).unwrap();
        let expected = if group.rank() == 1 { vec![3.0, 3.0] } else { vec![0.0, 0.0] };
        assert_eq!((values(&root), gradient(&a, root)), (vec![2.0, 4.0], expected));
    });
}

#[test]
fn batch_normalization_over_ranks_is_that_of_the_whole_batch() {
    on_ranks(
        "features::batch_normalization_over_ranks_is_that_of_the_whole_batch",
        2,
        options(20.0),
        &[0, 1],
        |group| {
            let number = |i: i32| f64::from(i * 37 % 101) / 10.0 + 100.0;
            let whole = Tensor::from_vec((0..6 * 3 * 4).map(number).collect(), &[6, 3, 4]).unwrap();
            let norm = BatchNorm1d::new(3).unwrap();
            let over_ranks = SyncBatchNorm::new(3, group.clone(), ChannelNormOptions::default()).unwrap();
            // In f32 as the parameters are, so that only the last digits differ.
            let whole = whole.to_dtype(ScalarType::F32).unwrap();
            let (start, count) = [(0, 2), (2, 4)][group.rank()];
            let x = whole.detach().unwrap().with_requires_grad(true).unwrap();
            let own = whole
                .narrow(0, start, count)
                .unwrap()
                .contiguous()
                .unwrap()
                .with_requires_grad(true)
                .unwrap();
            let (expected, found) = (norm.forward(&x).unwrap(), over_ranks.forward(&own).unwrap());
            for y in [&expected, &found] {
                y.mul(y).unwrap().mul(y).unwrap().sum().unwrap().backward().unwrap();
            }
            let near = |found: &Tensor, expected: &Tensor, tolerance: f64| {
                let pairs = values(found).into_iter().zip(values(expected));
                pairs.for_each(|(a, b)| assert!((a - b).abs() <= tolerance, "{a} but {b} expected"));
            };
            near(&found, &expected.narrow(0, start, count).unwrap(), 1e-4);
            near(&own.grad().unwrap(), &x.grad().unwrap().narrow(0, start, count).unwrap(), 1e-3);
            near(over_ranks.running_mean.as_ref().unwrap(), norm.running_mean.as_ref().unwrap(), 1e-5);
            near(over_ranks.running_var.as_ref().unwrap(), norm.running_var.as_ref().unwrap(), 1e-4);
        },
    );
}

#[test]
fn a_checkpoint_of_three_ranks_is_read_by_one() {
    const NAME: &str = "features::a_checkpoint_of_three_ranks_is_read_by_one";
    let whole = Tensor::from_vec((0..1001).map(f64::from).collect(), &[7, 143]).unwrap();
    let both = Tensor::from([1.5f32, 2.5]);
    let folder = std::env::temp_dir().join(format!("flambeau-checkpoint-{}", {
        // The ranks use the folder of the process that started them.
        std::env::var("CHECKPOINT").unwrap_or_else(|_| std::process::id().to_string())
    }));
    if std::env::var_os("RANK").is_none() {
        let own = [("CHECKPOINT", std::process::id().to_string())];
        for child in super::start(NAME, 3, &own) {
            let output = child.wait_with_output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        }
        let part = Tensor::zeros(&[500], ScalarType::F64).unwrap();
        let requested = [("whole".to_owned(), Shard::part(&part, &[7, 143], 400).unwrap())].into();
        let notes = checkpoint::load(&folder, &requested).unwrap();
        assert_eq!(values(&part), (400..900).map(f64::from).collect::<Vec<_>>());
        assert_eq!(notes["step"], "2");
        let (all, _) = checkpoint::load_all(&folder).unwrap();
        assert_eq!((values(&all["whole"]), values(&all["both"])), (values(&whole), values(&both)));
        let e =
            checkpoint::load(&folder, &checkpoint::whole(&[("none".to_owned(), both)].into())).unwrap_err();
        assert!(e.message().contains("`none`"), "{e}");
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 4);
        return std::fs::remove_dir_all(&folder).unwrap();
    }
    on_ranks(NAME, 3, options(20.0), &[0, 1, 2], |group| {
        let flat = whole.view(&[1001]).unwrap();
        let start = group.rank() as i64 * 334;
        let own = flat.narrow(0, start, 334.min(1001 - start)).unwrap();
        let mut state = ShardedState::new();
        state.insert("whole".to_owned(), Shard::part(&own, &[7, 143], start).unwrap());
        state.insert("both".to_owned(), Shard::whole(&both));
        let notes = |step: &str| [("step".to_owned(), step.to_owned())].into();
        checkpoint::save(&group, &folder, &state, &notes("1")).unwrap();
        let writers = group.new_group(&[0, 1, 2]).unwrap().unwrap();
        checkpoint::save_async(&writers, &folder, &state, &notes("2")).unwrap().wait().unwrap();
        state.insert("gap".to_owned(), Shard::part(&own, &[2000], start).unwrap());
        let e = checkpoint::save(&group, &folder, &state, &notes("3")).unwrap_err();
        assert!(e.message().contains("no part begins at 1001"), "{e}");
    });
}
