//! Buckets: gradients that are sent together.

use super::DataParallelOptions;
use super::comm_hook::Pending;
use flambeau_core::{Device, Result, ScalarType};
use flambeau_ops::Tensor;

/// Gradients that are sent together.
pub(super) struct Bucket {
    /// The numbers of the parameters.
    pub(super) params: Vec<usize>,
    /// All elements one after another, and the part of each parameter.
    pub(super) flat: Tensor,
    pub(super) views: Vec<Tensor>,
    /// How many gradients are missing.
    pub(super) pending: usize,
    /// Waits for its averages, once the bucket is full and was sent.
    pub(super) sent: Option<Pending>,
}

impl Bucket {
    fn new(params: Vec<usize>, all: &[Tensor]) -> Result<Self> {
        let kind = params.first().map_or((ScalarType::F32, Device::CPU), |first| kind(&all[*first]));
        let total = params.iter().map(|param| all[*param].numel()).sum();
        let flat = Tensor::zeros(&[total], kind)?;
        let (mut views, mut start) = (Vec::new(), 0);
        for param in &params {
            let (count, sizes) = (all[*param].numel(), all[*param].sizes());
            views.push(flat.narrow(0, start, count)?.view(sizes)?);
            start += count;
        }
        Ok(Bucket { pending: params.len(), params, flat, views, sent: None })
    }

    pub(super) fn reset(&mut self) {
        self.pending = self.params.len();
        self.sent = None;
    }
}

/// What the parameters of a bucket have in common.
fn kind(param: &Tensor) -> (ScalarType, Device) {
    (param.dtype(), param.device())
}

/// The numbers of the parameters of each bucket, in the reverse of their order, which is about that of the backward pass. A bucket has one
/// dtype, and is on one device.
pub(super) fn lists(params: &[Tensor], options: &DataParallelOptions) -> Vec<Vec<usize>> {
    let mut lists: Vec<Vec<usize>> = Vec::new();
    let mut bytes = 0;
    for i in (0..params.len()).rev() {
        let limit = if lists.len() <= 1 { options.first_bucket_bytes } else { options.bucket_bytes };
        let fits = |list: &&mut Vec<usize>| {
            bytes + params[i].nbytes() <= limit && kind(&params[list[0]]) == kind(&params[i])
        };
        match lists.last_mut().filter(fits) {
            Some(list) => list.push(i),
            None => {
                lists.push(vec![i]);
                bytes = 0;
            }
        }
        bytes += params[i].nbytes();
    }
    lists
}

/// The buckets of parameters.
pub(super) fn buckets(params: &[Tensor], options: &DataParallelOptions) -> Result<Vec<Bucket>> {
    lists(params, options).into_iter().map(|list| Bucket::new(list, params)).collect()
}
