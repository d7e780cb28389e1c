//! The simplest calls: contiguous inputs of one shape, type and device, of which one may be a number or a tensor of one without
//! dimensions, and an output just like them. A call of no input but with a contiguous output is as simple.

use super::operand::{Handle, Operand, Operands, Output};
use super::{Config, TensorIterator};
use crate::Tensor;
use flambeau_core::{
    Access, Geometry, Guarded, Result, Scalar, ScalarType, Storage, StridedView, ensure, shape, with_guards,
};

/// The most inputs a plain call has.
const INPUTS: usize = 3;

/// A plain call, built. The note at [`TensorIterator`] says what for.
pub(crate) struct Plain<'a> {
    /// The inputs, the last repeated up to `INPUTS`.
    inputs: [&'a Tensor; INPUTS],
    /// Theirs when the call began.
    geometries: [&'a Geometry; INPUTS],
    count: usize,
    /// The first input is a condition, of bool whatever the others are.
    chooses: bool,
    /// Which input is a number instead, `2` in `x * 2`.
    number: Option<usize>,
    /// That number, where the call came with a `Scalar`.
    owned: Option<Tensor>,
    output: Handle<'a>,
    numel: i64,
    pub(crate) dtype: ScalarType,
    pub(crate) result: ScalarType,
}

impl<'a> TensorIterator<'a> {
    /// Builds the call if it is plain; else changes nothing and answers `false`.
    #[inline]
    pub(super) fn build_plain<const N: usize>(
        &mut self,
        inputs: &[&'a Tensor; N],
        config: Config,
    ) -> Result<bool> {
        let geometries = inputs.map(Tensor::geometry);
        let mut tensors = (0..N).filter(|i| !inputs[*i].is_wrapped_number());
        let Some(first) = tensors.clone().find(|i| geometries[*i].dim() > 0).or_else(|| tensors.next())
        else {
            return Ok(false);
        };
        let (first, geometry) = (inputs[first], geometries[first]);
        let (dtype, device) = (first.dtype(), first.device());
        if N > INPUTS
            || !geometry.is_contiguous()
            || (config.promote_integers_to_float && !dtype.is_floating_point())
            || !self.operands.is_empty()
        {
            return Ok(false);
        }
        let alike = |t: &Tensor, g: &Geometry| {
            t.dtype() == dtype
                && t.device() == device
                && g.is_contiguous()
                && shape::same(g.sizes(), geometry.sizes())
        };
        let mut number = None;
        for (i, t) in inputs.iter().enumerate() {
            if t.is_wrapped_number() {
                if number.is_some() || !config.promote_inputs || !stays(dtype, t.dtype()) {
                    return Ok(false);
                }
                number = Some(i);
            } else if !std::ptr::eq(geometries[i], geometry) && !alike(t, geometries[i]) {
                if number.is_some() || geometries[i].dim() != 0 || t.dtype() != dtype || t.device() != device
                {
                    return Ok(false);
                }
                number = Some(i);
            }
        }
        let result = config.output_dtype.unwrap_or(dtype);
        let output = match self.output {
            Output::Allocate => Handle::Owned(
                Tensor::empty_contiguous(geometry.sizes(), result, device)
                    .map_err(|e| e.context(self.name))?,
            ),
            Output::InPlace(t) | Output::Given(t) => {
                let written = t.geometry();
                // A number must not be among the elements that are written.
                let apart = |(i, input): (usize, &&Tensor)| {
                    !Storage::ptr_eq(input.storage(), t.storage())
                        || (geometries[i].storage_offset() == written.storage_offset() && number != Some(i))
                };
                if result != dtype || !alike(t, written) || !inputs.iter().enumerate().all(apart) {
                    return Ok(false);
                }
                Handle::Borrowed(t, written)
            }
        };
        // One by one: read together, what has just been written apart would have to be waited for.
        let places = [0, 1.min(N - 1), 2.min(N - 1)];
        self.common_dtype = dtype;
        self.plain = Some(Plain {
            inputs: places.map(|i| inputs[i]),
            geometries: places.map(|i| geometries[i]),
            count: N,
            chooses: false,
            number,
            owned: None,
            output,
            numel: geometry.numel(),
            dtype,
            result,
        });
        Ok(true)
    }
}

impl<'a> TensorIterator<'a> {
    /// Builds a call of no input if it is plain.
    #[inline]
    pub(super) fn build_plain_nullary(&mut self) -> bool {
        let Output::InPlace(out) = self.output else { return false };
        let geometry = out.geometry();
        if !geometry.is_contiguous() || !self.operands.is_empty() {
            return false;
        }
        self.common_dtype = out.dtype();
        self.plain = Some(Plain {
            inputs: [out; INPUTS],
            geometries: [geometry; INPUTS],
            count: 0,
            chooses: false,
            number: None,
            owned: None,
            output: Handle::Borrowed(out, geometry),
            numel: geometry.numel(),
            dtype: out.dtype(),
            result: out.dtype(),
        });
        true
    }

    /// Builds a choice between two inputs by a condition of bool, which takes no part in promotion.
    ///
    /// # Errors
    /// Those of [`build`](Self::build).
    pub fn build_choice(&mut self, condition: &'a Tensor, yes: &'a Tensor, no: &'a Tensor) -> Result<()> {
        let chosen = condition.geometry();
        if self.may_choose_plainly(condition, chosen, [yes, no])
            && self.build_plain(&[yes, no], Config::PROMOTE)?
            && let Some(plain) = &mut self.plain
        {
            ensure!(
                plain.numel == chosen.numel(),
                Busy,
                "{}: expected sizes that stay as they are during the call but another thread has changed them",
                self.name
            );
            plain.inputs = [condition, yes, no];
            plain.geometries = [chosen, plain.geometries[0], plain.geometries[1]];
            plain.number = plain.number.map(|place| place + 1);
            (plain.count, plain.chooses) = (3, true);
            return Ok(());
        }
        [condition, yes, no].into_iter().for_each(|input| self.add_input(input));
        self.build(Config::PROMOTE)
    }

    /// Whether a call that is plain without its condition is so with it.
    fn may_choose_plainly(&self, condition: &Tensor, chosen: &Geometry, values: [&Tensor; 2]) -> bool {
        let like = |t: &Tensor| shape::same(t.sizes(), chosen.sizes()) && t.device() == condition.device();
        let apart = match self.output {
            Output::Allocate => true,
            Output::InPlace(t) | Output::Given(t) => !Storage::ptr_eq(t.storage(), condition.storage()),
        };
        condition.dtype() == ScalarType::Bool
            && chosen.dim() > 0
            && chosen.is_contiguous()
            && values.iter().all(|t| t.dim() == 0 || like(t))
            && values.iter().any(|t| t.dim() > 0)
            && apart
    }

    /// Builds a call of a tensor and a number.
    ///
    /// # Errors
    /// Those of [`build`](Self::build).
    pub fn build_number_op(&mut self, a: &'a Tensor, number: Scalar, config: Config) -> Result<()> {
        let number = Tensor::wrapped_number(number)?;
        if stays(a.dtype(), number.dtype())
            && self.build_plain(&[a, a], config)?
            && let Some(plain) = &mut self.plain
        {
            plain.number = Some(1);
            plain.owned = Some(number);
            return Ok(());
        }
        self.add_input(a);
        self.add_owned_input(number);
        self.build(config)
    }
}

/// Whether elements of this type keep it beside a number of that one.
#[inline]
fn stays(dtype: ScalarType, number: ScalarType) -> bool {
    dtype == number || dtype.is_floating_point() || (number != ScalarType::F64 && dtype != ScalarType::Bool)
}

impl<'a> Plain<'a> {
    /// The output; to be asked once, at the end.
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
        let condition = usize::from(self.chooses);
        inputs[..condition] == [ScalarType::Bool][..condition]
            && inputs[condition..].iter().all(|input| *input == self.dtype)
    }

    pub(super) fn shape(&self) -> &[i64] {
        std::slice::from_ref(&self.numel)
    }

    /// The address of the first element of the result, then those of `N` inputs. Inlined, since two that come back through memory
    /// are read as one before they are there.
    #[inline(always)]
    pub(crate) fn pointers<const N: usize>(&self, guarded: Guarded<'_>) -> (*mut u8, [*const u8; N]) {
        let mut from = [std::ptr::null(); N];
        for (i, place) in from.iter_mut().enumerate() {
            *place = guarded.ptr(self.view(i)).cast_const();
        }
        let to = match &self.output {
            // Nobody else has it, to give it another geometry.
            Handle::Owned(t) => {
                guarded.ptr(StridedView::with_geometry(t.impl_(), t.impl_().first_geometry()))
            }
            Handle::Borrowed(t, geometry) => guarded.ptr(StridedView::with_geometry(t.impl_(), geometry)),
            Handle::None => std::ptr::null_mut(),
        };
        (to, from)
    }

    /// Which input is a number, and its type.
    #[inline]
    pub(crate) fn number(&self) -> Option<(usize, ScalarType)> {
        self.number.map(|i| (i, self.input(i).dtype()))
    }

    #[inline]
    fn input(&self, i: usize) -> &Tensor {
        match &self.owned {
            Some(number) if self.number == Some(i) => number,
            _ => self.inputs[i],
        }
    }

    /// An input as it was when the call began.
    #[inline(always)]
    fn view(&self, i: usize) -> StridedView<'_> {
        match &self.owned {
            Some(number) if self.number == Some(i) => number.strided_view(),
            _ => StridedView::with_geometry(self.inputs[i].impl_(), self.geometries[i]),
        }
    }

    /// Calls `body` under the guards of all operands.
    #[inline]
    pub(crate) fn with_guards<R>(
        &self,
        name: &str,
        body: impl for<'g> FnOnce(Guarded<'g>) -> R,
    ) -> Result<R> {
        let out = match &self.output {
            Handle::Borrowed(t, geometry) => t.impl_().storage_of(geometry),
            _ => self.output().storage(),
        };
        let out = (out, Access::Write);
        let mut wanted = [out; INPUTS + 1];
        let mut n = 0;
        while n < self.count {
            wanted[n] = (self.view(n).storage(), Access::Read);
            n += 1;
        }
        if !self.is_fresh() {
            // The first input of an operator in place is its output.
            let place = if n > 0 && Storage::ptr_eq(wanted[0].0, out.0) { 0 } else { n };
            wanted[place] = out;
            n = n.max(place + 1);
        }
        with_guards(&wanted[..n], body).map_err(|e| e.context(name))
    }

    /// The operands that a general build would have made.
    pub(super) fn operands(&self) -> Operands<'a> {
        let mut operands = Operands::new();
        let mut output = Operand::output(match &self.output {
            Handle::Borrowed(t, _) => Output::Given(t),
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
        operands.extend((0..self.count).map(|i| match &self.owned {
            Some(number) if self.number == Some(i) => Operand::owned_input(number.clone()),
            _ => Operand::seen(self.inputs[i], self.geometries[i]),
        }));
        for (place, operand) in operands.iter_mut().enumerate() {
            let repeated = self.number.is_some_and(|i| place == 1 + i);
            operand.strides.push(if repeated { 0 } else { operand.dtype.size() as i64 });
        }
        operands
    }
}
