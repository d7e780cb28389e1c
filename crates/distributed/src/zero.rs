//! An optimizer whose state is sharded over ranks: ZeRO, stage 1. PyTorch's `ZeroRedundancyOptimizer`.

use crate::group::ProcessGroup;
use flambeau_autograd::Autograd;
use flambeau_core::{Device, Result, bail, ensure};
use flambeau_nn::StateDict;
use flambeau_nn::optim::Optimizer;
use flambeau_ops::Tensor;

/// Each parameter belongs to one rank, which alone has the state of its optimizer and moves it; the other ranks get its values after the
/// step. The gradients must be equal on all ranks, as [`DistributedDataParallel`](crate::DistributedDataParallel) makes them. So the
/// parameters have the same bits as without sharding.
///
/// ```
/// use flambeau_autograd::Autograd;
/// use flambeau_distributed::{ProcessGroup, ZeroRedundancyOptimizer};
/// use flambeau_nn::optim::{AdamOptions, AdamW, Optimizer};
/// use flambeau_ops::Tensor;
/// let w = Tensor::from([1.0f32, 2.0]).with_requires_grad(true)?;
/// let group = ProcessGroup::single()?;
/// let make = |own| AdamW::new(own, AdamOptions::default());
/// let mut optimizer = ZeroRedundancyOptimizer::new(vec![w.clone()], group, make)?;
/// w.sum()?.backward()?;
/// optimizer.step()?;
/// # Ok::<(), flambeau_core::Error>(())
/// ```
pub struct ZeroRedundancyOptimizer<O> {
    group: ProcessGroup,
    params: Vec<Tensor>,
    /// The rank that each parameter belongs to.
    owners: Vec<usize>,
    inner: O,
}

/// Gives each tensor to the rank that has the fewest elements so far, beginning with the largest tensors.
fn partition(params: &[Tensor], ranks: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..params.len()).collect();
    order.sort_by_key(|i| std::cmp::Reverse(params[*i].numel()));
    let (mut owners, mut loads) = (vec![0; params.len()], vec![0; ranks]);
    for i in order {
        let rank = (0..ranks).min_by_key(|rank| loads[*rank]).unwrap_or(0);
        owners[i] = rank;
        loads[rank] += params[i].numel();
    }
    owners
}

impl<O: Optimizer> ZeroRedundancyOptimizer<O> {
    /// The optimizer that `make` returns for the parameters of this rank. All ranks give the same parameters in the same order.
    ///
    /// # Errors
    /// Those of `make`.
    pub fn new(
        params: Vec<Tensor>,
        group: ProcessGroup,
        make: impl FnOnce(Vec<Tensor>) -> Result<O>,
    ) -> Result<Self> {
        let owners = partition(&params, group.size());
        let is_own = |(_, owner): &(&Tensor, &usize)| **owner == group.rank();
        let own = params.iter().zip(&owners).filter(is_own).map(|(param, _)| param.clone()).collect();
        Ok(ZeroRedundancyOptimizer { inner: make(own)?, group, params, owners })
    }

    /// The optimizer of this rank's parameters.
    pub fn local(&self) -> &O {
        &self.inner
    }

    /// The numbers of this rank's parameters among all.
    fn own(&self) -> Vec<usize> {
        (0..self.params.len()).filter(|i| self.owners[*i] == self.group.rank()).collect()
    }

    /// The state of all ranks, as the optimizer without sharding has it, on the host. All ranks call this.
    ///
    /// # Errors
    /// Those of [`ProcessGroup::broadcast`].
    pub fn consolidated_state_dict(&self) -> Result<StateDict> {
        let own = self.state_dict()?;
        let mut all = StateDict::new();
        for rank in 0..self.group.size() {
            let described: Vec<String> = own
                .iter()
                .map(|(key, value)| format!("{key} {} {:?}", value.dtype(), value.sizes()))
                .collect();
            let described = self.group.broadcast_bytes(described.join("\n").as_bytes(), rank)?;
            for line in String::from_utf8_lossy(&described).lines() {
                let (key, mut value) = empty_like(line)?;
                if rank == self.group.rank()
                    && let Some(mine) = own.get(&key)
                {
                    value = mine.to(Device::CPU)?.contiguous()?;
                }
                self.group.broadcast(&value, rank)?.wait()?;
                all.insert(key, value);
            }
        }
        Ok(all)
    }
}

