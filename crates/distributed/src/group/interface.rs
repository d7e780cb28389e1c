//! The collectives of a group: their arguments are checked at once, and they run in the background.

use super::{Kind, ProcessGroup, check_device, collectives, flat};
use crate::bytes;
use crate::reduce::ReduceOp;
use crate::work::Work;
use flambeau_core::{Device, Result, ScalarType, ensure};
use flambeau_ops::Tensor;

/// Collectives.
impl ProcessGroup {
    /// Replaces the tensor of every rank by the reduction of all.
    ///
    /// # Errors
    /// `Dtype` for a dtype that the operation does not have, `Device` for tensors without elements.
    pub fn all_reduce(&self, tensor: &Tensor, op: ReduceOp) -> Result<Work> {
        bytes::check("all_reduce", "tensor", tensor)?;
        op.check("all_reduce", tensor.dtype())?;
        let tensor = tensor.clone();
        let kind = Kind::of(&tensor);
        self.start("all_reduce", kind, format!("{op:?}"), move |call| {
            collectives::all_reduce(call, &tensor, op)
        })
    }

    /// Replaces the tensor of rank `dst` by the reduction of all. The others' stay as they are.
    ///
    /// # Errors
    /// As [`all_reduce`](Self::all_reduce), and `InvalidArgument` for a rank out of range.
    pub fn reduce(&self, tensor: &Tensor, dst: usize, op: ReduceOp) -> Result<Work> {
        bytes::check("reduce", "tensor", tensor)?;
        op.check("reduce", tensor.dtype())?;
        self.check_rank("reduce", "dst", dst)?;
        let (tensor, detail) = (tensor.clone(), format!("{op:?} to rank {dst}"));
        let kind = Kind::of(&tensor);
        self.start("reduce", kind, detail, move |call| collectives::reduce(call, &tensor, dst, op))
    }

    /// Replaces the tensor of every rank by that of rank `src`.
    ///
    /// # Errors
    /// `InvalidArgument` for a rank out of range, `Device` for tensors without elements.
    pub fn broadcast(&self, tensor: &Tensor, src: usize) -> Result<Work> {
        bytes::check("broadcast", "tensor", tensor)?;
        self.check_rank("broadcast", "src", src)?;
        let (tensor, detail) = (tensor.clone(), format!("from rank {src}"));
        let kind = Kind::of(&tensor);
        self.start("broadcast", kind, detail, move |call| collectives::broadcast(call, &tensor, src))
    }

    /// Writes the tensor of rank `i` to `outputs[i]`, on every rank.
    ///
    /// # Errors
    /// `InvalidArgument`, `Shape` and `Dtype` unless there is one output like `input` for each rank.
    pub fn all_gather(&self, outputs: &[Tensor], input: &Tensor) -> Result<Work> {
        self.check_list("all_gather", "outputs", outputs, input)?;
        let (outputs, input) = (outputs.to_vec(), input.clone());
        let kind = Kind::of(&input);
        self.start("all_gather", kind, String::new(), move |call| {
            collectives::all_gather(call, &outputs, &input)
        })
    }

    /// Writes the tensors of all ranks one after another to `output`, on every rank.
    ///
    /// # Errors
    /// `Shape` unless `output` is contiguous and has the elements of all ranks.
    pub fn all_gather_into_tensor(&self, output: &Tensor, input: &Tensor) -> Result<Work> {
        let outputs = self.split("all_gather_into_tensor", "output", output, input)?;
        self.all_gather(&outputs, &flat(&input.detach()?.contiguous()?)?)
    }

    /// Writes the tensor of rank `i` to `outputs[i]` of rank `dst`. The other ranks give no outputs.
    ///
    /// # Errors
    /// As [`all_gather`](Self::all_gather), and `InvalidArgument` for a rank out of range.
    pub fn gather(&self, input: &Tensor, outputs: &[Tensor], dst: usize) -> Result<Work> {
        self.check_rank("gather", "dst", dst)?;
        self.check_rooted("gather", "outputs", outputs, input, dst)?;
        let (outputs, input, detail) = (outputs.to_vec(), input.clone(), format!("to rank {dst}"));
        let kind = Kind::of(&input);
        self.start("gather", kind, detail, move |call| collectives::gather(call, &input, &outputs, dst))
    }

