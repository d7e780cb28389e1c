//! Operators by name: those of the library, those of crates that are linked in, and those defined while the program runs.
//!
//! A call has its operator's address; names are for look-up only.

mod signature;

use crate::Tensor;
use crate::append_list::AppendList;
use crate::dispatch::{
    BoxedKernel, Call, DispatchKey, DispatchKeySet, FunctionSchema, OperatorInfo, Value, factory_keys,
    fallback, takes_composites_apart,
};
use crate::ops::OPERATORS;
use flambeau_core::{Result, apply_thread_keys, bail, ensure, profiler};
use parking_lot::Mutex;
use signature::Signature;
use std::collections::HashMap;
use std::panic::Location;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// An operator of a crate that is linked in: `inventory::submit!(Definition::new(&CUBE));`.
pub struct Definition {
    operator: &'static dyn OperatorInfo,
    location: &'static Location<'static>,
}

inventory::collect!(Definition);

impl Definition {
    /// `operator`, to be found by its name.
    #[track_caller]
    pub const fn new(operator: &'static dyn OperatorInfo) -> Self {
        Definition { operator, location: Location::caller() }
    }
}

static DEFINED: AppendList<&'static DefinedOperator> = AppendList::new();

/// The operators that were defined and not withdrawn, newest first.
fn in_force() -> impl Iterator<Item = &'static DefinedOperator> {
    DEFINED.iter().copied().filter(|operator| !operator.is_withdrawn.load(Ordering::Acquire))
}

/// Every operator that exists now: the library's in the order of its file, then the others.
///
/// ```
/// assert!(flambeau_ops::registry::operators().any(|operator| operator.name() == "add.Tensor"));
/// ```
pub fn operators() -> impl Iterator<Item = &'static dyn OperatorInfo> {
    let linked = inventory::iter::<Definition>.into_iter().map(|definition| definition.operator);
    let defined = in_force().map(|operator| operator as &dyn OperatorInfo);
    OPERATORS.iter().copied().chain(linked).chain(defined)
}

/// An operator, and where it was defined if it is not the library's.
type Found = (&'static dyn OperatorInfo, Option<&'static Location<'static>>);

/// The operators that exist from the start, by name.
static BY_NAME: LazyLock<HashMap<&'static str, Vec<Found>>> = LazyLock::new(|| {
    let own = OPERATORS.iter().map(|operator| (*operator, None));
    let linked = inventory::iter::<Definition>.into_iter().map(|d| (d.operator, Some(d.location)));
    let mut map: HashMap<&str, Vec<Found>> = HashMap::new();
    own.chain(linked).for_each(|found| map.entry(found.0.name()).or_default().push(found));
    map
});

/// The operator of that name, as the schema has it: `add.Tensor`, `mine::cube`.
///
/// # Errors
/// `InvalidArgument` where there is none, or where two crates define one, with the source location of each.
///
/// ```
/// let add = flambeau_ops::registry::find("add.Tensor")?;
/// assert!(add.schema().starts_with("add.Tensor(Tensor self"));
/// assert!(flambeau_ops::registry::find("subtract.Tensor2").is_err());
/// # Ok::<(), flambeau_core::Error>(())
/// ```
pub fn find(name: &str) -> Result<&'static dyn OperatorInfo> {
    match BY_NAME.get(name).map(Vec::as_slice) {
        Some([(operator, _)]) => return Ok(*operator),
        Some([first, second, ..]) => {
            let location =
                |found: &Found| found.1.map_or_else(|| "the library".to_owned(), ToString::to_string);
            bail!(
                InvalidArgument(name),
                "expected one operator of that name but there is one from {} and one from {}",
                location(first),
                location(second)
            )
        }
        _ => {}
    }
    match in_force().find(|operator| operator.signature.name == name) {
        Some(operator) => Ok(operator),
        None => bail!(InvalidArgument, "expected the name of an operator but got {name:?}"),
    }
}

