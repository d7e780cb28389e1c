//! Tests that each operator accepts the dtypes that `docs/generated/types.tsv` lists and no others, and that its results in each
//! are right.
//!
//! A type is taken if a sample call gives a result in it and none is refused on its account. It is the type of the tensors under
//! test; where there are none, that requested for the result, or else of the first tensor. `forward` tries the types that a row
//! lists; those that none of the operator's rows lists are tried here, on what the type makes of the exact result.

use flambeau_core::ScalarType::{self, BF16, Bool, I8, I16, I32, I64, U8};
use flambeau_core::{Error, ErrorKind};
use flambeau_ops::Tensor;
use flambeau_ops::dispatch::{OperatorInfo, Value};
use flambeau_tests::array::Array;
use flambeau_tests::call::{array, operator, outcome, rounded, tensor, values};
use flambeau_tests::compare::difference;
use flambeau_tests::op_db;
use flambeau_tests::operator_variants::{in_place_of, index_of_options};
use flambeau_tests::row::{ALL, Arg, FLOATS, INTEGERS, Row};
use std::collections::BTreeMap;
use std::path::Path;

/// The operators that have rows of their own, or else a form without `_` that has, by name, with those rows.
fn tried(rows: &[Row]) -> BTreeMap<&str, (&'static dyn OperatorInfo, Vec<&Row>)> {
    let mut tried: BTreeMap<&str, (&'static dyn OperatorInfo, Vec<&Row>)> = BTreeMap::new();
    let mut variants = vec![];
    for row in rows {
        let Some(op) = operator(row.name) else { continue };
        tried.entry(op.name()).or_insert_with(|| (op, vec![])).1.push(row);
        variants.extend(in_place_of(op).map(|in_place| (in_place, row)));
    }
    for (op, row) in variants {
        if rows.iter().all(|own| own.name != op.name()) {
            tried.entry(op.name()).or_insert_with(|| (op, vec![])).1.push(row);
        }
    }
    tried
}

/// The arguments of a sample in a type, or nothing where no argument has one that could be tried.
fn in_type(op: &dyn OperatorInfo, sample: &[Arg], dtype: ScalarType) -> Option<Vec<Value>> {
    let under_test = |arg: &Arg| matches!(arg, Arg::Tensor(_) | Arg::Constant(_) | Arg::Tensors(_));
    let mut args = values(sample, &mut |array| tensor(array, dtype));
    if sample.iter().any(under_test) {
        return Some(args);
    }
    if let Some(index) = index_of_options(op.schema()) {
        args[index] = Value::ScalarType(dtype);
        return Some(args);
    }
    let index = sample.iter().position(|arg| matches!(arg, Arg::Typed(..)))?;
    args[index] = Value::Tensor(tensor(sample[index].array(), dtype));
    Some(args)
}

/// Whether an error is about the type of an argument. That of a result in place depends on the numbers beside it too, so where it
/// cannot be cast back another sample may tell.
fn refuses(op: &dyn OperatorInfo, error: &Error) -> bool {
    let is_of_result = error.message().starts_with(&format!("{}: result type", op.name()));
    matches!(error.kind(), ErrorKind::Dtype | ErrorKind::NotImplemented) && !is_of_result
}

/// Whether the operator takes a type; nothing where there is none to try.
fn takes(op: &dyn OperatorInfo, rows: &[&Row], dtype: ScalarType) -> Option<bool> {
    let mut taken = None;
    for args in rows.iter().flat_map(|row| &row.samples).filter_map(|sample| in_type(op, sample, dtype)) {
        let known = taken.unwrap_or(false);
        match outcome(op, &args) {
            Ok(_) => taken = Some(true),
            Err(error) if refuses(op, &error) => return Some(false),
            Err(_) => taken = Some(known),
        }
    }
    taken
}

/// The types an operator takes, or nothing where it has none to choose.
fn types(op: &dyn OperatorInfo, rows: &[&Row]) -> Option<Vec<ScalarType>> {
    let taken: Option<Vec<bool>> = ALL.iter().map(|dtype| takes(op, rows, *dtype)).collect();
    let pairs = ALL.iter().copied().zip(taken?);
    Some(pairs.filter(|(_, taken)| *taken).map(|(dtype, _)| dtype).collect())
}

/// The notation of the table: `all`, or `bool`, `integers` and `floating` where a whole group is taken, else type by type.
fn words(types: Option<&[ScalarType]>) -> String {
    let Some(types) = types else { return "none to choose".to_string() };
    if types.is_empty() || types == ALL {
        return if types.is_empty() { "none" } else { "all" }.to_string();
    }
    let mut words: Vec<String> = vec![];
    for (group, name) in [(&ALL[..1], "bool"), (INTEGERS, "integers"), (FLOATS, "floating")] {
        match group.iter().all(|dtype| types.contains(dtype)) {
            true => words.push(name.to_string()),
            false => words.extend(group.iter().filter(|t| types.contains(t)).map(ToString::to_string)),
        }
    }
    words.join(", ")
}

#[test]
fn the_table_of_types_is_true() {
    let rows = op_db::rows();
    let mut text =
        "# The types each operator takes, found by `cargo xtask types`; do not edit.\n".to_string();
    for (name, (op, rows)) in tried(&rows) {
        text += &format!("{name}\t{}\n", words(types(op, &rows).as_deref()));
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/generated/types.tsv");
    if std::env::var_os("UPDATE_TYPES").is_some() {
        std::fs::write(&path, &text).unwrap();
    }
    let held = std::fs::read_to_string(&path).unwrap_or_default();
    let wrong: Vec<&str> = text.lines().filter(|line| held.lines().all(|other| other != *line)).collect();
    let stale: Vec<&str> = held.lines().filter(|line| text.lines().all(|other| other != *line)).collect();
    println!("Types: {} operators", text.lines().count() - 1);
    assert!(held == text, "run `cargo xtask types`: found {wrong:#?}, where the table has {stale:#?}");
}

/// Names (`*` stands for any ending), types that they take and are not tried in, and why.
type Untried = (&'static [&'static str], &'static [ScalarType], &'static str);

const TABLE: &str = "values are known at the points of a table, of which few are whole numbers";
const WRITTEN: &str = "the reference is that of the sample as it is written, which the type cannot hold";
const WRAPS: &str = "sums and differences wrap before the result is of a wider type, in PyTorch too";

const UNTRIED: &[Untried] = &[
    (&["erfinv", "special_ndtri", "special_zeta*"], &[Bool], TABLE),
    (&["polygamma", "special_zeta*", "special_airy_ai", "special_spherical_bessel_j0"], INTEGERS, TABLE),
    (&["special_bessel_*", "special_modified_bessel_*", "special_scaled_*"], INTEGERS, TABLE),
    (&["special_chebyshev_*", "special_shifted_*", "special_hermite_*"], INTEGERS, TABLE),
    (&["special_laguerre_*", "special_legendre_*"], INTEGERS, TABLE),
    (&["_unique2", "unique_consecutive", "searchsorted*", "bucketize.Scalar"], &[Bool], WRITTEN),
    (&["pairwise_distance", "trap*", "cumulative_trapezoid*"], &[U8], WRAPS),
    (&["_embedding_bag_per_sample_weights_backward"], &[U8], WRAPS),
    (
        &["_embedding_bag_backward", "_embedding_bag_dense_backward"],
        &[U8],
        "a mean is a sum of rounded shares",
    ),
    (&["prod.dim_int"], &[U8], "products of the sample pass what float64 tells apart"),
    (&["binary_cross_entropy_with_logits"], &[I8, I16, I32, I64], "terms of whole numbers cancel"),
    (&["gradient.tensor*"], INTEGERS, "positions truncated to whole numbers coincide"),
    (&["linspace*"], INTEGERS, "the ends are cut to whole numbers before they are divided"),
    (&["randperm*"], &[BF16], "the type cannot tell as many numbers apart, in PyTorch neither"),
];

/// The pattern of [`UNTRIED`] that a name and a type fall under, and the reason.
fn untried(name: &str, dtype: ScalarType) -> Option<(&'static str, &'static str)> {
    let fits = |pattern: &str| match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == pattern,
    };
    let (patterns, _, reason) = UNTRIED.iter().find(|(patterns, types, _)| {
        types.contains(&dtype) && patterns.iter().any(|pattern| fits(pattern))
    })?;
    patterns.iter().find(|pattern| fits(pattern)).map(|pattern| (*pattern, *reason))
}

