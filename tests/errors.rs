//! What must be refused, with the right kind of error and a message that names the fault; the operands stay as they were.

use flambeau_core::ScalarType;
use flambeau_tests::call::{operator, outcome, tensor, values};
use flambeau_tests::op_db;
use flambeau_tests::operands::Operands;

#[test]
fn bad_input_is_refused_in_words_and_changes_nothing() {
    let (mut cases, mut changes) = (0, vec![]);
    for row in op_db::rows() {
        let op = operator(row.name).unwrap();
        for (number, refused) in row.refused.iter().enumerate() {
            cases += 1;
            let arguments = values(&refused.args, &mut |a| tensor(a, ScalarType::F32));
            let before = Operands::of(&arguments);
            let error = outcome(op, &arguments).expect_err(row.name);
            assert_eq!(error.kind(), refused.kind, "{} case {number}: {error:?}", row.name);
            assert!(error.message().contains(refused.says), "{} case {number}: {error:?}", row.name);
            changes.extend(before.changed().map(|what| format!("{} case {number}: {what}", row.name)));
        }
    }
    println!("Errors: {cases} cases, of which {} changed their operands", changes.len());
    assert!(cases > 0 && changes.is_empty(), "{changes:#?}");
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
