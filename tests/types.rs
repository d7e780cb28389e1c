//! Tests that each operator accepts the dtypes that `docs/generated/types.tsv` lists and no others, and that its results in each
//! are right.
//!
//! A type is taken if a sample call gives a result in it and none is refused on its account. It is the type of the tensors under
//! test; where there are none, that requested for the result, or else of the first tensor. `forward` tries the types that a row
//! lists; those that none of the operator's rows lists are tried here, on what the type makes of the exact result.

use flambeau_core::ScalarType::{self, *};
use flambeau_core::{Error, ErrorKind};
use flambeau_ops::Tensor;
use flambeau_ops::dispatch::{OperatorInfo, Value};
use flambeau_tests::array::Array;
use flambeau_tests::call::{array, operator, outcome, rounded, tensor, values};
use flambeau_tests::compare::{Bound, difference};
use flambeau_tests::op_db;
use flambeau_tests::operator_variants::{in_place_of, index_of_options};
use flambeau_tests::row::{Arg, FLOATS, INTEGERS, Row};
use std::collections::BTreeMap;
use std::path::Path;

/// u16, u32, u64.
const UNSIGNED: &[ScalarType] = &[U16, U32, U64];
/// Errors of complex products, quotients and functions beyond those of real ones, in ulps of the type of the parts.
const COMPLEX_ULPS: f64 = 3.0;
/// All integers.
const WHOLE: &[ScalarType] = &[U8, I8, I16, I32, I64, U16, U32, U64];
/// Those without negative ones.
const NONNEGATIVE: &[ScalarType] = &[U8, U16, U32, U64];
/// complex64 and complex128.
const COMPLEX: &[ScalarType] = &[Complex64, Complex128];
/// The types of eight bits that are only stored, converted and compared.
const FLOAT8: &[ScalarType] = &[F8E4M3FN, F8E5M2, F8E8M0FNU];
/// The columns of the table: all types in groups, each with its name.
const GROUPS: &[(&[ScalarType], &str)] = &[
    (&[Bool], "bool"),
    (INTEGERS, "integers"),
    (UNSIGNED, "unsigned"),
    (FLOATS, "floating"),
    (COMPLEX, "complex"),
    (&[Complex32], "complex32"),
    (FLOAT8, "float8"),
];

fn columns() -> impl Iterator<Item = ScalarType> {
    GROUPS.iter().flat_map(|(types, _)| types.iter().copied())
}

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

/// A sample whose numbers all types of a column can hold: of unsigned types magnitudes, since the wrapped numbers of the largest do not
/// fit in the float64 of references.
fn held(sample: &[Arg], dtype: ScalarType) -> Vec<Arg> {
    if !UNSIGNED.contains(&dtype) {
        return sample.to_vec();
    }
    let magnitudes = |array: &Array| array.map(f64::abs);
    let arg = |arg: &Arg| match arg {
        Arg::Tensor(array) => Arg::Tensor(magnitudes(array)),
        Arg::Constant(array) => Arg::Constant(magnitudes(array)),
        Arg::Tensors(list) => Arg::Tensors(list.iter().map(magnitudes).collect()),
        other => other.clone(),
    };
    sample.iter().map(arg).collect()
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
    let taken: Option<Vec<bool>> = columns().map(|dtype| takes(op, rows, dtype)).collect();
    let pairs = columns().zip(taken?);
    Some(pairs.filter(|(_, taken)| *taken).map(|(dtype, _)| dtype).collect())
}

