//! Kernels that take their arguments in a list: for one operator, for a key, for operators defined while the program runs; and
//! tensors of layouts that only such kernels know.

use flambeau_core::tensor_impl::Parts;
use flambeau_core::{
    Device, DispatchKey, DispatchKeySet, ErrorKind, Geometry, Layout, Result, ScalarType, TensorImpl,
};
use flambeau_ops::dispatch::{
    BoxedKernel, BoxedRegistration, Call, Kernel, Operator, OperatorInfo, Value, boxing, register,
    register_fallback,
};
use flambeau_ops::{Tensor, ops, registry};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

type Unary = fn(DispatchKeySet, &Tensor) -> Result<Tensor>;

fn none(_: &[Value]) -> Result<Vec<Value>> {
    Ok(vec![])
}

/// A kernel that gives one number, as a tensor.
struct Number(f32);

impl BoxedKernel for Number {
    fn call(&self, _: &Call<'_>) -> Result<Vec<Value>> {
        Ok(vec![Tensor::from(self.0).into()])
    }
}

static TYPED: Operator<Unary> =
    Operator::new("typed", "typed(Tensor x) -> Tensor", &[boxing!(TYPED: Unary, x)], none);
register!(TYPED, PrivateUse2, (|_, _| Ok(Tensor::from(1.0f32))) as Unary);
flambeau_ops::dispatch::inventory::submit!(BoxedRegistration::new(
    &TYPED,
    DispatchKey::PrivateUse2,
    &Number(2.0)
));

static BOXED: Operator<Unary> = Operator::new(
    "boxed",
    "boxed(Tensor x) -> Tensor",
    &[
        Kernel::new(DispatchKey::CompositeExplicitAutograd, (|_, _| Ok(Tensor::from(3.0f32))) as Unary),
        boxing!(BOXED: Unary, x),
    ],
    none,
);
flambeau_ops::dispatch::inventory::submit!(BoxedRegistration::new(
    &BOXED,
    DispatchKey::PrivateUse2,
    &Number(2.0)
));

static PLAIN: Operator<Unary> =
    Operator::new("plain", "plain(Tensor x) -> Tensor", &[boxing!(PLAIN: Unary, x)], none);

static UNBOXED: Operator<Unary> = Operator::new("unboxed", "unboxed(Tensor x) -> Tensor", &[], none);

static TWO: Operator<Unary> =
    Operator::new("two", "two(Tensor x) -> Tensor", &[boxing!(TWO: Unary, x)], none);
flambeau_ops::dispatch::inventory::submit!(BoxedRegistration::new(
    &TWO,
    DispatchKey::PrivateUse2,
    &Number(1.0)
));
flambeau_ops::dispatch::inventory::submit!(BoxedRegistration::new(
    &TWO,
    DispatchKey::PrivateUse2,
    &Number(2.0)
));

fn call(operator: &Operator<Unary>, key: DispatchKey) -> Result<f32> {
    let (keys, kernel) = operator.select(key.into())?;
    kernel(keys, &Tensor::from(0.0f32))?.item::<f32>()
}

#[test]
fn typed_comes_before_boxed_and_boxed_before_composite() {
    assert_eq!(call(&TYPED, DispatchKey::PrivateUse2).unwrap(), 1.0);
    assert_eq!(call(&BOXED, DispatchKey::PrivateUse2).unwrap(), 2.0);
    assert_eq!(call(&BOXED, DispatchKey::PrivateUse1).unwrap(), 3.0);
    BOXED.register_boxed(DispatchKey::PrivateUse2, &Number(5.0)).unwrap();
    assert_eq!(call(&BOXED, DispatchKey::PrivateUse2).unwrap(), 5.0);
    let alias = BOXED.register_boxed(DispatchKey::CompositeExplicitAutograd, &Number(5.0));
    assert_eq!(alias.unwrap_err().kind(), ErrorKind::InvalidArgument);
}

