//! Batched tensors of `vmap` have no history of their own: it is that of the tensor below, which has all examples.
//!
//! The results of one example do not depend on another one. So the gradient of the sum of all of them with respect to the tensor below is
//! the gradient of each example, and the tangent of the tensor below is that of each example.

use flambeau_core::{DispatchKey, MemoryFormat, Result, bail, ensure, shape};
use flambeau_ops::batched::{
    Wrapper, innermost, is_batched, open_level, physical_like, rewrap, with_batches_in_front, wrappers,
};
use flambeau_ops::{Tensor, ops};

/// The tensor whose history is that of `tensor`, if it is another one.
#[inline]
pub(crate) fn below(tensor: &Tensor) -> Option<&Tensor> {
    if tensor.key_set().has(DispatchKey::Batched) { Some(innermost(tensor)) } else { None }
}

/// The arguments of a backward pass with tensors of all examples, and how its results are wrapped.
pub(crate) struct Unwrapped {
    pub(crate) outputs: Vec<Tensor>,
    pub(crate) grads: Vec<Option<Tensor>>,
    pub(crate) inputs: Vec<Tensor>,
    wrappers: Vec<Vec<Wrapper>>,
}

impl Unwrapped {
    /// `None` where no output and no input is batched. Gradients of outputs may be batched then: the pass computes with them as with
    /// others.
    ///
    /// # Errors
    /// `Autograd` where an input is shared by the examples of an output.
    pub(crate) fn of(
        outputs: &[Tensor],
        grads: &[Option<Tensor>],
        inputs: &[Tensor],
    ) -> Result<Option<Self>> {
        if !outputs.iter().chain(inputs).any(is_batched) {
            return Ok(None);
        }
        let levels = |tensor: &Tensor| wrappers(tensor).into_iter().map(|wrapper| wrapper.level);
        for input in inputs {
            let has = |level: u64| levels(input).any(|own| own == level);
            ensure!(
                outputs.iter().flat_map(levels).all(has),
                Autograd,
                "vmap: cannot differentiate a batched output with respect to a tensor that all examples share; func.grad, func.vjp \
                 and func.jacrev can"
            );
        }
        let seeds = outputs.iter().enumerate().map(|(index, output)| {
            let grad = grads.get(index).and_then(Option::as_ref);
            grad.map_or_else(|| ones(output), |grad| physical(output, grad)).map(Some)
        });
        Ok(Some(Unwrapped {
            grads: seeds.collect::<Result<_>>()?,
            outputs: outputs.iter().map(innermost).cloned().collect(),
            inputs: inputs.iter().map(innermost).cloned().collect(),
            wrappers: inputs.iter().map(wrappers).collect(),
        }))
    }

    /// The gradients of the inputs, batched as these are.
    pub(crate) fn wrapped(&self, grads: Vec<Option<Tensor>>) -> Result<Vec<Option<Tensor>>> {
        let wrap = |(grad, wrappers): (Option<Tensor>, &Vec<Wrapper>)| {
            grad.map(|grad| rewrap(&grad, wrappers)).transpose()
        };
        grads.into_iter().zip(&self.wrappers).map(wrap).collect()
    }
}

fn ones(output: &Tensor) -> Result<Tensor> {
    ensure!(
        output.numel() == 1 && !output.is_complex(),
        Autograd,
        "grad can be implicitly created only for real scalar outputs"
    );
    ops::ones_like(innermost(output), None, None, None, None, None)
}

fn physical(output: &Tensor, grad: &Tensor) -> Result<Tensor> {
    ensure!(
        grad.sizes() == output.sizes(),
        Autograd,
        "Mismatch in shape: a grad_output has a shape of torch.Size({:?}) and its output has a shape of torch.Size({:?}).",
        grad.sizes(),
        output.sizes()
    );
    physical_like(grad, &wrappers(output))
}

/// Errors for a pass that accumulates gradients in leaves.
pub(crate) fn ensure_no_accumulation(tensors: &[Tensor]) -> Result<()> {
    ensure!(
        !tensors.iter().any(is_batched),
        Autograd,
        "backward() called inside a functorch transform. This is not supported, please use functorch.grad or functorch.vjp instead \
         or call backward() outside of functorch transforms."
    );
    Ok(())
}