/// The notation of the table: `all`, or the name of each group that is taken whole, else type by type.
fn words(types: Option<&[ScalarType]>) -> String {
    let Some(types) = types else { return "none to choose".to_string() };
    if types.is_empty() || types.len() == columns().count() {
        return if types.is_empty() { "none" } else { "all" }.to_string();
    }
    let mut words: Vec<String> = vec![];
    for (group, name) in GROUPS {
        match group.iter().all(|dtype| types.contains(dtype)) {
            true => words.push((*name).to_string()),
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
    (&["lgamma", "digamma", "i0", "special_i*", "mvlgamma", "erfinv", "special_ndtri"], UNSIGNED, TABLE),
    (&["polygamma", "special_zeta*", "special_airy_ai", "special_spherical_bessel_j0"], WHOLE, TABLE),
    (&["special_bessel_*", "special_modified_bessel_*", "special_scaled_*"], WHOLE, TABLE),
    (&["special_chebyshev_*", "special_shifted_*", "special_hermite_*"], WHOLE, TABLE),
    (&["special_laguerre_*", "special_legendre_*"], WHOLE, TABLE),
    (&["_unique2", "unique_consecutive", "searchsorted*", "bucketize.Scalar"], &[Bool], WRITTEN),
    (&["pairwise_distance", "trap*", "cumulative_trapezoid*"], NONNEGATIVE, WRAPS),
    (&["_embedding_bag_per_sample_weights_backward"], NONNEGATIVE, WRAPS),
    (
        &["_embedding_bag_backward", "_embedding_bag_dense_backward"],
        NONNEGATIVE,
        "a mean is a sum of rounded shares",
    ),
    (&["prod.dim_int"], NONNEGATIVE, "products of the sample pass what float64 tells apart"),
    (&["binary_cross_entropy_with_logits"], &[I8, I16, I32, I64], "terms of whole numbers cancel"),
    (&["gradient.scalararray*"], UNSIGNED, WRAPS),
    (&["stft*", "istft"], COMPLEX, "the row is about real signals, whose transform is half as long"),
    (
        &["binomial", "poisson", "multinomial", "log_normal_"],
        FLOAT8,
        "eight bits cannot hold the numbers that are counted",
    ),
    (&["blackman_window*", "where"], &[F8E8M0FNU], "the type has no zero"),
    (
        &["gradient.tensor*"],
        &[Bool, U8, I8, I16, I32, I64, U16, U32, U64],
        "positions truncated to whole numbers coincide",
    ),
    (&["linspace*"], WHOLE, "the ends are cut to whole numbers before they are divided"),
    (&["randperm*"], &[BF16], "the type cannot tell as many numbers apart, in PyTorch neither"),
];

/// What is counted for complex types of rows that state a property.
const PROPERTIES: (&str, &str) =
    ("rows with a property", "it is about real results; the test `complex` has those of complex ones");

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

/// An exact value converted to a type: integers truncate and wrap, bool is whether it is not 0, float8 rounds.
fn held_as(value: f64, dtype: ScalarType) -> f64 {
    if dtype == Bool {
        return f64::from(value != 0.0);
    }
    if FLOAT8.contains(&dtype) {
        return array(&tensor(&Array::scalar(value), dtype)).data[0];
    }
    let is_signed = INTEGERS.contains(&dtype) && dtype != U8;
    if !is_signed && dtype != U8 && !UNSIGNED.contains(&dtype) {
        return value;
    }
    let count = 2f64.powi(8 * dtype.size() as i32);
    let lowest = if is_signed { -count / 2.0 } else { 0.0 };
    let whole = value.trunc();
    whole - ((whole - lowest) / count).floor() * count
}

/// Pairs of real and imaginary parts: those of numbers that are real, or of a reference that gives pairs. Where a function of real
/// numbers has no value, the complex one may have one, which is taken as it is.
fn complex_parts(expected: &Array, result: &Tensor) -> Array {
    let found = array(result);
    if expected.sizes == found.sizes {
        return expected.clone();
    }
    let sizes: Vec<usize> = expected.sizes.iter().copied().chain([2]).collect();
    let pair = |(i, real): (usize, &f64)| match real.is_nan() && found.sizes == sizes {
        true => [found.data[2 * i], found.data[2 * i + 1]],
        false => [*real, 0.0],
    };
    Array::new(&sizes, expected.data.iter().enumerate().flat_map(pair).collect())
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
        let held = expected.map(|value| held_as(value, result.dtype()));
        let held = if result.is_complex() { complex_parts(&held, result) } else { held };
        // A complex number has the rounding errors of several real ones.
        let Bound { ulps, terms } = row.bound();
        let ulps = if result.is_complex() { ulps + COMPLEX_ULPS } else { ulps };
        difference(result, &held, Bound { ulps, terms })
    };
    results.iter().zip(&expected).find_map(fits)
}

/// How many samples of a row give in a type what they should, or what is wrong with one.
fn right(row: &Row, op: &dyn OperatorInfo, dtype: ScalarType) -> Result<usize, String> {
    let mut count = 0;
    for sample in &row.samples {
        let sample = &held(sample, dtype)[..];
        let results = in_type(op, sample, dtype).and_then(|args| outcome(op, &args).ok());
        let Some(results) = results else { continue };
        count += 1;
        fault(row, &rounded(sample, dtype.to_real()), &results).map_or(Ok(()), Err)?;
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
            if dtype.is_complex() && rows.iter().any(|row| row.property.is_some()) {
                *excused.entry(PROPERTIES).or_default() += 1;
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
