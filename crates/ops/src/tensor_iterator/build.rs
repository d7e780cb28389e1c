//! Building an iterator, in named steps that each use the results of the ones before.

use super::operand::{Handle, Operand, Output};
use super::types::result_type;
use super::{Config, TensorIterator};
use crate::Tensor;
use flambeau_core::{Device, DimVec, Geometry, Result, StridedView, bail, default_dtype, ensure, shape};
use smallvec::SmallVec;

/// Dimensions of the result, innermost in memory first.
type Order = SmallVec<[usize; 6]>;

impl<'a> TensorIterator<'a> {
    /// A formula without inputs, for an output that exists: `fill_`.
    pub fn build_nullary_op(&mut self) -> Result<()> {
        if self.build_trivial_nullary() { Ok(()) } else { self.build(Config::SAME) }
    }

    /// A formula of one input whose result has its type.
    #[inline]
    pub fn build_unary_op(&mut self, a: &'a Tensor) -> Result<()> {
        self.build_from(&[a], Config::SAME)
    }

    /// A formula of one input whose result is a floating point number: `exp`.
    #[inline]
    pub fn build_unary_float_op(&mut self, a: &'a Tensor) -> Result<()> {
        self.build_from(&[a], Config::PROMOTE_FLOAT)
    }

    /// A predicate of one input: `isnan`.
    #[inline]
    pub fn build_unary_bool_op(&mut self, a: &'a Tensor) -> Result<()> {
        self.build_from(&[a], Config::COMPARE)
    }

    /// A formula of two inputs whose result has the type they promote to.
    #[inline]
    pub fn build_binary_op(&mut self, a: &'a Tensor, b: &'a Tensor) -> Result<()> {
        self.build_from(&[a, b], Config::PROMOTE)
    }

    /// A formula of two inputs that are converted to floating point: `div`.
    #[inline]
    pub fn build_binary_float_op(&mut self, a: &'a Tensor, b: &'a Tensor) -> Result<()> {
        self.build_from(&[a, b], Config::PROMOTE_FLOAT)
    }

    /// A predicate of two inputs: `eq`.
    #[inline]
    pub fn build_comparison_op(&mut self, a: &'a Tensor, b: &'a Tensor) -> Result<()> {
        self.build_from(&[a, b], Config::COMPARE)
    }

    /// A formula of three inputs: `lerp`, `addcmul`.
    #[inline]
    pub fn build_ternary_op(&mut self, a: &'a Tensor, b: &'a Tensor, c: &'a Tensor) -> Result<()> {
        self.build_from(&[a, b, c], Config::PROMOTE)
    }