    /// Writes `inputs[i]` of rank `src` to `output` of rank `i`. The other ranks give no inputs.
    ///
    /// # Errors
    /// As [`gather`](Self::gather).
    pub fn scatter(&self, output: &Tensor, inputs: &[Tensor], src: usize) -> Result<Work> {
        self.check_rank("scatter", "src", src)?;
        self.check_rooted("scatter", "inputs", inputs, output, src)?;
        let (inputs, output, detail) = (inputs.to_vec(), output.clone(), format!("from rank {src}"));
        let kind = Kind::of(&output);
        self.start("scatter", kind, detail, move |call| collectives::scatter(call, &output, &inputs, src))
    }

    /// Writes the reduction of all ranks' `inputs[i]` to `output` of rank `i`.
    ///
    /// # Errors
    /// As [`all_gather`](Self::all_gather) and [`all_reduce`](Self::all_reduce).
    pub fn reduce_scatter(&self, output: &Tensor, inputs: &[Tensor], op: ReduceOp) -> Result<Work> {
        self.check_list("reduce_scatter", "inputs", inputs, output)?;
        op.check("reduce_scatter", output.dtype())?;
        let (inputs, output, detail) = (inputs.to_vec(), output.clone(), format!("{op:?}"));
        let kind = Kind::of(&output);
        self.start("reduce_scatter", kind, detail, move |call| {
            collectives::reduce_scatter(call, &output, &inputs, op)
        })
    }

    /// The same with the inputs one after another in one tensor.
    ///
    /// # Errors
    /// As [`all_gather_into_tensor`](Self::all_gather_into_tensor) and [`all_reduce`](Self::all_reduce).
    pub fn reduce_scatter_tensor(&self, output: &Tensor, input: &Tensor, op: ReduceOp) -> Result<Work> {
        let inputs = self.split("reduce_scatter_tensor", "input", input, output)?;
        self.reduce_scatter(&flat(output)?, &inputs, op)
    }

    /// Writes `inputs[j]` of rank `i` to `outputs[i]` of rank `j`. The tensors may have different sizes.
    ///
    /// # Errors
    /// `InvalidArgument` and `Dtype` unless there is one input and one output for each rank, all of one dtype.
    pub fn all_to_all(&self, outputs: &[Tensor], inputs: &[Tensor]) -> Result<Work> {
        for (argument, list) in [("outputs", outputs), ("inputs", inputs)] {
            self.check_count("all_to_all", argument, list)?;
            list.iter().try_for_each(|tensor| bytes::check("all_to_all", argument, tensor))?;
        }
        let (dtype, device) = (inputs[0].dtype(), inputs[0].device());
        for other in inputs.iter().chain(outputs) {
            ensure!(
                other.dtype() == dtype,
                Dtype("all_to_all", "inputs"),
                "expected tensors of one dtype but got {dtype} and {}",
                other.dtype()
            );
            check_device("all_to_all", "inputs", other, device)?;
        }
        let (outputs, inputs) = (outputs.to_vec(), inputs.to_vec());
        self.start("all_to_all", Kind { dtype, sizes: vec![], device }, String::new(), move |call| {
            collectives::all_to_all(call, &outputs, &inputs)
        })
    }

    /// Completes when all ranks have called it.
    ///
    /// # Errors
    /// `Io` for a group that is broken.
    pub fn barrier(&self) -> Result<Work> {
        let kind = Kind { dtype: ScalarType::U8, sizes: vec![], device: Device::CPU };
        self.start("barrier", kind, String::new(), collectives::barrier)
    }

    /// The bytes of rank `src` on every rank. It waits for them.
    ///
    /// # Errors
    /// As [`broadcast`](Self::broadcast) and [`Work::wait`].
    pub fn broadcast_bytes(&self, bytes: &[u8], src: usize) -> Result<Vec<u8>> {
        let length = Tensor::from([bytes.len() as i64]);
        self.broadcast(&length, src)?.wait()?;
        let count = length.item::<i64>()? as usize;
        let values = if self.rank() == src { bytes::copied(bytes)? } else { bytes::buffer(count)? };
        self.broadcast(&values, src)?.wait()?;
        values.to_vec()
    }
}