/// An operator that was defined while the program runs: all its kernels are boxed.
struct DefinedOperator {
    signature: Signature,
    /// Where it was defined: a line of a program, or a library that was loaded.
    origin: &'static str,
    kernels: AppendList<(DispatchKey, &'static dyn BoxedKernel)>,
    is_observed: AtomicBool,
    /// Whether it was [undefined](undefine): calls that hold it still work, but its name is free.
    is_withdrawn: AtomicBool,
}

/// Makes an operator of `schema`, `mine::cube(Tensor self) -> Tensor`, without kernels:
/// [`register_boxed`](OperatorInfo::register_boxed) adds them. It exists until the process ends.
///
/// # Errors
/// `InvalidArgument` where the schema is malformed or has types of which there are no [values](Value), or where there is an operator of
/// that name; it says where both come from.
///
/// ```
/// use flambeau_ops::dispatch::{Call, DispatchKey, Value};
/// use flambeau_ops::{Tensor, ops, registry};
///
/// let cube = registry::define("mine::cube(Tensor self) -> Tensor")?;
/// let kernel = |call: &Call<'_>| {
///     let [Value::Tensor(x)] = call.arguments else { flambeau_core::bail!(InvalidArgument, "expected a tensor") };
///     Ok(vec![Value::Tensor(ops::mul_tensor(&ops::mul_tensor(x, x)?, x)?)])
/// };
/// cube.register_boxed(DispatchKey::CompositeImplicitAutograd, Box::leak(Box::new(kernel)))?;
/// let results = registry::find("mine::cube")?.call_boxed(&[Tensor::from([2.0f32]).into()])?;
/// let [Value::Tensor(eight)] = &results[..] else { panic!("expected a tensor") };
/// assert_eq!(eight.to_vec::<f32>()?, [8.0]);
/// # Ok::<(), flambeau_core::Error>(())
/// ```
#[track_caller]
pub fn define(schema: &str) -> Result<&'static dyn OperatorInfo> {
    define_from(schema, &Location::caller().to_string())
}

/// The same for an operator that comes from `origin`, such as the path of a library.
///
/// # Errors
/// Those of [`define`].
pub fn define_from(schema: &str, origin: &str) -> Result<&'static dyn OperatorInfo> {
    let signature = Signature::parse(schema)?;
    // Of two threads that define one name, the second must see what the first has made.
    let _defining = DEFINING.lock();
    ensure_undefined(signature.name, origin)?;
    let operator: &DefinedOperator = Box::leak(Box::new(DefinedOperator {
        signature,
        origin: Box::leak(origin.to_owned().into_boxed_str()),
        kernels: AppendList::new(),
        is_observed: AtomicBool::new(false),
        is_withdrawn: AtomicBool::new(false),
    }));
    DEFINED.push(operator);
    Ok(operator)
}

/// Held while an operator is defined.
static DEFINING: Mutex<()> = Mutex::new(());

/// Frees the name of an operator that was defined while the program runs. Nothing is deallocated: a thread may be in it.
///
/// # Errors
/// `InvalidArgument` where there is no such operator.
///
/// ```
/// use flambeau_ops::registry;
///
/// registry::define("mine::twice(Tensor self) -> Tensor")?;
/// registry::undefine("mine::twice")?;
/// assert!(registry::find("mine::twice").is_err());
/// registry::define("mine::twice(Tensor self, int times) -> Tensor")?;
/// # Ok::<(), flambeau_core::Error>(())
/// ```
pub fn undefine(name: &str) -> Result<()> {
    let Some(operator) = in_force().find(|operator| operator.signature.name == name) else {
        bail!(
            InvalidArgument("undefine"),
            "expected an operator that was defined at run time but got {name:?}"
        )
    };
    operator.is_withdrawn.store(true, Ordering::Release);
    Ok(())
}

/// [Undefines](undefine) all operators that come from `origin`: it has failed before its end, and may be tried again.
pub fn undefine_from(origin: &str) {
    for operator in in_force().filter(|operator| operator.origin == origin) {
        operator.is_withdrawn.store(true, Ordering::Release);
    }
}