/// An exact value converted to a type: integers truncate and wrap, bool is whether it is not 0.
fn held_as(value: f64, dtype: ScalarType) -> f64 {
    if dtype == ScalarType::Bool {
        return f64::from(value != 0.0);
    }
    if !INTEGERS.contains(&dtype) {
        return value;
    }
    let count = 2f64.powi(8 * dtype.size() as i32);
    let lowest = if dtype == ScalarType::U8 { 0.0 } else { -count / 2.0 };
    let whole = value.trunc();
    whole - ((whole - lowest) / count).floor() * count
}

/// What is wrong with the results of a sample in a type that the row does not list.
fn fault(row: &Row, sample: &[Arg], results: &[Tensor]) -> Option<String> {
    let arrays: Vec<Array> = results.iter().map(array).collect();
    let broken = row.property.as_ref().and_then(|property| property(sample, &arrays).err());
    if broken.is_some() {
        return broken;
    }
    let expected = row.reference.as_ref()?(sample);
    let fits = |(result, expected): (&Tensor, &Array)| {
        difference(result, &expected.map(|value| held_as(value, result.dtype())), row.bound())
    };
    results.iter().zip(&expected).find_map(fits)
}

/// How many samples of a row give in a type what they should, or what is wrong with one.
fn right(row: &Row, op: &dyn OperatorInfo, dtype: ScalarType) -> Result<usize, String> {
    let mut count = 0;
    for sample in &row.samples {
        let results = in_type(op, sample, dtype).and_then(|args| outcome(op, &args).ok());
        let Some(results) = results else { continue };
        count += 1;
        fault(row, &rounded(sample, dtype), &results).map_or(Ok(()), Err)?;
    }
    Ok(count)
}

