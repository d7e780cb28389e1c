//! Compares analytic gradients with central differences in f64, for first and second derivatives. A complex number counts as two real ones.

use crate::engine::grad;
use crate::factory::to_dtype;
use crate::forward::{dual_level, make_dual, unpack_dual};
use crate::grad_mode::no_grad;
use crate::tensor::Autograd;
use flambeau_core::{Complex, Result, ScalarType, bail, ensure, shape};
use flambeau_ops::{Tensor, ops};

/// Tolerances of a check, and what it includes. The defaults are PyTorch's.
#[derive(Debug, Clone, Copy)]
pub struct GradCheck {
    /// Half the distance between the two points of a central difference.
    pub eps: f64,
    /// Absolute tolerance.
    pub atol: f64,
    /// Relative tolerance.
    pub rtol: f64,
    /// How much two backward passes may differ.
    pub nondet_tol: f64,
    /// Whether backward passes with undefined gradients of outputs are checked too.
    pub check_undefined_grad: bool,
    /// Whether tangents are compared with the differences.
    pub check_forward_ad: bool,
    /// Whether gradients are compared with the differences.
    pub check_backward_ad: bool,
}

impl Default for GradCheck {
    fn default() -> Self {
        GradCheck {
            eps: 1e-6,
            atol: 1e-5,
            rtol: 1e-3,
            nondet_tol: 0.0,
            check_undefined_grad: true,
            check_forward_ad: false,
            check_backward_ad: true,
        }
    }
}

/// [`GradCheck::check`] with the default tolerances.
///
/// ```
/// use flambeau_autograd::{Autograd, gradcheck};
/// use flambeau_ops::{Tensor, ops};
/// let x = Tensor::from_vec(vec![0.3f64, -0.7], &[2])?;
/// x.requires_grad_(true)?;
/// gradcheck(|x| Ok(vec![ops::tanh(&x[0])?]), &[x])?;
/// # Ok::<(), flambeau_core::Error>(())
/// ```
///
/// # Errors
/// As [`GradCheck::check`].
pub fn gradcheck(f: impl Fn(&[Tensor]) -> Result<Vec<Tensor>>, inputs: &[Tensor]) -> Result<()> {
    GradCheck::default().check(f, inputs)
}

/// [`GradCheck::check_twice`] with the default tolerances.
///
/// # Errors
/// As [`GradCheck::check`].
pub fn gradgradcheck(f: impl Fn(&[Tensor]) -> Result<Vec<Tensor>>, inputs: &[Tensor]) -> Result<()> {
    GradCheck::default().check_twice(f, inputs)
}

/// Row per element of the input, column per element of the output.
type Jacobian = Vec<Vec<f64>>;

impl GradCheck {
    /// Compares the gradients of `f` at `inputs`, which may have any strides, with central differences. Inputs that require a
    /// gradient must be f64 leaves whose elements do not overlap.
    ///
    /// # Errors
    /// `Autograd` where they differ, and those of `f`.
    pub fn check(&self, f: impl Fn(&[Tensor]) -> Result<Vec<Tensor>>, inputs: &[Tensor]) -> Result<()> {
        check_inputs(inputs)?;
        for o in 0..f(inputs)?.len() {
            self.check_output(o, &|inputs: &[Tensor]| pick(f(inputs)?, o), inputs)?;
        }
        if self.check_undefined_grad && self.check_backward_ad {
            check_undefined(&f, inputs)?;
        }
        Ok(())
    }

