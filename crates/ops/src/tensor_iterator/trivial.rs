//! Trivial calls: contiguous inputs of one shape, type and device, of which one may be a number or a zero-dimensional tensor, and an
//! output like them. A call without inputs and with a contiguous output is trivial too.

use super::operand::{Handle, Operand, Operands, Output};
use super::types::result_type;
use super::{Config, TensorIterator};
use crate::Tensor;
use flambeau_core::{
    Access, Geometry, Guarded, Result, Scalar, ScalarType, Storage, StridedView, ensure, shape, with_guards,
};

/// The largest number of inputs of a trivial call.
const MAX_INPUTS: usize = 3;

/// A trivial call, built: see the note on trivial calls at [`TensorIterator`].
pub(crate) struct TrivialIter<'a> {
    /// The inputs, the last repeated up to `MAX_INPUTS`.
    inputs: [&'a Tensor; MAX_INPUTS],
    /// The geometries of the inputs when the call began.
    geometries: [&'a Geometry; MAX_INPUTS],
    count: usize,
    /// The type of the first input: bool for the condition of `where`, else that of all inputs.
    leading: ScalarType,
    /// Which input is a number instead, `2` in `x * 2`.
    number: Option<usize>,
    /// That number as a tensor, where the call has it as a `Scalar`.
    owned_number: Option<Tensor>,
    output: Handle<'a>,
    numel: i64,
    pub(crate) dtype: ScalarType,
    pub(crate) result: ScalarType,
}

impl<'a> TensorIterator<'a> {
    /// Builds the call if it is trivial; else changes nothing and returns `false`.
    #[inline]
    pub(super) fn build_trivial<const N: usize>(
        &mut self,
        inputs: &[&'a Tensor; N],
        config: Config,
    ) -> Result<bool> {
        if N == 0 || N > MAX_INPUTS {
            return Ok(false);
        }
        // Each geometry is read once, and used throughout the call: another thread may replace it.
        let geometries = inputs.map(Tensor::geometry);
        let first = WithGeometry { tensor: inputs[0], geometry: geometries[0] };
        if !first.geometry.is_contiguous() || !self.operands.is_empty() {
            return Ok(false);
        }
        let mut alike = !first.tensor.is_wrapped_number();
        for i in 1..N {
            let other = WithGeometry { tensor: inputs[i], geometry: geometries[i] };
            alike = alike && !other.tensor.is_wrapped_number() && first.is_like(other);
        }
        if alike {
            return self.set_trivial(inputs, &geometries, first, None, config);
        }
        self.build_trivial_with_number(inputs, &geometries, config)
    }

    /// [`build_trivial`](Self::build_trivial) for inputs that are not all alike: one of them may be a number.
    #[inline(never)]
    fn build_trivial_with_number<const N: usize>(
        &mut self,
        inputs: &[&'a Tensor; N],
        geometries: &[&'a Geometry; N],
        config: Config,
    ) -> Result<bool> {
        let tensors = || {
            let operand =
                inputs.iter().zip(geometries).map(|(tensor, geometry)| WithGeometry { tensor, geometry });
            operand.filter(|operand| !operand.tensor.is_wrapped_number())
        };
        let Some(first) = tensors().find(|operand| operand.geometry.dim() > 0).or_else(|| tensors().next())
        else {
            return Ok(false);
        };
        if !first.geometry.is_contiguous() {
            return Ok(false);
        }
        let (dtype, device) = (first.tensor.dtype(), first.tensor.device());
        let mut number = None;
        for (i, (t, geometry)) in inputs.iter().zip(geometries).enumerate() {
            let may_be_number = if t.is_wrapped_number() {
                config.promote_inputs && keeps_dtype(dtype, t.dtype())
            } else if geometry.dim() == 0 && first.geometry.dim() > 0 {
                t.dtype() == dtype && t.device() == device
            } else if first.is_like(WithGeometry { tensor: t, geometry }) {
                continue;
            } else {
                false
            };
            if !may_be_number || number.is_some() {
                return Ok(false);
            }
            number = Some(i);
        }
        self.set_trivial(inputs, geometries, first, number, config)
    }

    /// Stores the call, whose inputs are like the contiguous `first` but for the `number`, if its output is like them too; else returns
    /// `false`.
    #[inline(always)]
    fn set_trivial<const N: usize>(
        &mut self,
        inputs: &[&'a Tensor; N],
        geometries: &[&'a Geometry; N],
        first: WithGeometry<'a>,
        number: Option<usize>,
        config: Config,
    ) -> Result<bool> {
        let (dtype, device) = (first.tensor.dtype(), first.tensor.device());
        if config.promote_integers_to_float && !dtype.is_floating_point() {
            return Ok(false);
        }
        let result = config.output_dtype.unwrap_or(dtype);
        let output = match self.output {
            Output::Allocate => Handle::Owned(
                Tensor::empty_contiguous(first.geometry.sizes(), result, device)
                    .map_err(|e| e.in_operator(self.name))?,
            ),
            Output::InPlace(t) | Output::Out(t) => {
                let written = t.geometry();
                // An input is the same view of the output's memory or shares none; a number's element must not be overwritten.
                let is_safe = |(i, input): (usize, &&Tensor)| {
                    !Storage::ptr_eq(input.storage(), t.storage())
                        || (geometries[i].storage_offset() == written.storage_offset() && number != Some(i))
                };
                let operand = WithGeometry { tensor: t, geometry: written };
                if result != dtype || !first.is_like(operand) || !inputs.iter().enumerate().all(is_safe) {
                    return Ok(false);
                }
                Handle::Borrowed(t, written)
            }
        };
        // Copied element by element (Note: store forwarding, in `flambeau_core`).
        let [second, third] = [1.min(N - 1), 2.min(N - 1)];
        self.common_dtype = dtype;
        self.trivial = Some(TrivialIter {
            inputs: [inputs[0], inputs[second], inputs[third]],
            geometries: [geometries[0], geometries[second], geometries[third]],
            count: N,
            leading: dtype,
            number,
            owned_number: None,
            output,
            numel: first.geometry.numel(),
            dtype,
            result,
        });
        Ok(true)
    }
}

/// A tensor with its geometry when the call began.
#[derive(Clone, Copy)]
struct WithGeometry<'a> {
    tensor: &'a Tensor,
    geometry: &'a Geometry,
}

impl WithGeometry<'_> {
    /// Whether `other` has the type, device and sizes of this contiguous tensor, and is contiguous as well.
    #[inline(always)]
    fn is_like(self, other: WithGeometry<'_>) -> bool {
        std::ptr::eq(self.geometry, other.geometry)
            || (self.tensor.dtype() == other.tensor.dtype()
                && self.tensor.device() == other.tensor.device()
                && other.geometry.is_contiguous()
                && shape::same(self.geometry.sizes(), other.geometry.sizes()))
    }
}

impl<'a> TensorIterator<'a> {
    /// Builds a call without inputs if it is trivial.
    #[inline]
    pub(super) fn build_trivial_nullary(&mut self) -> bool {
        let Output::InPlace(out) = self.output else { return false };
        let geometry = out.geometry();
        if !geometry.is_contiguous() || !self.operands.is_empty() {
            return false;
        }
        self.common_dtype = out.dtype();
        self.trivial = Some(TrivialIter {
            inputs: [out; MAX_INPUTS],
            geometries: [geometry; MAX_INPUTS],
            count: 0,
            leading: out.dtype(),
            number: None,
            owned_number: None,
            output: Handle::Borrowed(out, geometry),
            numel: geometry.numel(),
            dtype: out.dtype(),
            result: out.dtype(),
        });
        true
    }

    /// Builds `where`: the choice between two inputs by a bool condition, which takes no part in promotion.
    ///
    /// # Errors
    /// Those of [`build`](Self::build).
    pub fn build_choice(&mut self, condition: &'a Tensor, yes: &'a Tensor, no: &'a Tensor) -> Result<()> {
        let geometry = condition.geometry();
        if self.is_trivial_choice(condition, geometry, [yes, no])
            && self.build_trivial(&[yes, no], Config::PROMOTE)?
            && let Some(trivial) = &mut self.trivial
        {
            ensure!(
                trivial.numel == geometry.numel(),
                Busy(self.name),
                "expected sizes that stay as they are during the call but another thread has changed them"
            );
            trivial.inputs = [condition, yes, no];
            trivial.geometries = [geometry, trivial.geometries[0], trivial.geometries[1]];
            trivial.number = trivial.number.map(|index| index + 1);
            (trivial.count, trivial.leading) = (3, ScalarType::Bool);
            return Ok(());
        }
        [condition, yes, no].into_iter().for_each(|input| self.add_input(input));
        self.build_choice_between(yes, no)
    }

    /// Builds a choice whose inputs have been added: a condition, which takes no part in promotion, and two values.
    ///
    /// # Errors
    /// Those of [`build`](Self::build).
    pub fn build_choice_between(&mut self, yes: &Tensor, no: &Tensor) -> Result<()> {
        let dtype = result_type([yes, no]).map_err(|e| e.in_operator(self.name))?;
        self.build(Config { output_dtype: Some(dtype), keep_input_dtypes: true, ..Config::SAME })?;
        self.common_dtype = dtype;
        Ok(())
    }

    /// Whether a `where` is trivial if it is so without its condition, of this geometry.
    fn is_trivial_choice(&self, condition: &Tensor, geometry: &Geometry, values: [&Tensor; 2]) -> bool {
        let like = |t: &Tensor| shape::same(t.sizes(), geometry.sizes()) && t.device() == condition.device();
        let non_aliasing = match self.output {
            Output::Allocate => true,
            Output::InPlace(t) | Output::Out(t) => !Storage::ptr_eq(t.storage(), condition.storage()),
        };
        condition.dtype() == ScalarType::Bool
            && geometry.dim() > 0
            && geometry.is_contiguous()
            && values.iter().all(|t| t.dim() == 0 || like(t))
            && values.iter().any(|t| t.dim() > 0)
            && non_aliasing
    }

    /// Builds a call of a tensor and a number.
    ///
    /// # Errors
    /// Those of [`build`](Self::build).
    pub fn build_number_op(&mut self, a: &'a Tensor, number: Scalar, config: Config) -> Result<()> {
        let number = Tensor::wrapped_number(number)?;
        if keeps_dtype(a.dtype(), number.dtype())
            && self.build_trivial(&[a, a], config)?
            && let Some(trivial) = &mut self.trivial
        {
            trivial.number = Some(1);
            trivial.owned_number = Some(number);
            return Ok(());
        }
        self.add_input(a);
        self.add_owned_input(number);
        self.build(config)
    }
}

/// Whether a tensor of type `dtype` and a number of type `number` promote to `dtype`.
#[inline]
fn keeps_dtype(dtype: ScalarType, number: ScalarType) -> bool {
    match number {
        ScalarType::Complex128 => dtype.is_complex(),
        ScalarType::F64 => dtype.is_differentiable(),
        _ => dtype == number || dtype != ScalarType::Bool,
    }
}

/// A storage and how it is accessed.
type AccessRequest<'s> = (&'s Storage, Access);

/// Up to [`MAX_INPUTS`] inputs, and the output after them.
fn with_output<'s>(
    out: AccessRequest<'s>,
    reads: &[AccessRequest<'s>],
) -> [AccessRequest<'s>; MAX_INPUTS + 1] {
    let mut all = [out; MAX_INPUTS + 1];
    all.iter_mut().zip(reads).for_each(|(slot, read)| *slot = *read);
    all
}

impl<'a> TrivialIter<'a> {
    /// The output, taken once, at the end.
    #[inline]
    pub(super) fn take_output(&mut self) -> Tensor {
        match std::mem::replace(&mut self.output, Handle::None) {
            Handle::Owned(t) => t,
            Handle::Borrowed(t, _) => t.clone(),
            Handle::None => self.inputs[0].clone(),
        }
    }

    #[inline]
    pub(super) fn output(&self) -> &Tensor {
        match &self.output {
            Handle::Owned(t) => t,
            Handle::Borrowed(t, _) => t,
            Handle::None => self.inputs[0],
        }
    }

    pub(super) fn is_meta(&self) -> bool {
        self.output().device().is_meta()
    }

    #[inline]
    pub(super) fn is_fresh(&self) -> bool {
        matches!(self.output, Handle::Owned(_))
    }

    #[inline]
    pub(crate) fn numel(&self) -> usize {
        self.numel as usize
    }

    /// Whether the inputs are of these types.
    #[inline]
    pub(crate) fn takes<const N: usize>(&self, inputs: [ScalarType; N]) -> bool {
        match inputs.split_first() {
            Some((first, others)) => {
                *first == self.leading && others.iter().all(|other| *other == self.dtype)
            }
            None => true,
        }
    }

    pub(super) fn shape(&self) -> &[i64] {
        std::slice::from_ref(&self.numel)
    }

    /// The address of the first element of the result, then those of `N` inputs. Inlined, since addresses that are returned through
    /// memory are read by a wider load (Note: store forwarding, in `flambeau_core`).
    #[inline(always)]
    pub(crate) fn pointers<const N: usize>(&self, guarded: Guarded<'_>) -> (*mut u8, [*const u8; N]) {
        let mut from = [std::ptr::null(); N];
        for (i, address) in from.iter_mut().enumerate() {
            *address = guarded.ptr(self.view(i)).cast_const();
        }
        (self.written(guarded), from)
    }

    /// [`pointers`](Self::pointers) of a call whose inputs [are alike](Self::inputs_are_alike).
    #[inline(always)]
    pub(crate) fn pointers_alike<const N: usize>(&self, guarded: Guarded<'_>) -> (*mut u8, [*const u8; N]) {
        let size = self.dtype.size();
        let mut from = [std::ptr::null(); N];
        for (i, address) in from.iter_mut().enumerate() {
            let offset = (self.geometries[i].storage_offset() as usize).wrapping_mul(size);
            *address = guarded.ptr_at(self.inputs[i].storage(), offset).cast_const();
        }
        (self.written(guarded), from)
    }

    /// The address of the first element of the result.
    #[inline(always)]
    fn written(&self, guarded: Guarded<'_>) -> *mut u8 {
        match &self.output {
            // Allocated row-major at the start of its storage; nobody else has it and could give it another geometry.
            Handle::Owned(t) => guarded.ptr_at(t.storage(), 0),
            Handle::Borrowed(t, geometry) => guarded.ptr(StridedView::with_geometry(t.impl_(), geometry)),
            Handle::None => std::ptr::null_mut(),
        }
    }

    /// Whether all inputs are of the common type, and none is a number.
    #[inline]
    pub(crate) fn inputs_are_alike(&self) -> bool {
        self.number.is_none() && self.leading == self.dtype
    }

    /// Which input is a number, and its type.
    #[inline]
    pub(crate) fn number(&self) -> Option<(usize, ScalarType)> {
        self.number.map(|i| (i, self.input(i).dtype()))
    }

    #[inline]
    fn input(&self, i: usize) -> &Tensor {
        match &self.owned_number {
            Some(number) if self.number == Some(i) => number,
            _ => self.inputs[i],
        }
    }

    /// An input as it was when the call began.
    #[inline(always)]
    fn view(&self, i: usize) -> StridedView<'_> {
        match &self.owned_number {
            Some(number) if self.number == Some(i) => number.strided_view(),
            _ => StridedView::with_geometry(self.inputs[i].impl_(), self.geometries[i]),
        }
    }

    /// Calls `body` under the guards of the result and of `N` inputs, those that [`pointers`](Self::pointers) gives.
    #[inline]
    pub(crate) fn with_guards<R, const N: usize>(
        &self,
        name: &str,
        body: impl for<'g> FnOnce(Guarded<'g>) -> R,
    ) -> Result<R> {
        let mut reads: [_; N] = std::array::from_fn(|i| (self.input(i).storage(), Access::Read));
        let all;
        let accesses = match &self.output {
            Handle::Owned(_) => &reads[..],
            _ => {
                let out = (self.output().storage(), Access::Write);
                match reads.first_mut() {
                    // The first input of an operator in place is its output.
                    Some(first) if Storage::ptr_eq(first.0, out.0) => {
                        *first = out;
                        &reads[..]
                    }
                    _ => {
                        all = with_output(out, &reads);
                        &all[..=N]
                    }
                }
            }
        };
        with_guards(accesses, body).map_err(|e| e.in_operator(name))
    }

    /// The operands that a general build would have made.
    pub(super) fn operands(&self) -> Operands<'a> {
        let mut operands = Operands::new();
        let mut output = Operand::output(match &self.output {
            Handle::Borrowed(t, _) => Output::Out(t),
            _ => Output::Allocate,
        });
        if let Handle::Borrowed(t, geometry) = self.output {
            output.handle = Handle::Borrowed(t, geometry);
        }
        output.dtype = self.result;
        if let Handle::Owned(t) = &self.output {
            output.handle = Handle::Owned(t.clone());
            output.fresh = true;
        }
        operands.push(output);
        operands.extend((0..self.count).map(|i| match &self.owned_number {
            Some(number) if self.number == Some(i) => Operand::owned_input(number.clone()),
            _ => Operand::with_geometry(self.inputs[i], self.geometries[i]),
        }));
        for (index, operand) in operands.iter_mut().enumerate() {
            let repeated = self.number.is_some_and(|i| index == 1 + i);
            operand.strides.push(if repeated { 0 } else { operand.dtype.size() as i64 });
        }
        operands
    }
}