    /// Builds a call of these inputs.
    ///
    /// # Errors
    /// Those of [`build`](Self::build).
    #[inline]
    pub fn build_from<const N: usize>(&mut self, inputs: &[&'a Tensor; N], config: Config) -> Result<()> {
        if self.build_trivial(inputs, config)? {
            return Ok(());
        }
        inputs.iter().for_each(|input| self.add_input(input));
        self.build(config)
    }

    /// Adds an input.
    pub fn add_input(&mut self, tensor: &'a Tensor) {
        self.begin();
        self.operands.push(Operand::input(tensor));
    }

    /// Adds an input that the meta function made itself.
    pub fn add_owned_input(&mut self, tensor: Tensor) {
        self.begin();
        self.operands.push(Operand::owned_input(tensor));
    }

    /// Runs the steps.
    ///
    /// # Errors
    /// `Shape` where inputs do not broadcast or an in-place result does not fit, `Dtype` where types do not promote or the
    /// result cannot be cast, `Device` where operands are on several, `Aliasing` for an output that overlaps itself.
    pub fn build(&mut self, config: Config) -> Result<()> {
        self.begin();
        self.build_steps(config).map_err(|e| e.in_operator(self.name))
    }

    fn build_steps(&mut self, config: Config) -> Result<()> {
        let device = self.compute_device()?;
        self.compute_shape()?;
        self.compute_types(config)?;
        self.mark_outputs()?;
        self.check_overlap()?;
        self.compute_strides()?;
        let order = self.reorder_dimensions();
        self.allocate_outputs(&order, device)?;
        self.coalesce_dimensions();
        Ok(())
    }

    /// The one device of all operands; zero-dimensional CPU tensors may join any, but not be written from elsewhere.
    fn compute_device(&self) -> Result<Device> {
        let mut device: Option<Device> = None;
        let mut fallback = Device::CPU;
        for operand in &self.operands {
            let Some(tensor) = operand.tensor() else { continue };
            if tensor.dim() == 0 && tensor.device().is_cpu() && operand.output.is_none() {
                continue;
            }
            fallback = tensor.device();
            match device {
                Some(d) => ensure!(
                    d == tensor.device(),
                    Device,
                    expected = d,
                    got = tensor.device(),
                    "expected all tensors to be on the same device, but found at least two devices, {expected} and {got}"
                ),
                None => device = Some(tensor.device()),
            }
        }
        Ok(device.unwrap_or(fallback))
    }

    /// The shape all inputs broadcast to, and an output whose shape is fixed with them.
    fn compute_shape(&mut self) -> Result<()> {
        let mut sizes: Option<DimVec> = None;
        let is_fixed = |o: &&Operand<'_>| matches!(o.output, None | Some(Output::InPlace(_)));
        for geometry in self.operands.iter().filter(is_fixed).filter_map(Operand::geometry) {
            sizes = Some(match sizes {
                None => DimVec::from_slice(geometry.sizes()),
                Some(sizes) if sizes.as_slice() == geometry.sizes() => sizes,
                Some(sizes) => shape::broadcast(&sizes, geometry.sizes())?,
            });
        }
        let given = || self.operands[0].geometry().map(|g| DimVec::from_slice(g.sizes()));
        self.sizes = sizes.or_else(given).unwrap_or_default();
        Ok(())
    }

    /// The type the formula is evaluated in, and that of each output.
    fn compute_types(&mut self, config: Config) -> Result<()> {
        let inputs = || self.operands[self.outputs..].iter().filter_map(Operand::tensor);
        let Some(first) = inputs().next().map(Tensor::dtype) else {
            self.common_dtype = self.operands[0].dtype;
            return Ok(());
        };
        let mut common = if config.promote_inputs { result_type(inputs())? } else { first };
        let mixed = inputs().map(Tensor::dtype).find(|d| *d != first);
        if let (Some(other), false, false) = (mixed, config.promote_inputs, config.keep_input_dtypes) {
            bail!(
                Dtype,
                expected = first,
                got = other,
                "expected all inputs to be of type {expected} but got {got}"
            );
        }
        if config.promote_integers_to_float {
            common = common.to_floating_point(default_dtype());
        }
        self.common_dtype = common;
        let result = config.output_dtype.unwrap_or(common);
        for operand in &mut self.operands[..self.outputs] {
            match operand.output {
                Some(Output::Allocate) | None => operand.dtype = result,
                Some(Output::InPlace(_)) | Some(Output::Out(_)) => ensure!(
                    config.cast_freely || result.can_cast(operand.dtype),
                    Dtype,
                    argument = operand.output_argument(),
                    expected = result,
                    got = operand.dtype,
                    "result type {expected} can't be cast to the desired output type {got}"
                ),
            }
        }
        Ok(())
    }

    /// An `out=` tensor of another shape than the result is resized, and gets the values, in [`finish_out`](Self::finish_out): until
    /// then a new tensor is written instead.
    fn mark_outputs(&mut self) -> Result<()> {
        for operand in &mut self.operands[..self.outputs] {
            let sizes = operand.geometry().map(Geometry::sizes).unwrap_or_default();
            match operand.output {
                Some(Output::InPlace(_)) => ensure!(
                    sizes == self.sizes.as_slice(),
                    Shape,
                    argument = "self",
                    expected = format_args!("{:?}", self.sizes),
                    got = format_args!("{sizes:?}"),
                    "output with shape {got} doesn't match the broadcast shape {expected}"
                ),
                Some(Output::Out(t)) if sizes != self.sizes.as_slice() => {
                    crate::structured::ensure_takes(t, &self.sizes, t.device())?;
                    operand.handle = Handle::None;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Outputs must not overlap themselves. An input that shares memory with an output without being the same view of it is
    /// read from a copy, so that every element is computed from values that were there before the call.
    fn check_overlap(&mut self) -> Result<()> {
        let (outputs, inputs) = self.operands.split_at_mut(self.outputs);
        for output in outputs.iter() {
            let (Some(tensor), Some(written)) = (output.tensor(), output.geometry()) else { continue };
            ensure!(
                written.is_contiguous() || !shape::has_internal_overlap(written.sizes(), written.strides()),
                Aliasing,
                argument = output.output_argument(),
                "expected an output of which every element has memory of its own but got sizes {:?} with strides {:?}; \
                 clone it first",
                written.sizes(),
                written.strides()
            );
            let written = StridedView::with_geometry(tensor.impl_(), written);
            for input in inputs.iter_mut() {
                let (Some(tensor), Some(geometry)) = (input.tensor(), input.geometry()) else { continue };
                let read = StridedView::with_geometry(tensor.impl_(), geometry);
                if crate::structured::overlaps_partially(read, written)? {
                    let alias = tensor.alias_as(read.sizes(), read.strides(), geometry.storage_offset())?;
                    input.handle = Handle::Owned(crate::structured::private_copy(&alias)?);
                }
            }
        }
        Ok(())
    }

    /// The byte strides of every operand that exists, innermost dimension of the result first.
    fn compute_strides(&mut self) -> Result<()> {
        let dims = self.sizes.len();
        self.shape = self.sizes.iter().rev().copied().collect();
        for operand in &mut self.operands {
            let Some(geometry) = operand.geometry() else { continue };
            let size = operand.dtype.size() as i64;
            let expanded = if geometry.sizes() == self.sizes.as_slice() {
                DimVec::from_slice(geometry.strides())
            } else {
                shape::expand_strides(geometry.sizes(), geometry.strides(), &self.sizes)?
            };
            let stride_of = |d: usize| if self.sizes[d] == 1 { 0 } else { expanded[d].wrapping_mul(size) };
            operand.strides = (0..dims).rev().map(stride_of).collect();
        }
        Ok(())
    }

    /// Sorts dimensions so that the one with the smallest strides is innermost. Returns the order, as positions in the
    /// sequence of innermost-first dimensions.
    fn reorder_dimensions(&mut self) -> Order {
        let dims = self.shape.len();
        let mut order: Order = (0..dims).collect();
        for i in 1..dims {
            let mut moving = i;
            for candidate in (0..i).rev() {
                match self.compare_dimensions(order[candidate], order[moving]) {
                    std::cmp::Ordering::Greater => {
                        order.swap(candidate, moving);
                        moving = candidate;
                    }
                    std::cmp::Ordering::Less => break,
                    std::cmp::Ordering::Equal => {}
                }
            }
        }
        if order.iter().enumerate().any(|(i, d)| i != *d) {
            self.shape = order.iter().map(|&d| self.shape[d]).collect();
            for operand in &mut self.operands {
                if !operand.strides.is_empty() {
                    operand.strides = order.iter().map(|&d| operand.strides[d]).collect();
                }
            }
        }
        order
    }

    /// Which of two dimensions should be further in: decided by the first operand whose strides differ; a broadcast dimension decides
    /// nothing.
    fn compare_dimensions(&self, a: usize, b: usize) -> std::cmp::Ordering {
        for operand in &self.operands {
            if operand.strides.is_empty() {
                continue;
            }
            let (stride_a, stride_b) = (operand.strides[a], operand.strides[b]);
            if stride_a == 0 || stride_b == 0 {
                continue;
            }
            if stride_a != stride_b {
                return stride_a.cmp(&stride_b);
            }
            if self.shape[a] > self.shape[b] {
                return std::cmp::Ordering::Greater;
            }
        }
        std::cmp::Ordering::Equal
    }

    /// Allocates the outputs that do not exist yet, dense in the order of the loops.
    fn allocate_outputs(&mut self, order: &[usize], device: Device) -> Result<()> {
        let dims = self.shape.len();
        for operand in &mut self.operands[..self.outputs] {
            if operand.tensor().is_some() {
                continue;
            }
            let size = operand.dtype.size() as i64;
            let mut strides = DimVec::from_elem(0, dims);
            operand.strides.clear();
            let mut next = 1i64;
            for (position, &d) in order.iter().enumerate() {
                strides[dims - 1 - d] = next;
                operand.strides.push(next * size);
                next = next.saturating_mul(self.shape[position].max(1));
            }
            let tensor = Tensor::empty_with_strides(&self.sizes, &strides, operand.dtype, device)?;
            operand.handle = Handle::Owned(tensor);
            operand.fresh = true;
        }
        Ok(())
    }

    /// Coalesces neighbouring dimensions that are one dimension for every operand.
    pub(super) fn coalesce_dimensions(&mut self) {
        let dims = self.shape.len();
        let mut last = 0;
        for d in 1..dims {
            let joins = self.shape[last] == 1
                || self.shape[d] == 1
                || self
                    .operands
                    .iter()
                    .all(|o| self.shape[last].wrapping_mul(o.strides[last]) == o.strides[d]);
            if joins {
                if self.shape[last] == 1 {
                    self.copy_strides(d, last);
                }
                // The product overflows only where another size is 0, and then stays 0.
                self.shape[last] = self.shape[last].wrapping_mul(self.shape[d]);
            } else {
                last += 1;
                self.copy_strides(d, last);
                self.shape[last] = self.shape[d];
            }
        }
        if dims == 0 {
            self.shape.push(1);
            self.operands.iter_mut().for_each(|o| o.strides.push(0));
        }
        self.shape.truncate(last + 1);
        self.operands.iter_mut().for_each(|o| o.strides.truncate(last + 1));
    }

    fn copy_strides(&mut self, from: usize, to: usize) {
        for operand in &mut self.operands {
            operand.strides[to] = operand.strides[from];
        }
    }

    /// The common type, checked to be a floating point type: for formulas that have no integer form.
    ///
    /// # Errors
    /// `Dtype` naming the operator.
    pub fn require_floating_point(&self) -> Result<flambeau_core::ScalarType> {
        let dtype = self.common_dtype;
        ensure!(
            dtype.is_floating_point(),
            Dtype(self.name, "self"),
            got = dtype,
            "expected a floating point type but got {got}"
        );
        Ok(dtype)
    }
}
