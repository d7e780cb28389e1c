//! What must be refused, with the right kind of error, a message that names the fault and fields that name operator and argument; the
//! operands stay as they were.

use flambeau_core::ScalarType;
use flambeau_tests::call::{operator, outcome, tensor, values};
use flambeau_tests::op_db;
use flambeau_tests::operands::Operands;

#[test]
fn bad_input_is_refused_in_words_and_changes_nothing() {
    let (mut cases, mut changes) = (0, vec![]);
    let (mut with_operator, mut with_argument) = (0, 0);
    let mut anonymous = vec![];
    for row in op_db::rows() {
        let op = operator(row.name).unwrap();
        for (number, refused) in row.refused.iter().enumerate() {
            cases += 1;
            let arguments = values(&refused.args, &mut |a| tensor(a, ScalarType::F32));
            let before = Operands::of(&arguments);
            let error = outcome(op, &arguments).expect_err(row.name);
            assert_eq!(error.kind(), refused.kind, "{} case {number}: {error:?}", row.name);
            assert!(error.message().contains(refused.says), "{} case {number}: {error:?}", row.name);
            with_operator += usize::from(error.operator().is_some());
            with_argument += usize::from(error.argument().is_some());
            if error.operator().is_none() || error.argument().is_none() {
                anonymous.push(format!("{} case {number}: {error}", row.name));
            }
            changes.extend(before.changed().map(|what| format!("{} case {number}: {what}", row.name)));
        }
    }
    println!("Errors: {cases} cases, of which {} changed their operands", changes.len());
    println!("{with_operator} have the operator as a field, {with_argument} the argument; without either:");
    anonymous.iter().for_each(|error| println!("  {error}"));
    assert!(cases > 0 && changes.is_empty(), "{changes:#?}");
    assert!(100 * with_operator > 95 * cases, "the operator is a field of {with_operator} of {cases} errors");
    assert!(100 * with_argument > 80 * cases, "the argument is a field of {with_argument} of {cases} errors");
}

#[test]
fn hostile_values_are_errors_or_answers_but_never_panics() {
    use flambeau_ops::dispatch::Value;
    let mut cases = 0;
    for row in op_db::rows() {
        let op = operator(row.name).unwrap();
        let Some(sample) = row.samples.iter().find(|s| !s.is_empty()) else { continue };
        let plain = values(sample, &mut |a| tensor(a, row.types[row.types.len() - 1]));
        for index in 0..plain.len() {
            for hostile in [0, -1, 7, 1 << 40, i64::MIN, i64::MAX] {
                let mut args = plain.clone();
                args[index] = match &plain[index] {
                    Value::Int(_) => Value::Int(hostile),
                    Value::Ints(dims) => Value::Ints(vec![hostile; dims.len().max(1)]),
                    Value::Scalar(_) => Value::Scalar(hostile.into()),
                    Value::Float(_) => Value::Float(hostile as f64),
                    _ => continue,
                };
                cases += 1;
                let _ = op.call_boxed(&args);
            }
        }
    }
    println!("Hostile: {cases} cases");
    assert!(cases > 0);
}