    /// Checks the first derivative as a function of the inputs and of the gradients of the outputs.
    ///
    /// # Errors
    /// As [`check`](Self::check).
    pub fn check_twice(&self, f: impl Fn(&[Tensor]) -> Result<Vec<Tensor>>, inputs: &[Tensor]) -> Result<()> {
        let outputs = f(inputs)?;
        let mut all = inputs.to_vec();
        for (o, output) in outputs.iter().enumerate().filter(|(_, output)| output.requires_grad()) {
            let weights = like(output, |i| weight(o as i64 * 31 + i))?;
            weights.requires_grad_(true)?;
            all.push(weights);
        }
        let first = |all: &[Tensor]| {
            let (inputs, weights) = all.split_at(inputs.len());
            let outputs: Vec<Tensor> =
                f(inputs)?.into_iter().filter(|output| output.requires_grad()).collect();
            let variables: Vec<Tensor> =
                inputs.iter().filter(|input| input.requires_grad()).cloned().collect();
            let weights: Vec<Option<Tensor>> = weights.iter().cloned().map(Some).collect();
            Ok(grad(&outputs, &variables, &weights, Some(true), true, true)?.into_iter().flatten().collect())
        };
        self.check(first, &all)
    }

    fn check_output(
        &self,
        o: usize,
        f: &dyn Fn(&[Tensor]) -> Result<Tensor>,
        inputs: &[Tensor],
    ) -> Result<()> {
        let variables: Vec<usize> = (0..inputs.len()).filter(|i| inputs[*i].requires_grad()).collect();
        let numeric =
            variables.iter().map(|i| self.numeric(f, inputs, *i)).collect::<Result<Vec<Jacobian>>>()?;
        if self.check_forward_ad {
            for (numeric, i) in numeric.iter().zip(&variables) {
                let columns = forward_jacobian(f, inputs, *i)?;
                self.compare(&columns, numeric, o, *i, " computed with forward mode")?;
            }
        }
        if !self.check_backward_ad {
            return Ok(());
        }
        // Computed after the differences, which write to the inputs.
        let output = &f(inputs)?;
        if !output.requires_grad() {
            let zero = numeric.iter().flatten().flatten().all(|d| d.abs() <= self.atol);
            ensure!(zero, Autograd, "Numerical gradient for function expected to be zero (output {o})");
            return Ok(());
        }
        let leaves: Vec<Tensor> = variables.iter().map(|i| inputs[*i].clone()).collect();
        let analytic = jacobians(output, &leaves)?;
        let again = jacobians(output, &leaves)?;
        for (n, i) in variables.iter().enumerate() {
            self.compare(&analytic[n], &numeric[n], o, *i, "")?;
            ensure!(
                difference(&analytic[n], &again[n]) <= self.nondet_tol,
                Autograd,
                "Backward is not reentrant, i.e., running backward with same input and grad_output multiple times gives \
                 different values, although analytical gradient matches numerical gradient. The tolerance for \
                 nondeterminism was {}.",
                self.nondet_tol
            );
        }
        check_zero(output, &leaves)
    }

    /// The derivative of every element of the output by every element of input `i`.
    fn numeric(
        &self,
        f: &dyn Fn(&[Tensor]) -> Result<Tensor>,
        inputs: &[Tensor],
        i: usize,
    ) -> Result<Jacobian> {
        let (input, mut jacobian) = (&inputs[i], Vec::new());
        let elements = elements(input)?;
        for element in &elements {
            let before = element.item::<f64>()?;
            let at = |x: f64| -> Result<Vec<f64>> {
                set(element, x)?;
                values(&f(inputs)?)
            };
            let both = at(before + self.eps).and_then(|high| Ok((high, at(before - self.eps)?)));
            set(element, before)?;
            let (high, low) = both?;
            jacobian.push(high.iter().zip(&low).map(|(h, l)| (h - l) / (2.0 * self.eps)).collect());
        }
        Ok(jacobian)
    }

    fn compare(&self, analytic: &Jacobian, numeric: &Jacobian, o: usize, i: usize, how: &str) -> Result<()> {
        let close = |(a, n): (&f64, &f64)| (a - n).abs() <= self.atol + self.rtol * n.abs();
        let rows = analytic.iter().zip(numeric);
        let all = rows.clone().all(|(a, n)| a.len() == n.len() && a.iter().zip(n).all(close));
        ensure!(
            all && analytic.len() == numeric.len(),
            Autograd,
            "Jacobian{how} mismatch for output {o} with respect to input {i},\nnumerical:{numeric:?}\nanalytical:{analytic:?}\n"
        );
        Ok(())
    }
}

