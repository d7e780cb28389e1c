//! Kernels that are registered for an operator from outside: known by the operator itself, one for each key.

use flambeau_core::{DispatchKey, DispatchKeySet, ErrorKind, Result};
use flambeau_ops::dispatch::{Kernel, Operator, OperatorInfo, Registration, Value};
use flambeau_ops::{Tensor, ops};

fn boxed(_: &[Value]) -> Result<Vec<Value>> {
    Ok(vec![])
}

type Number = fn(DispatchKeySet, u64) -> Result<u64>;

/// Of a name that is taken, and of another type.
static NAMESAKE: Operator<Number> = Operator::new("add.Tensor", "", &[], boxed);
inventory::submit!(Registration::new(&NAMESAKE, DispatchKey::Cpu, (|_, x| Ok(x + 1)) as Number));

static TWICE: Operator<Number> = Operator::new("twice", "", &[], boxed);
inventory::submit!(Registration::new(&TWICE, DispatchKey::Cpu, (|_, x| Ok(x)) as Number));
inventory::submit!(Registration::new(&TWICE, DispatchKey::Cpu, (|_, x| Ok(x + 1)) as Number));

static OWN: Operator<Number> =
    Operator::new("own", "", &[Kernel::new(DispatchKey::Cpu, (|_, x| Ok(x)) as Number)], boxed);
inventory::submit!(Registration::new(&OWN, DispatchKey::Cpu, (|_, x| Ok(x + 1)) as Number));

static OVERRIDDEN: Operator<Number> =
    Operator::new("overridden", "", &[Kernel::new(DispatchKey::Cpu, (|_, x| Ok(x)) as Number)], boxed);
inventory::submit!(Registration::overriding(&OVERRIDDEN, DispatchKey::Cpu, (|_, x| Ok(x + 1)) as Number));

static LATE: Operator<Number> = Operator::new("late", "", &[], boxed);

fn call(operator: &Operator<Number>, x: u64) -> Result<u64> {
    let (keys, kernel) = operator.select(DispatchKey::Cpu.into())?;
    kernel(keys, x)
}

#[test]
fn operators_of_one_name_have_kernels_of_their_own() {
    let ones = Tensor::from_vec(vec![1.0f32; 3], &[3]).unwrap();
    assert_eq!(ops::add_tensor(&ones, &ones, 1.into()).unwrap().to_vec::<f32>().unwrap(), [2.0; 3]);
    assert_eq!(call(&NAMESAKE, 4).unwrap(), 5);
}

#[test]
fn two_kernels_for_one_key_are_an_error_with_both_locations() {
    for operator in [&TWICE, &OWN] {
        let error = call(operator, 4).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert_eq!(error.to_string().matches("registration.rs:").count(), 2, "{error}");
        assert!(operator.has_kernel(DispatchKey::Cpu));
    }
}

#[test]
fn one_that_overrides_wins() {
    assert_eq!(call(&OVERRIDDEN, 4).unwrap(), 5);
}

#[test]
fn at_run_time_a_key_gets_one_kernel_unless_another_overrides_it() {
    assert_eq!(call(&LATE, 4).unwrap_err().kind(), ErrorKind::NotImplemented);
    LATE.register(DispatchKey::Cpu, |_, x| Ok(x)).unwrap();
    assert_eq!(call(&LATE, 4).unwrap(), 4);
    assert!(LATE.register(DispatchKey::Cpu, |_, x| Ok(x + 1)).is_err());
    LATE.register_overriding(DispatchKey::Cpu, |_, x| Ok(x + 1)).unwrap();
    assert_eq!(call(&LATE, 4).unwrap(), 5);
    assert!(OWN.register(DispatchKey::Cpu, |_, x| Ok(x)).is_err());
    for alias in [DispatchKey::CompositeExplicitAutograd, DispatchKey::CompositeImplicitAutograd] {
        assert_eq!(LATE.register(alias, |_, x| Ok(x)).unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
}