fn ensure_undefined(name: &str, origin: &str) -> Result<()> {
    let linked = || BY_NAME.get(name).and_then(|found| found.first());
    let defined = in_force().find(|operator| operator.signature.name == name);
    let first = match (defined, linked()) {
        (Some(operator), _) => operator.origin.to_owned(),
        (None, Some((_, Some(location)))) => location.to_string(),
        (None, Some((_, None))) => "the library".to_owned(),
        (None, None) => return Ok(()),
    };
    bail!(
        InvalidArgument("define", "schema"),
        "there is an operator {name} already: expected one but there is one from {first} and one from {origin}"
    )
}

/// Which boxed kernels were registered by [`implement`]: the address of the operator, the key, and the origin.
static ORIGINS: Mutex<Vec<(usize, DispatchKey, String)>> = Mutex::new(Vec::new());

/// Registers boxed kernels that come from `origin`, such as the path of a library: all of them or none. `kernels` makes them, and is
/// called only if all are accepted, since a kernel that was made must stay for as long as the process.
///
/// # Errors
/// `InvalidArgument` where the operator has a kernel for one of `keys` already and `overriding` is false, saying where both come from;
/// those of [`register_boxed`](OperatorInfo::register_boxed).
pub fn implement<const N: usize>(
    operator: &'static dyn OperatorInfo,
    keys: [DispatchKey; N],
    (origin, overriding): (&str, bool),
    kernels: impl FnOnce() -> [&'static dyn BoxedKernel; N],
) -> Result<()> {
    let mut origins = ORIGINS.lock();
    let address = std::ptr::from_ref(operator).addr();
    for key in keys {
        operator.ensure_takes_boxed(key)?;
        let known = origins.iter().rfind(|(of, known, _)| (*of, *known) == (address, key));
        ensure!(
            overriding || (known.is_none() && !operator.has_kernel(key)),
            InvalidArgument(operator.name()),
            "expected one kernel for {key} but there is one from {} and one from {origin}; a kernel may be registered as overriding",
            known.map_or("a crate that is linked", |(.., origin)| origin.as_str())
        );
    }
    for (key, kernel) in keys.into_iter().zip(kernels()) {
        operator.register_boxed(key, kernel)?;
        origins.push((address, key, origin.to_owned()));
    }
    Ok(())
}

/// A kernel for a key of all operators that are defined at run time and have no own one for it, nor are composite:
/// `inventory::submit!(DefaultKernel::new(..))`. The operator has no [kernel](OperatorInfo::has_kernel) for the key by it.
pub struct DefaultKernel {
    key: DispatchKey,
    kernel: &'static dyn BoxedKernel,
}

inventory::collect!(DefaultKernel);

impl DefaultKernel {
    /// `kernel` for `key`: `Autograd` or `ForwardGrad`. Of one for each, since crates of the library alone provide them.
    pub const fn new(key: DispatchKey, kernel: &'static dyn BoxedKernel) -> Self {
        DefaultKernel { key, kernel }
    }
}

impl DefinedOperator {
    /// The kernel for a key for which none is registered.
    fn default_kernel(&self, key: DispatchKey) -> Option<&'static dyn BoxedKernel> {
        // The tangents of an implicit composite are those of the operators that it calls, unless its history is not.
        let is_composite = self.registered(DispatchKey::CompositeImplicitAutograd).is_some()
            && self.registered(DispatchKey::Autograd).is_none();
        let mut all = inventory::iter::<DefaultKernel>.into_iter();
        all.find(|default| default.key == key && !is_composite).map(|default| default.kernel)
    }

    fn registered(&self, key: DispatchKey) -> Option<&'static dyn BoxedKernel> {
        self.kernels.iter().find(|(of, kernel)| *of == key && kernel.is_in_force()).map(|(_, kernel)| *kernel)
    }

    /// The kernel of the highest of `keys` that has one, and that key.
    fn select(&self, mut keys: DispatchKeySet) -> Result<(DispatchKey, &'static dyn BoxedKernel)> {
        while let Some(key) = keys.highest() {
            let composite = match key {
                _ if key.is_backend() => self
                    .registered(DispatchKey::CompositeExplicitAutograd)
                    .or_else(|| self.registered(DispatchKey::CompositeImplicitAutograd)),
                _ if takes_composites_apart(key) => self.registered(DispatchKey::CompositeImplicitAutograd),
                _ => None,
            };
            let own = self.registered(key).or(composite);
            if let Some(kernel) = own.or_else(|| self.default_kernel(key)) {
                return Ok((key, kernel));
            }
            let may_fall_back = key.is_backend()
                || key.is_layout()
                || matches!(key, DispatchKey::Python | DispatchKey::Batched);
            if may_fall_back && let Some(kernel) = fallback(key)? {
                return Ok((key, kernel));
            }
            // A lower key would drop the history or a tangent silently, or read elements that do not exist.
            let has_derivative = || self.registered(DispatchKey::Autograd).is_some();
            let is_required = key.is_backend()
                || key.is_layout()
                || key == DispatchKey::Autograd
                || (key == DispatchKey::ForwardGrad && has_derivative());
            ensure!(!is_required, NotImplemented(self.signature.name), "there is no kernel for {key}");
            keys = keys.without(key.into());
        }
        bail!(InvalidArgument(self.signature.name), "expected a tensor to choose a kernel by")
    }
}

