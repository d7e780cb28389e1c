//! A plug-in in Rust: an operator with a kernel on elements and a derivative, one that calls others, and one that panics.
#![expect(clippy::panic, reason = "shows that a panic in a plug-in is an error of the call")]

use flambeau_plugin::{
    Backward, Call, Element, Error, ErrorKind, Recorded, Result, Tensor, Value, define, find, log, plugin,
};

plugin!(start);

fn start() -> Result<()> {
    let softplus = define("rust_plugin::softplus(Tensor self, float beta=1) -> Tensor")?;
    softplus.implement("CPU", softplus_on_cpu)?;
    softplus.autograd(|call: &Recorded| Ok(vec![call.arguments[0].tensor()?.clone()]), softplus_backward)?;
    define("rust_plugin::hypotenuse(Tensor self, Tensor other) -> Tensor")?
        .implement("CompositeImplicitAutograd", hypotenuse)?;
    define("rust_plugin::panics(Tensor self) -> Tensor")?
        .implement("CompositeImplicitAutograd", |_| panic!("as it must"))?;
    log(4, "rust_plugin is loaded")
}

fn softplus_on_cpu(call: &Call<'_>) -> Result<Vec<Value>> {
    let arguments = call.arguments()?;
    let (x, beta) = (arguments[0].tensor()?, arguments[1].float()?);
    let made = match x.dtype()? {
        <f32 as Element>::TYPE => mapped(x, |x: f32| ((f64::from(x) * beta).exp().ln_1p() / beta) as f32)?,
        <f64 as Element>::TYPE => mapped(x, |x: f64| (x * beta).exp().ln_1p() / beta)?,
        other => {
            return Err(Error::new(
                ErrorKind::Dtype,
                format!("softplus: expected floats but got type {other}"),
            ));
        }
    };
    Ok(vec![made.into()])
}

/// A function of each element.
fn mapped<T: Element>(x: &Tensor, f: impl Fn(T) -> T) -> Result<Tensor> {
    let (dense, made) = (x.contiguous()?, Tensor::empty::<T>(&x.sizes()?)?);
    {
        let (from, mut to) = (dense.read::<T>()?, made.write::<T>()?);
        to.iter_mut().zip(from.iter()).for_each(|(to, from)| *to = f(*from));
    }
    Ok(made)
}

/// The result of an operator with one.
fn one(name: &str, arguments: &[Value]) -> Result<Value> {
    let results = find(name)?.call(arguments)?;
    results
        .into_iter()
        .next()
        .ok_or_else(|| Error::new(ErrorKind::Internal, format!("{name}: expected a result")))
}

/// `grad * sigmoid(beta * x)`.
fn softplus_backward(node: &Backward) -> Result<Vec<Option<Tensor>>> {
    let Some(grad) = &node.gradients[0] else { return Ok(vec![None]) };
    let scaled = one("mul.Scalar", &[(&node.saved[0]).into(), node.arguments[1].clone()])?;
    let slope = one("sigmoid", &[scaled])?;
    Ok(vec![Some(one("mul.Tensor", &[grad.into(), slope])?.tensor()?.clone())])
}

/// `sqrt(self^2 + other^2)`, whose derivative follows from those of what it calls.
fn hypotenuse(call: &Call<'_>) -> Result<Vec<Value>> {
    let arguments = call.arguments()?;
    let (a, b) = (one("square", &arguments[..1])?, one("square", &arguments[1..])?);
    Ok(vec![one("sqrt", &[one("add.Tensor", &[a, b, Value::Int(1)])?])?])
}
