//! `vmap`: opens a level, calls a function with batched tensors, and takes the batch out of its results.

use flambeau_core::{Result, bail, ensure, shape};
use flambeau_ops::batched::{Level, LevelGuard, Randomness};
use flambeau_ops::batched::{unwrap, wrap};
use flambeau_ops::{Tensor, ops};

/// The results of `f`, a function of one example, for all examples of a batch.
///
/// `in_dims` has an entry for each of `inputs`: the dimension along which the examples are, or `None` for an input that all share.
/// `out_dims` has an entry for each result: where the examples are to be, or `None` for a result that does not depend on the example. If
/// it has one entry, this is for all results. Calls nest.
///
/// # Errors
/// `InvalidArgument` and `Index` for dimensions that do not exist and batches of different sizes, and those of `f`.
///
/// ```
/// use flambeau_ops::{Tensor, ops};
/// use flambeau_vmap::{Randomness, vmap};
///
/// let (matrix, vectors) = (Tensor::from([[1.0f64, 2.0], [3.0, 4.0]]), Tensor::from([[1.0f64, 0.0], [0.0, 1.0], [1.0, 1.0]]));
/// let product = |args: &[Tensor]| Ok(vec![ops::mv(&args[0], &args[1])?]);
/// let products = vmap(product, &[matrix, vectors], &[None, Some(0)], &[Some(0)], Randomness::Error)?;
/// assert_eq!(products[0].to_vec::<f64>()?, [1.0, 3.0, 2.0, 4.0, 3.0, 7.0]);
/// # Ok::<(), flambeau_core::Error>(())
/// ```
pub fn vmap(
    f: impl FnOnce(&[Tensor]) -> Result<Vec<Tensor>>,
    inputs: &[Tensor],
    in_dims: &[Option<i64>],
    out_dims: &[Option<i64>],
    randomness: Randomness,
) -> Result<Vec<Tensor>> {
    let guard = LevelGuard::open(batch_size(inputs, in_dims)?, randomness)?;
    let level = guard.level();
    let wrapped = |(input, dim): (&Tensor, &Option<i64>)| match dim {
        Some(dim) => wrap(input, *dim, level),
        None => Ok(input.clone()),
    };
    let arguments: Vec<Tensor> = inputs.iter().zip(in_dims).map(wrapped).collect::<Result<_>>()?;
    let results = f(&arguments)?;
    ensure!(
        out_dims.len() == 1 || out_dims.len() == results.len(),
        InvalidArgument("vmap", "out_dims"),
        "expected one entry, or one for each of {} results, but got {}",
        results.len(),
        out_dims.len()
    );
    let dim = |index: usize| out_dims.get(index).or(out_dims.first()).copied().flatten();
    results.iter().enumerate().map(|(index, result)| out_of_level(result, dim(index), level)).collect()
}

/// The size of the batch, which is that of each input in its dimension.
///
/// # Errors
/// As [`vmap`].
pub fn batch_size(inputs: &[Tensor], in_dims: &[Option<i64>]) -> Result<i64> {
    ensure!(
        inputs.len() == in_dims.len(),
        InvalidArgument("vmap", "in_dims"),
        "expected an entry for each of {} inputs but got {}",
        inputs.len(),
        in_dims.len()
    );
    let mut sizes = Vec::new();
    for (input, dim) in inputs.iter().zip(in_dims) {
        let Some(dim) = dim else { continue };
        ensure!(
            input.dim() > 0,
            Index("vmap", "in_dims"),
            "Got in_dim={dim} for some input, but that input is a Tensor of dimensionality 0"
        );
        sizes.push(input.sizes()[shape::wrap_dim(*dim, input.dim())?]);
    }
    let Some(first) = sizes.first() else {
        bail!(InvalidArgument("vmap", "in_dims"), "expected at least one Tensor to vmap over")
    };
    ensure!(
        sizes.iter().all(|size| size == first),
        InvalidArgument("vmap"),
        "Expected all tensors to have the same size in the mapped dimension, got sizes {sizes:?} for the mapped dimension"
    );
    Ok(*first)
}

/// A result of a function, with its examples in dimension `dim`. One that does not depend on the example is repeated, or with `None`
/// returned as it is.
///
/// # Errors
/// `InvalidArgument` where `dim` is `None` and the result has a value for each example, `Index` for a dimension that does not exist.
pub fn out_of_level(result: &Tensor, dim: Option<i64>, level: Level) -> Result<Tensor> {
    match (unwrap(result, level.id), dim) {
        (Some((value, from)), Some(to)) => {
            let to = shape::wrap_dim(to, value.dim())? as i64;
            if from == to { Ok(value) } else { ops::movedim_int(&value, from, to) }
        }
        (None, Some(to)) => {
            let to = shape::wrap_dim(to, result.dim() + 1)?;
            let mut sizes = result.sizes().to_vec();
            sizes.insert(to, level.size);
            ops::expand(&ops::unsqueeze(result, to as i64)?, &sizes, false)
        }
        (Some(_), None) => {
            bail!(
                InvalidArgument("vmap", "out_dims"),
                "a result that is batched cannot have the out_dim None"
            )
        }
        (None, None) => Ok(result.clone()),
    }
}