#[test]
fn two_boxed_kernels_are_an_error_with_both_locations() {
    let error = call(&TWO, DispatchKey::PrivateUse2).unwrap_err();
    assert_eq!(error.to_string().matches("boxed_kernels.rs:").count(), 2, "{error}");
}

#[test]
fn a_fallback_serves_all_operators_without_a_kernel() {
    /// Counts, and tells what it saw.
    struct Fallback(AtomicUsize);
    impl BoxedKernel for Fallback {
        fn call(&self, call: &Call<'_>) -> Result<Vec<Value>> {
            self.0.fetch_add(1, Ordering::Relaxed);
            assert_eq!((call.operator.name(), call.key), ("plain", DispatchKey::PrivateUse3));
            Ok(vec![call.arguments[0].clone()])
        }
    }
    static FALLBACK: Fallback = Fallback(AtomicUsize::new(0));
    assert_eq!(call(&PLAIN, DispatchKey::PrivateUse3).unwrap_err().kind(), ErrorKind::NotImplemented);
    register_fallback(DispatchKey::PrivateUse3, &FALLBACK);
    assert_eq!(call(&PLAIN, DispatchKey::PrivateUse3).unwrap(), 0.0);
    assert_eq!(call(&BOXED, DispatchKey::PrivateUse3).unwrap(), 3.0);
    let error = call(&UNBOXED, DispatchKey::PrivateUse3).unwrap_err();
    assert!(error.to_string().contains("unboxed") && error.to_string().contains("boxing!"), "{error}");
    assert_eq!(FALLBACK.0.load(Ordering::Relaxed), 1);
}

#[test]
fn results_of_another_number_or_type_are_errors() {
    let wrong = |values: fn() -> Vec<Value>| {
        let kernel = Box::leak(Box::new(move |_: &Call<'_>| Ok(values())));
        PLAIN.register_boxed(DispatchKey::PrivateUse2, kernel).unwrap();
        call(&PLAIN, DispatchKey::PrivateUse2).unwrap_err().to_string()
    };
    assert!(wrong(Vec::new).contains("plain: expected 1 results of a boxed kernel but got 0"));
    assert!(wrong(|| vec![Value::Int(1)]).contains("Int(1)"));
}

#[test]
fn operators_defined_at_run_time() {
    let twice = registry::define("tests::twice(Tensor self) -> Tensor").unwrap();
    assert!(registry::operators().any(|operator| operator.name() == "tests::twice"));
    assert!(registry::define("tests::twice(Tensor self) -> Tensor").is_err());
    assert!(registry::define("no schema").is_err() && registry::find("tests::thrice").is_err());
    let x = Tensor::from([1.5f32]);
    assert_eq!(twice.call_boxed(&[(&x).into()]).unwrap_err().kind(), ErrorKind::NotImplemented);
    let kernel = |call: &Call<'_>| {
        let [Value::Tensor(x)] = call.arguments else { panic!("one tensor") };
        Ok(vec![ops::add_tensor(x, x, 1.into())?.into()])
    };
    twice.register_boxed(DispatchKey::Cpu, Box::leak(Box::new(kernel))).unwrap();
    let [Value::Tensor(three)] = &twice.call_boxed(&[x.into()]).unwrap()[..] else { panic!("one tensor") };
    assert_eq!(three.to_vec::<f32>().unwrap(), [3.0]);
    let arguments = registry::find("add.out").unwrap().arguments().unwrap();
    let written: Vec<_> =
        arguments.iter().filter(|argument| argument.is_written()).map(ToString::to_string).collect();
    assert_eq!((arguments.len(), written), (4, vec!["Tensor(a!) out".to_owned()]));
}

#[test]
fn malformed_schemas_are_refused() {
    let schemas = [
        "tests::bad(",
        "tests::bad(Tensor x, Tensor x) -> Tensor",
        "tests::bad(Tensr x) -> Tensor",
        "tests::bad(Stream x) -> Tensor",
        "tests::bad(Tensor x)",
    ];
    for schema in schemas {
        assert_eq!(
            registry::define(schema).err().map(|error| error.kind()),
            Some(ErrorKind::InvalidArgument)
        );
    }
    assert!(registry::find("tests::bad").is_err());
    let quoted =
        registry::define("tests::quoted(Tensor x, str a=\"), b\", *, Tensor(a!)[] y) -> ()").unwrap();
    let arguments = quoted.arguments().unwrap();
    assert_eq!((arguments.len(), arguments[2].ty.to_string().as_str()), (3, "Tensor[]"));
    assert!(arguments[2].is_written());
}

#[test]
fn calls_of_defined_operators_are_checked() {
    let scaled =
        registry::define("tests::scaled(Tensor x, float by, Tensor? y=None) -> (Tensor, Scalar)").unwrap();
    let kernel = |call: &Call<'_>| match call.arguments {
        [Value::Tensor(x), Value::Float(by), _] if *by > 0.0 => Ok(vec![Value::from(x), Value::Int(3)]),
        _ => Ok(vec![]),
    };
    scaled.register_boxed(DispatchKey::CompositeImplicitAutograd, Box::leak(Box::new(kernel))).unwrap();
    let x = Value::from(&Tensor::from([1.5f32]));
    let results = scaled.call_boxed(&[x.clone(), Value::Int(2), Value::None]).unwrap();
    assert!(matches!(results[..], [Value::Tensor(_), Value::Scalar(_)]), "{results:?}");
    let refused = [
        vec![x.clone(), Value::Float(1.0)],
        vec![x.clone(), Value::None, Value::None],
        vec![Value::None, Value::Float(1.0), Value::None],
        vec![x.clone(), Value::Float(1.0), Value::Int(1)],
        // Accepted, but the kernel returns nothing.
        vec![x, Value::Float(-1.0), Value::None],
    ];
    for arguments in refused {
        let error = scaled.call_boxed(&arguments).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains("tests::scaled"), "{error}");
    }
}