/// The key and an empty tensor of a line `state.0.exp_avg float32 [2, 3]`.
fn empty_like(line: &str) -> Result<(String, Tensor)> {
    let mut parts = line.splitn(3, ' ');
    let (Some(key), Some(dtype), Some(sizes)) = (parts.next(), parts.next(), parts.next()) else {
        bail!(Io, "expected a key, a dtype and sizes but got {line:?}")
    };
    let sizes = sizes.trim_matches(['[', ']']).split(", ").filter(|size| !size.is_empty());
    let sizes: std::result::Result<Vec<i64>, _> = sizes.map(str::parse).collect();
    let Ok(sizes) = sizes else { bail!(Io, "expected sizes but got {line:?}") };
    Ok((key.to_owned(), Tensor::zeros(&sizes, dtype.parse::<flambeau_core::ScalarType>()?)?))
}

/// The same key for another number of the parameter, if it is that of a parameter's state.
fn renumbered(key: &str, number: impl FnOnce(usize) -> Option<usize>) -> Option<String> {
    let Some(rest) = key.strip_prefix("state.") else { return Some(key.to_owned()) };
    let (index, name) = rest.split_once('.')?;
    Some(format!("state.{}.{name}", number(index.parse().ok()?)?))
}

impl<O: Optimizer> Optimizer for ZeroRedundancyOptimizer<O> {
    fn step(&mut self) -> Result<()> {
        self.inner.step()?;
        let sent: Result<Vec<_>> = self
            .params
            .iter()
            .zip(&self.owners)
            .map(|(param, owner)| self.group.broadcast(&param.detach()?, *owner))
            .collect();
        sent?.iter().try_for_each(crate::work::Work::wait)
    }

    fn zero_grad(&self) -> Result<()> {
        self.params.iter().try_for_each(|param| param.set_grad(None))
    }

    fn learning_rates(&self) -> Vec<f64> {
        self.inner.learning_rates()
    }

    fn set_learning_rates(&mut self, rates: &[f64]) -> Result<()> {
        self.inner.set_learning_rates(rates)
    }

    /// The state of this rank's parameters, under the numbers that they have among all.
    fn state_dict(&self) -> Result<StateDict> {
        let own = self.own();
        let local = self.inner.state_dict()?;
        Ok(local
            .into_iter()
            .filter_map(|(key, value)| Some((renumbered(&key, |i| own.get(i).copied())?, value)))
            .collect())
    }

    /// Takes this rank's part of the state of all, which [`consolidated_state_dict`](Self::consolidated_state_dict) returns, or an
    /// optimizer without sharding. The number of ranks may differ.
    fn load_state_dict(&mut self, state: &StateDict) -> Result<()> {
        let own = self.own();
        let complete = |i: &usize| state.keys().any(|key| key.starts_with(&format!("state.{i}.")));
        let count = (0..self.params.len()).filter(complete).count();
        ensure!(
            count == self.params.len() || count == 0,
            InvalidArgument("load_state_dict", "state"),
            "expected the state of all {} parameters but got that of {count}: consolidate it first",
            self.params.len()
        );
        let local = state.iter().filter_map(|(key, value)| {
            Some((renumbered(key, |i| own.iter().position(|own| *own == i))?, value.clone()))
        });
        self.inner.load_state_dict(&local.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flambeau_core::ScalarType;

    #[test]
    fn ranks_get_about_as_many_elements() {
        let params: Vec<Tensor> =
            [10, 1, 7, 3, 8, 1].iter().map(|n| Tensor::zeros(&[*n], ScalarType::F32).unwrap()).collect();
        assert_eq!(partition(&params, 1), [0; 6]);
        let owners = partition(&params, 2);
        let load = |rank| (0..6).filter(|i| owners[*i] == rank).map(|i| params[i].numel()).sum::<i64>();
        assert_eq!((load(0), load(1)), (15, 15));
    }

    #[test]
    fn keys_are_renumbered() {
        assert_eq!(renumbered("state.1.exp_avg", |i| Some(i + 4)).as_deref(), Some("state.5.exp_avg"));
        assert_eq!(renumbered("group.0.lr", |_| None).as_deref(), Some("group.0.lr"));
        assert_eq!(renumbered("state.1.exp_avg", |_| None), None);
        let (key, value) = empty_like("state.0.step float64 []").unwrap();
        assert_eq!((key.as_str(), value.sizes()), ("state.0.step", [].as_slice()));
        assert!(empty_like("damaged").is_err());
    }
}
