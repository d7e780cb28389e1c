//! Sizes, steps and counts that no tensor has, in operators with windows: the result is an error or a value, never a panic, a
//! signal or a call that does not end. It runs in a child process with little memory, so that requests for too much memory fail.

use flambeau_ops::dispatch::{OperatorInfo, Value};
use flambeau_ops::ops;
use flambeau_tests::array::Array;
use flambeau_tests::call::{operator, tensor, values};
use flambeau_tests::draw::Draw;
use flambeau_tests::op_db;
use flambeau_tests::row::Row;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;
use std::time::{Duration, Instant};

const INTEGERS: &[i64] = &[0, 1, 2, 3, -1, 7, 1 << 31, 1 << 40, 1 << 62, i64::MAX, i64::MIN];
/// Mostly small ones: a call that is refused for one argument does not test the others.
const SIZES: &[i64] = &[0, 0, 1, 1, 2, 3, 1 << 31, 1 << 40, 1 << 62];
const WINDOWS: &[&str] =
    &["conv", "pool", "im2col", "col2im", "fold", "upsample", "pad", "pixel", "channel_shuffle"];
const CASES_OF_EACH: usize = 60;
/// Kilobytes.
const MEMORY: u64 = 1 << 21;
const TIME: Duration = Duration::from_secs(300);
const CHILD: &str = "FLAMBEAU_HOSTILE_CHILD";

fn rows() -> Vec<Row> {
    let looks_at_windows = |row: &Row| WINDOWS.iter().any(|word| row.name.contains(word));
    op_db::rows().into_iter().filter(looks_at_windows).collect()
}

/// One integer of a call in three is another, and sometimes a tensor has no elements and sizes to match.
fn drawn(d: &mut Draw, plain: &[Value]) -> Vec<Value> {
    let mut number = |n: i64| if d.within(0..=2) == 0 { d.one_of(INTEGERS) } else { n };
    let changed: Vec<Value> = plain
        .iter()
        .map(|value| match value {
            Value::Int(n) => Value::Int(number(*n)),
            Value::Ints(list) => Value::Ints(list.iter().map(|n| number(*n)).collect()),
            other => other.clone(),
        })
        .collect();
    if d.within(0..=2) > 0 {
        return changed;
    }
    let empty = |d: &mut Draw, value: Value| match &value {
        Value::Tensor(t) if t.dim() > 1 => {
            let mut sizes: Vec<i64> =
                t.sizes().iter().map(|n| if d.within(0..=1) == 0 { d.one_of(SIZES) } else { *n }).collect();
            let at = d.within(0..=sizes.len() - 1);
            sizes[at] = 0;
            // Where strides would not fit in 63 bits there is no such tensor.
            let countable = sizes.iter().try_fold(1i64, |product, size| product.checked_mul((*size).max(1)));
            let made = countable
                .and_then(|_| ops::empty_memory_format(&sizes, Some(t.dtype()), None, None, None, None).ok());
            made.map_or(value.clone(), Value::Tensor)
        }
        _ => value,
    };
    changed.into_iter().map(|value| empty(d, value)).collect()
}

fn shown(args: &[Value]) -> String {
    let one = |value: &Value| match value {
        Value::Tensor(t) => format!("tensor{:?}", t.sizes()),
        other => format!("{other:?}"),
    };
    args.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn call(op: &dyn OperatorInfo, args: &[Value]) -> Option<String> {
    let start = Instant::now();
    let outcome = catch_unwind(AssertUnwindSafe(|| op.call_boxed(args).is_ok()));
    match outcome {
        Err(_) => Some("panicked".to_owned()),
        Ok(_) if start.elapsed() > Duration::from_secs(30) => Some("took more than 30 seconds".to_owned()),
        Ok(_) => None,
    }
}

fn child() {
    let (mut d, mut cases, mut faults) = (Draw::new(3), 0, vec![]);
    for row in rows() {
        let op = operator(row.name).unwrap();
        let dtype = row.types[row.types.len() - 1];
        for number in 0..CASES_OF_EACH {
            let Some(sample) = row.samples.get(number % row.samples.len().max(1)) else { continue };
            let args = drawn(&mut d, &values(sample, &mut |a: &Array| tensor(a, dtype)));
            // The last line is the call during which the process ended.
            eprintln!("case {}({})", row.name, shown(&args));
            cases += 1;
            faults.extend(call(op, &args).map(|fault| format!("{}({}) {fault}", row.name, shown(&args))));
        }
    }
    println!("Hostile integers: {cases} cases");
    faults.iter().for_each(|fault| println!("fault {fault}"));
    assert!(faults.is_empty() && cases > 0, "{} faults", faults.len());
}

#[test]
fn windows_of_any_size_are_refused_or_computed() {
    if std::env::var_os(CHILD).is_some() {
        return child();
    }
    let this = std::env::current_exe().unwrap();
    let script = format!(
        "ulimit -v {MEMORY}; exec timeout {} \"$0\" windows_of_any_size_are_refused_or_computed --exact --nocapture --test-threads 1",
        TIME.as_secs()
    );
    let ended = Command::new("sh").arg("-c").arg(script).arg(this).env(CHILD, "1").output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&ended.stdout), String::from_utf8_lossy(&ended.stderr));
    let told = out.lines().filter(|line| line.contains("Hostile") || line.starts_with("fault"));
    told.take(40).for_each(|line| println!("{line}"));
    let last = err.lines().rev().find(|line| line.starts_with("case"));
    assert!(ended.status.success(), "{}, in or after {last:?}", ended.status);
}