#[test]
fn a_layout_has_its_own_kernels_and_no_others() {
    let sizes = [2i64, 3];
    let tensor = TensorImpl::from_parts(Parts {
        layout: Layout::SparseCoo,
        device: Device::CPU,
        dtype: ScalarType::F32,
        sizes: sizes.as_slice().into(),
        keys: DispatchKey::Sparse.into(),
        elements: Box::new(7.0f32),
    });
    let sparse = Tensor::from_impl(tensor.unwrap());
    assert_eq!(
        (sparse.sizes(), sparse.layout(), sparse.device()),
        (&sizes[..], Layout::SparseCoo, Device::CPU)
    );
    let error = ops::add_tensor(&sparse, &sparse, 1.into()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotImplemented);
    assert!(error.to_string().contains("add.Tensor") && error.to_string().contains("Sparse"), "{error}");
    // Elements that do not exist are reached by nobody.
    assert_eq!(sparse.to_vec::<f32>().unwrap_err().kind(), ErrorKind::NotImplemented);
    assert!(sparse.accessor::<f32, 2>().is_err());
    let kernel = |call: &Call<'_>| {
        let Some(Value::Tensor(t)) = call.arguments.first() else { panic!("a tensor") };
        let value = t.impl_().extension().and_then(|elements| elements.downcast_ref::<f32>()).copied();
        Ok(vec![Tensor::from(value.unwrap()).into()])
    };
    ops::NEG.register_boxed(DispatchKey::Sparse, Box::leak(Box::new(kernel))).unwrap();
    assert_eq!(ops::neg(&sparse).unwrap().item::<f32>().unwrap(), 7.0);
    // An implicit composite is decomposed, and its parts reach the kernel.
    static NEGATIVE: Operator<Unary> = Operator::new(
        "negative",
        "negative(Tensor x) -> Tensor",
        &[Kernel::new(DispatchKey::CompositeImplicitAutograd, (|_, x| ops::neg(x)) as Unary)],
        none,
    );
    let (keys, kernel) = NEGATIVE.select(sparse.key_set()).unwrap();
    assert_eq!(kernel(keys, &sparse).unwrap().item::<f32>().unwrap(), 7.0);
}