/// A primal with all examples and a tangent of its dimensions, and how their dual is wrapped; `None` where the primal is not batched. The
/// tangent stays batched at levels at which the primal is not: the examples of these have the same primal, which is computed once.
pub(crate) fn dual(primal: &Tensor, tangent: &Tensor) -> Result<Option<(Tensor, Tensor, Vec<Wrapper>)>> {
    if !is_batched(primal) {
        return Ok(None);
    }
    if primal.sizes() != tangent.sizes() {
        bail!(
            Autograd,
            "Trying to set a forward gradient that has a different size than that of the original Tensor, this is not supported. \
             Tensor is of size {:?} while the given forward gradient is of size {:?}.",
            primal.sizes(),
            tangent.sizes()
        );
    }
    let own = wrappers(primal);
    let tangent = physical_like(tangent, &own)?;
    let inside = innermost(primal);
    // A tangent has the strides of its primal, and differs between examples that share the primal.
    let inside = match shape::has_internal_overlap(inside.sizes(), inside.strides()) {
        true => ops::clone(inside, Some(MemoryFormat::Contiguous))?,
        false => inside.clone(),
    };
    Ok(Some((inside, tangent, own)))
}

/// `as_strided` of each example; `offset` is counted from the first element of `tensor`.
pub(crate) fn as_strided(tensor: &Tensor, sizes: &[i64], strides: &[i64], offset: i64) -> Result<Tensor> {
    if !is_batched(tensor) {
        return ops::as_strided(tensor, sizes, strides, Some(tensor.storage_offset().saturating_add(offset)));
    }
    let (whole, wrappers) = with_batches_in_front(tensor)?;
    let count = wrappers.len();
    let sizes = [&whole.sizes()[..count], sizes].concat();
    let strides = [&whole.strides()[..count], strides].concat();
    rewrap(
        &ops::as_strided(&whole, &sizes, &strides, Some(whole.storage_offset().saturating_add(offset)))?,
        &wrappers,
    )
}

/// A copy of a batched tensor, of which each example has these strides.
pub(crate) fn copy_strided(tensor: &Tensor, strides: &[i64]) -> Result<Tensor> {
    let (whole, wrappers) = with_batches_in_front(tensor)?;
    let (batches, sizes) = whole.sizes().split_at(wrappers.len());
    let extent = shape::extent(sizes, strides)?.map_or(0, |last| last + 1);
    let memory = ops::new_zeros(&whole, &[batches, &[extent]].concat(), None, None, None, None)?;
    let outer = &memory.strides()[..wrappers.len()];
    let copy = ops::as_strided(&memory, whole.sizes(), &[outer, strides].concat(), Some(0))?;
    ops::copy_(&copy, &whole, false)?;
    rewrap(&copy, &wrappers)
}

/// Zeros of the sizes of `tensor`, batched as `like` is.
pub(crate) fn zeros(tensor: &Tensor, like: &Tensor) -> Result<Tensor> {
    let in_front = |wrapper: Wrapper| Wrapper { dim: 0, ..wrapper };
    let wrappers: Vec<Wrapper> = wrappers(like).into_iter().map(in_front).collect();
    if wrappers.is_empty() {
        return ops::zeros_like(tensor, None, None, None, None, None);
    }
    let size = |wrapper: &Wrapper| Ok(open_level(wrapper.level)?.size);
    let mut sizes: Vec<i64> = wrappers.iter().rev().map(size).collect::<Result<_>>()?;
    sizes.extend(tensor.sizes());
    rewrap(&ops::new_zeros(tensor, &sizes, None, None, None, None)?, &wrappers)
}

/// `f` of each example, one after the other.
pub(crate) fn each(tensor: &Tensor, f: impl Fn(&Tensor) -> Result<Tensor>) -> Result<Tensor> {
    let (whole, wrappers) = with_batches_in_front(tensor)?;
    let (batches, sizes) = whole.sizes().split_at(wrappers.len());
    let count: i64 = batches.iter().product();
    ensure!(count > 0, Autograd, "vmap: the sizes of a gradient are not known, since there are no examples");
    let flat = ops::reshape(&whole, &[&[count], sizes].concat())?;
    let results = (0..count).map(|at| f(&ops::select_int(&flat, 0, at)?)).collect::<Result<Vec<_>>>()?;
    let stacked = ops::stack(&results, 0)?;
    rewrap(&ops::reshape(&stacked, &[batches, &stacked.sizes()[1..]].concat())?, &wrappers)
}
