//! Collectives with derivatives: each returns a new tensor, and its gradient is the opposite collective. PyTorch's
//! `distributed.nn.functional`.
//!
//! All ranks run the backward pass, in which they meet again in the same order.

use crate::group::ProcessGroup;
use crate::reduce::ReduceOp;
use flambeau_autograd::function::{BackwardContext, ForwardContext, Function, apply};
use flambeau_core::{Result, bail, ensure};
use flambeau_ops::{Tensor, ops};

/// What a collective does with the tensors of the ranks.
#[derive(Clone, Copy)]
enum Kind {
    /// Their sum, on every rank.
    AllReduce,
    /// All of them, one after another in a new first dimension.
    AllGather,
    /// The sum of the parts that belong to this rank, along the first dimension.
    ReduceScatter,
    /// That of one rank.
    Broadcast(usize),
    /// The sum on one rank, and zeros on the others.
    Reduce(usize),
}

struct Collective {
    group: ProcessGroup,
    kind: Kind,
}

impl Collective {
    fn run(&self, input: &Tensor) -> Result<Tensor> {
        let group = &self.group;
        let input = input.detach()?.contiguous()?;
        let copy = || ops::clone(&input, None);
        let kind = (input.dtype(), input.device());
        match self.kind {
            Kind::AllReduce => {
                let result = copy()?;
                group.all_reduce(&result, ReduceOp::Sum)?.wait()?;
                Ok(result)
            }
            Kind::AllGather => {
                let sizes: Vec<i64> = [group.size() as i64].iter().chain(input.sizes()).copied().collect();
                let result = Tensor::empty(&sizes, kind)?;
                group.all_gather_into_tensor(&result, &input)?.wait()?;
                Ok(result)
            }
            Kind::ReduceScatter => {
                let result = Tensor::empty(&input.sizes()[1..], kind)?;
                group.reduce_scatter_tensor(&result, &input, ReduceOp::Sum)?.wait()?;
                Ok(result)
            }
            Kind::Broadcast(root) => {
                let result = copy()?;
                group.broadcast(&result, root)?.wait()?;
                Ok(result)
            }
            Kind::Reduce(root) => {
                let result = copy()?;
                group.reduce(&result, root, ReduceOp::Sum)?.wait()?;
                if group.rank() == root { Ok(result) } else { Tensor::zeros(input.sizes(), kind) }
            }
        }
    }

    /// What the gradient goes through.
    fn opposite(&self) -> Collective {
        let kind = match self.kind {
            Kind::AllReduce => Kind::AllReduce,
            Kind::AllGather => Kind::ReduceScatter,
            Kind::ReduceScatter => Kind::AllGather,
            Kind::Broadcast(root) => Kind::Reduce(root),
            Kind::Reduce(root) => Kind::Broadcast(root),
        };
        Collective { group: self.group.clone(), kind }
    }
}

impl Function for Collective {
    const NAME: &'static str = "Collective";

    fn forward(&self, _: &mut ForwardContext<'_>, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
        Ok(vec![self.run(&inputs[0])?])
    }

    fn backward(&self, _: &BackwardContext<'_>, grads: &[Option<Tensor>]) -> Result<Vec<Option<Tensor>>> {
        let Some(Some(grad)) = grads.first() else {
            bail!(Internal, "the gradient of a collective is missing")
        };
        Ok(vec![Some(one(self.opposite(), grad)?)])
    }
}

fn one(collective: Collective, input: &Tensor) -> Result<Tensor> {
    match apply(collective, &[input])?.pop() {
        Some(output) => Ok(output),
        None => bail!(Internal, "a collective returned nothing"),
    }
}

/// The sum of the tensors of all ranks.
///
/// # Errors
/// Those of [`ProcessGroup::all_reduce`].
///
/// ```
/// use flambeau_autograd::Autograd;
/// use flambeau_distributed::{ProcessGroup, functional};
/// use flambeau_ops::Tensor;
/// let x = Tensor::from([1.0f32, 2.0]).with_requires_grad(true)?;
/// functional::all_reduce(&ProcessGroup::single()?, &x)?.sum()?.backward()?;
/// assert!(x.grad().is_some());
/// # Ok::<(), flambeau_core::Error>(())
/// ```
pub fn all_reduce(group: &ProcessGroup, tensor: &Tensor) -> Result<Tensor> {
    one(Collective { group: group.clone(), kind: Kind::AllReduce }, tensor)
}

/// The tensors of all ranks, one after another in a new first dimension.
///
/// # Errors
/// Those of [`ProcessGroup::all_gather_into_tensor`].
pub fn all_gather(group: &ProcessGroup, tensor: &Tensor) -> Result<Tensor> {
    one(Collective { group: group.clone(), kind: Kind::AllGather }, tensor)
}

/// The sum over all ranks of the part that belongs to this one; the first dimension has a part for each rank.
///
/// # Errors
/// `Shape` unless the first dimension has as many elements as there are ranks, and those of [`ProcessGroup::reduce_scatter_tensor`].
pub fn reduce_scatter(group: &ProcessGroup, stacked: &Tensor) -> Result<Tensor> {
    ensure!(
        stacked.sizes().first() == Some(&(group.size() as i64)),
        Shape("reduce_scatter", "stacked"),
        "expected a first dimension of {}, one part for each rank, but got sizes {:?}",
        group.size(),
        stacked.sizes()
    );
    one(Collective { group: group.clone(), kind: Kind::ReduceScatter }, stacked)
}

/// The tensor of rank `src`.
///
/// # Errors
/// Those of [`ProcessGroup::broadcast`].
pub fn broadcast(group: &ProcessGroup, tensor: &Tensor, src: usize) -> Result<Tensor> {
    one(Collective { group: group.clone(), kind: Kind::Broadcast(src) }, tensor)
}