impl OperatorInfo for DefinedOperator {
    fn name(&self) -> &'static str {
        self.signature.name
    }

    fn schema(&self) -> &'static str {
        self.signature.schema
    }

    fn parsed_schema(&self) -> Result<&'static FunctionSchema> {
        Ok(self.signature.parsed)
    }

    fn has_kernel(&self, key: DispatchKey) -> bool {
        self.registered(key).is_some()
    }

    fn set_observed(&self, on: bool) {
        self.is_observed.store(on, Ordering::Relaxed);
    }

    fn call_boxed(&self, arguments: &[Value]) -> Result<Vec<Value>> {
        let arguments = &*self.signature.check_arguments(arguments)?;
        let (key, kernel) = self.select(apply_thread_keys(keys_of(arguments)))?;
        let observed = self.is_observed.load(Ordering::Relaxed);
        let inputs = || arguments.iter().flat_map(Value::tensors).map(profiler_input).collect();
        let _open = observed.then(|| profiler::begin_operator(self.signature.name, key as usize, inputs));
        let Some(operator) = DEFINED.iter().find(|other| std::ptr::eq(**other, self)) else {
            bail!(Internal(self.signature.name), "an operator that was never defined")
        };
        self.signature.check_results(kernel.call(&Call { operator: *operator, key, arguments })?)
    }

    fn ensure_takes_boxed(&self, _: DispatchKey) -> Result<()> {
        Ok(())
    }

    fn register_boxed(&self, key: DispatchKey, kernel: &'static dyn BoxedKernel) -> Result<()> {
        self.kernels.push((key, kernel));
        Ok(())
    }

    /// Each call selects its kernel.
    fn select_again(&self, _: DispatchKey) {}
}

fn profiler_input(tensor: &Tensor) -> profiler::Input {
    profiler::Input { sizes: tensor.sizes().to_vec(), dtype: tensor.dtype() }
}

/// The keys of a call: those of its tensors, and of the device that it names.
fn keys_of(arguments: &[Value]) -> DispatchKeySet {
    let tensors = arguments.iter().flat_map(Value::tensors);
    let union = tensors.fold(DispatchKeySet::EMPTY, |keys, tensor| keys | tensor.key_set());
    let device = arguments.iter().find_map(|value| match value {
        Value::Device(device) => Some(*device),
        _ => None,
    });
    factory_keys(union, device)
}