#[test]
fn every_type_taken_is_tried() {
    let rows = op_db::rows();
    let (mut listed, mut found_right, mut wrong) = (0, 0, vec![]);
    let mut excused: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for (name, (op, rows)) in
        tried(&rows).into_iter().filter(|(name, _)| rows.iter().any(|r| r.name == *name))
    {
        for dtype in types(op, &rows).unwrap_or_default() {
            if rows.iter().any(|row| row.types.contains(&dtype)) {
                listed += 1;
                continue;
            }
            if let Some(reason) = untried(name, dtype) {
                *excused.entry(reason).or_default() += 1;
                continue;
            }
            // A row may be about another type, so one that agrees is enough.
            let found: Vec<Result<usize, String>> = rows.iter().map(|row| right(row, op, dtype)).collect();
            match found.iter().any(|found| found.as_ref().is_ok_and(|count| *count > 0)) {
                true => found_right += 1,
                false => wrong.push(format!("{name} {dtype}: {found:?}")),
            }
        }
    }
    let skipped: usize = excused.values().sum();
    println!("Types: {listed} listed by rows, {found_right} right besides, {skipped} skipped");
    excused.iter().for_each(|((names, reason), count)| println!("  skipped {count} of {names}: {reason}"));
    assert!(wrong.is_empty(), "types that are taken, and results that are not right: {wrong:#?}");
    let unused = |names: &&&str| excused.keys().all(|(used, _)| used != *names);
    let unused: Vec<&&str> = UNTRIED.iter().flat_map(|(names, ..)| *names).filter(unused).collect();
    assert!(unused.is_empty(), "nothing is left out any more under {unused:?}");
}