fn pick(mut outputs: Vec<Tensor>, o: usize) -> Result<Tensor> {
    ensure!(o < outputs.len(), Autograd, "expected {} outputs again but got {}", o + 1, outputs.len());
    Ok(outputs.swap_remove(o))
}

fn check_inputs(inputs: &[Tensor]) -> Result<()> {
    ensure!(
        inputs.iter().any(Tensor::requires_grad),
        Autograd,
        "gradcheck expects at least one input tensor to require gradient, but none of the them have requires_grad=True."
    );
    for (i, input) in inputs.iter().enumerate().filter(|(_, input)| input.requires_grad()) {
        ensure!(
            matches!(input.dtype(), ScalarType::F64 | ScalarType::Complex128),
            Dtype,
            "expected input {i} of gradcheck to be float64 or complex128 but got {}",
            input.dtype()
        );
        ensure!(
            !shape::has_internal_overlap(input.sizes(), input.strides()),
            Aliasing,
            "The {i}th input has a dimension with stride 0. gradcheck only supports inputs that are non-overlapping to be \
             able to compute the numerical gradients correctly. You should call .contiguous on the input before passing \
             it to gradcheck."
        );
    }
    Ok(())
}

/// The Jacobian by columns: the tangents of the output for each unit vector as the tangent of input `i`.
fn forward_jacobian(
    f: &dyn Fn(&[Tensor]) -> Result<Tensor>,
    inputs: &[Tensor],
    i: usize,
) -> Result<Jacobian> {
    let (input, numel) = (&inputs[i], count(&inputs[i]));
    let column = |element: usize| {
        let unit = like(input, |at| if at == element as i64 { 1.0 } else { 0.0 })?;
        let _level = dual_level()?;
        let mut given = inputs.to_vec();
        given[i] = make_dual(input, &unit)?;
        let output = f(&given)?;
        match unpack_dual(&output)?.1 {
            Some(tangent) => values(&tangent),
            None => Ok(vec![0.0; count(&output)]),
        }
    };
    (0..numel).map(column).collect()
}

/// The Jacobians by rows: the gradients for each unit vector as the gradient of the output.
fn jacobians(output: &Tensor, leaves: &[Tensor]) -> Result<Vec<Jacobian>> {
    let numel = count(output);
    let mut made: Vec<Jacobian> = leaves.iter().map(|leaf| vec![vec![0.0; numel]; count(leaf)]).collect();
    for column in 0..numel {
        let mut unit = vec![0.0; numel];
        unit[column] = 1.0;
        for (jacobian, grad) in made.iter_mut().zip(pull_back(output, leaves, unit)?) {
            for (row, value) in jacobian.iter_mut().zip(grad) {
                row[column] = value;
            }
        }
    }
    Ok(made)
}

/// The gradients of the leaves for the gradient `seed` of the output; zeros where there are none.
fn pull_back(output: &Tensor, leaves: &[Tensor], seed: Vec<f64>) -> Result<Vec<Vec<f64>>> {
    let seed = to_dtype(&like(output, |i| seed[i as usize])?, output.dtype())?;
    let grads = grad(std::slice::from_ref(output), leaves, &[Some(seed)], Some(true), false, true)?;
    let read = |(grad, leaf): (Option<Tensor>, &Tensor)| match grad {
        None => Ok(vec![0.0; count(leaf)]),
        Some(grad) => {
            ensure!(grad.sizes() == leaf.sizes(), Autograd, "Analytical gradient has incorrect size");
            ensure!(grad.dtype() == leaf.dtype(), Autograd, "Analytical gradient has incorrect type");
            values(&grad)
        }
    };
    grads.into_iter().zip(leaves).map(read).collect()
}

/// The largest absolute difference, which is NaN if one of the values is NaN and the other is not the same NaN.
fn difference(a: &Jacobian, b: &Jacobian) -> f64 {
    let both = a.iter().flatten().zip(b.iter().flatten());
    both.map(|(a, b)| if a.to_bits() == b.to_bits() { 0.0 } else { (a - b).abs() })
        .fold(0.0, |max, d| if d.is_nan() || d > max { d } else { max })
}

