//! Operands on the meta device beside operands with elements: an error that names the operator and both devices, or a result that
//! does not depend on the missing elements.

use flambeau_core::{Device, ErrorKind};
use flambeau_ops::Tensor;
use flambeau_ops::dispatch::{OperatorInfo, Value};
use flambeau_ops::ops::_to_copy;
use flambeau_tests::call::{operator, outcome, tensor, values};
use flambeau_tests::compare::bit_difference;
use flambeau_tests::op_db;
use flambeau_tests::row::Row;

fn without_values(t: &Tensor) -> Tensor {
    _to_copy(t, None, None, Some(Device::META), None, false, None).unwrap()
}

/// The arguments with one tensor on the device without values, for each of them.
fn moved(args: &[Value]) -> Vec<Vec<Value>> {
    let mut all = vec![];
    for (index, value) in args.iter().enumerate() {
        let with = |value: Value| {
            let mut args = args.to_vec();
            args[index] = value;
            args
        };
        match value {
            Value::Tensor(t) => all.push(with(Value::Tensor(without_values(t)))),
            Value::Tensors(list) => {
                for i in 0..list.len() {
                    let mut list = list.clone();
                    list[i] = without_values(&list[i]);
                    all.push(with(Value::Tensors(list)));
                }
            }
            Value::OptionalTensors(list) => {
                for i in (0..list.len()).filter(|i| list[*i].is_some()) {
                    let mut list = list.clone();
                    list[i] = list[i].as_ref().map(without_values);
                    all.push(with(Value::OptionalTensors(list)));
                }
            }
            _ => {}
        }
    }
    all
}

/// What is wrong with the results of a call of which one operand has no values.
fn fault(op: &dyn OperatorInfo, plain: &[Tensor], args: &[Value]) -> Option<String> {
    let made = match outcome(op, args) {
        Ok(made) => made,
        Err(error) if error.kind() == ErrorKind::Internal => return Some(error.to_string()),
        Err(_) => return None,
    };
    let differs = |(made, plain): (&Tensor, &Tensor)| {
        if made.device().is_meta() { None } else { bit_difference(made, plain) }
    };
    made.iter().zip(plain).find_map(differs)
}

fn check_row(row: &Row, faults: &mut Vec<String>) -> usize {
    let op = operator(row.name).unwrap();
    let mut cases = 0;
    // Of few elements, so that sizes which broadcast and such without dimensions are among them.
    for sample in row.samples.iter().take(6) {
        let dtype = row.types[row.types.len() - 1];
        let made = || values(sample, &mut |a| tensor(a, dtype));
        let Ok(plain) = outcome(op, &made()) else { continue };
        for index in 0..moved(&made()).len() {
            // Made anew: some write into their arguments.
            let args = moved(&made()).swap_remove(index);
            cases += 1;
            faults
                .extend(fault(op, &plain, &args).map(|fault| format!("{} moved {index}: {fault}", row.name)));
        }
    }
    cases
}

#[test]
fn nothing_is_computed_from_values_that_are_not_there() {
    let (mut cases, mut faults) = (0, vec![]);
    for row in op_db::rows().iter().filter(|row| row.unset.is_none()) {
        cases += check_row(row, &mut faults);
    }
    println!("Devices: {cases} cases");
    faults.iter().take(60).for_each(|fault| println!("  {fault}"));
    assert!(faults.is_empty() && cases > 0, "{} of {cases} cases failed", faults.len());
}
