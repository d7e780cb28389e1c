//! What must be refused, with the right kind of error and a message that names the fault.

use flambeau_core::ScalarType;
use flambeau_tests::call::{call, operator};
use flambeau_tests::op_db;

#[test]
fn bad_input_is_refused_in_words() {
    let mut cases = 0;
    for row in op_db::rows() {
        let op = operator(row.name).unwrap();
        for (number, refused) in row.refused.iter().enumerate() {
            cases += 1;
            let error = call(op, &refused.args, ScalarType::F32).expect_err(row.name);
            assert_eq!(error.kind(), refused.kind, "{} case {number}: {error:?}", row.name);
            assert!(error.message().contains(refused.says), "{} case {number}: {error:?}", row.name);
        }
    }
    println!("Errors: {cases} cases");
    assert!(cases > 0);
}

#[test]
fn hostile_values_are_errors_or_answers_but_never_panics() {
    use flambeau_ops::dispatch::Value;
    use flambeau_tests::call::{tensor, values};
    let mut cases = 0;
    for row in op_db::rows() {
        let op = operator(row.name).unwrap();
        let Some(sample) = row.samples.iter().find(|s| !s.is_empty()) else { continue };
        let plain = values(sample, &mut |a| tensor(a, row.types[row.types.len() - 1]));
        for place in 0..plain.len() {
            for hostile in [0, -1, 7, 1 << 40, i64::MIN, i64::MAX] {
                let mut args = plain.clone();
                args[place] = match &plain[place] {
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