/// Checks that for a gradient of zeros all gradients are zeros.
fn check_zero(output: &Tensor, leaves: &[Tensor]) -> Result<()> {
    let zeros = pull_back(output, leaves, vec![0.0; count(output)])?;
    ensure!(
        zeros.iter().flatten().all(|value| *value == 0.0),
        Autograd,
        "backward not multiplied by grad_output"
    );
    Ok(())
}

/// Checks that backward passes work in which the gradient of one output is undefined, for each output.
fn check_undefined(f: &dyn Fn(&[Tensor]) -> Result<Vec<Tensor>>, inputs: &[Tensor]) -> Result<()> {
    let outputs: Vec<Tensor> = f(inputs)?.into_iter().filter(|output| output.requires_grad()).collect();
    let leaves: Vec<Tensor> = inputs.iter().filter(|input| input.requires_grad()).cloned().collect();
    for left_out in 0..outputs.len() {
        let (mut used, mut seeds) = (Vec::new(), Vec::new());
        for (o, output) in outputs.iter().enumerate().filter(|(o, _)| *o != left_out) {
            used.push(output.clone());
            seeds.push(Some(to_dtype(&like(output, |i| weight(o as i64 + i))?, output.dtype())?));
        }
        if used.is_empty() {
            continue;
        }
        if let Err(error) = grad(&used, &leaves, &seeds, Some(true), false, true) {
            bail!(
                Autograd,
                "Expected backward function to handle undefined output grads. Please look at 'Notes about undefined output \
                 gradients' in 'derivatives.yaml': {error}"
            );
        }
    }
    Ok(())
}

/// Numbers between 0.5 and 1.5 without a pattern: the fractional parts of multiples of the golden ratio.
fn weight(i: i64) -> f64 {
    0.5 + (i as f64 * 0.618_033_988_749_895).fract()
}

/// Each element as a tensor of its own, in row-major order.
fn elements(tensor: &Tensor) -> Result<Vec<Tensor>> {
    let tensor = real_view(&tensor.detach()?)?;
    let mut offsets = vec![tensor.storage_offset()];
    for (size, stride) in tensor.sizes().iter().zip(tensor.strides()) {
        offsets = offsets.iter().flat_map(|start| (0..*size).map(move |i| start + i * stride)).collect();
    }
    let _unrecorded = no_grad();
    offsets.iter().map(|offset| ops::as_strided(&tensor, &[], &[], Some(*offset))).collect()
}

fn set(element: &Tensor, value: f64) -> Result<()> {
    let _unrecorded = no_grad();
    ops::fill__scalar(element, value.into())
}

fn values(tensor: &Tensor) -> Result<Vec<f64>> {
    to_dtype(&real_view(&tensor.detach()?)?, ScalarType::F64)?.to_vec()
}

/// The parts of complex numbers; real numbers as they are.
fn real_view(tensor: &Tensor) -> Result<Tensor> {
    if tensor.is_complex() { ops::view_as_real(tensor) } else { Ok(tensor.clone()) }
}

/// How many real numbers a tensor has.
fn count(tensor: &Tensor) -> usize {
    tensor.numel() as usize * if tensor.is_complex() { 2 } else { 1 }
}

/// A tensor of f64 or complex128 with the sizes of `tensor`, whose real numbers are given by their index.
fn like(tensor: &Tensor, value: impl Fn(i64) -> f64) -> Result<Tensor> {
    let values: Vec<f64> = (0..count(tensor) as i64).map(value).collect();
    if !tensor.is_complex() {
        return Tensor::from_vec(values, tensor.sizes());
    }
    let numbers = values.chunks_exact(2).map(|pair| Complex::new(pair[0], pair[1])).collect();
    Tensor::from_vec::<Complex<f64>>(numbers, tensor.sizes())
}