#[test]
fn a_front_end_sees_all_operators_but_implicit_composites() {
    let kernel = |call: &Call<'_>| {
        let value: f32 = if call.operator.name() == "neg" { 1.0 } else { 2.0 };
        Ok(vec![Tensor::from(value).into()])
    };
    register_fallback(DispatchKey::Python, Box::leak(Box::new(kernel)));
    let geometry = Geometry::strided(&[2, 3], &[1, 2], 5).unwrap();
    let keys = DispatchKey::Python.into();
    let made = TensorImpl::without_elements(geometry, ScalarType::F64, Device::CPU, keys).unwrap();
    let wrapper = Tensor::from_impl(made);
    assert_eq!((wrapper.sizes(), wrapper.strides(), wrapper.storage_offset()), (&[2, 3][..], &[1, 2][..], 5));
    assert!(wrapper.to_vec::<f64>().is_err() && wrapper.storage().nbytes() == 0);
    assert_eq!(ops::exp(&wrapper).unwrap().item::<f32>().unwrap(), 2.0);
    static COMPOSITE: Operator<Unary> = Operator::new(
        "composite",
        "composite(Tensor x) -> Tensor",
        &[Kernel::new(DispatchKey::CompositeImplicitAutograd, (|_, x| ops::neg(x)) as Unary)],
        none,
    );
    let (keys, kernel) = COMPOSITE.select(wrapper.key_set()).unwrap();
    assert_eq!(kernel(keys, &wrapper).unwrap().item::<f32>().unwrap(), 1.0);
    let version = wrapper.version();
    wrapper.impl_().count_write();
    assert_eq!(wrapper.version(), version + 1);
    // A mode: all calls of the thread, until it ends.
    let plain = Tensor::from([3.0f32]);
    assert!(flambeau_core::set_included(DispatchKey::Python.into(), true).is_empty());
    assert_eq!(ops::exp(&plain).unwrap().item::<f32>().unwrap(), 2.0);
    assert!(flambeau_core::set_included(DispatchKey::Python.into(), false).has(DispatchKey::Python));
    assert_eq!(ops::neg(&plain).unwrap().item::<f32>().unwrap(), -3.0);
    let defined = registry::define("tests::seen(Tensor self) -> Tensor").unwrap();
    let [Value::Tensor(two)] = &defined.call_boxed(&[wrapper.into()]).unwrap()[..] else {
        panic!("a tensor")
    };
    assert_eq!(two.item::<f32>().unwrap(), 2.0);
}

/// A kernel that gives nine, as long as it is in force.
struct Nine(AtomicBool);

impl BoxedKernel for Nine {
    fn call(&self, _: &Call<'_>) -> Result<Vec<Value>> {
        Ok(vec![Tensor::from(9.0f32).into()])
    }

    fn is_in_force(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

#[test]
fn a_kernel_out_of_force_is_skipped() {
    static NINE: Nine = Nine(AtomicBool::new(true));
    static SWITCHED: Operator<Unary> = Operator::new(
        "switched",
        "switched(Tensor x) -> Tensor",
        &[
            Kernel::new(DispatchKey::CompositeExplicitAutograd, (|_, _| Ok(Tensor::from(3.0f32))) as Unary),
            boxing!(SWITCHED: Unary, x),
        ],
        none,
    );
    let called = || {
        let x = Tensor::from([1.0f32]);
        let (keys, kernel) = SWITCHED.select(x.key_set()).unwrap();
        kernel(keys, &x).unwrap().item::<f32>().unwrap()
    };
    assert_eq!(called(), 3.0);
    SWITCHED.register_boxed(DispatchKey::Cpu, &NINE).unwrap();
    assert_eq!(called(), 9.0);
    NINE.0.store(false, Ordering::Relaxed);
    SWITCHED.select_again(DispatchKey::Cpu);
    assert_eq!(called(), 3.0);
}
