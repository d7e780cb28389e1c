//! The coefficients of the special functions in CUDA C++ are those of the host's functions.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::path::Path;

/// The floating point numbers of a text between brackets, where quotients are computed.
fn numbers(text: &str) -> Vec<f64> {
    let value = |term: &str| match term.split_once('/') {
        Some((above, below)) => above.trim().parse::<f64>().unwrap() / below.trim().parse::<f64>().unwrap(),
        None => term.trim().parse().unwrap(),
    };
    text.split(',').filter(|term| !term.trim().is_empty()).map(value).collect()
}

/// The tables of the CUDA source, by name.
fn tables() -> BTreeMap<String, Vec<f64>> {
    let source = include_str!("../src/kernels/special_tables.cu");
    let mut tables = BTreeMap::new();
    for part in source.split("static __device__ const double ").skip(1) {
        let (name, rest) = part.split_once('[').unwrap();
        let list = rest.split_once('{').unwrap().1.split_once('}').unwrap().0;
        tables.insert(name.to_owned(), numbers(list));
    }
    tables
}

/// The lists of numbers in a source of the host, in their order.
fn lists(file: &str) -> Vec<Vec<f64>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../ops/src/native/pointwise/special_scalar");
    let Ok(source) = std::fs::read_to_string(folder.join(file)) else { return Vec::new() };
    let is_part = |c: char| c.is_ascii_digit() || "+-./e, \n".contains(c);
    let is_list = |text: &&str| text.contains(|c: char| c.is_ascii_digit()) && text.chars().all(is_part);
    source.split(['[', ']']).filter(is_list).map(numbers).filter(|list| list.len() > 1).collect()
}

#[test]
fn the_tables_are_those_of_the_host() {
    let tables = tables();
    assert!(tables.len() > 20, "{}", tables.len());
    let files = ["bessel_coefficients.rs", "gamma.rs", "normal.rs"];
    let of_host: Vec<Vec<f64>> = files.iter().flat_map(|file| lists(file)).collect();
    if of_host.is_empty() {
        println!("1 check skipped: the sources of flambeau-ops are not beside this crate");
        return;
    }
    for (name, table) in &tables {
        assert!(of_host.contains(table), "{name} is not a table of the host");
    }
    for list in &of_host {
        assert!(tables.values().any(|table| table == list), "there is no table {list:?}");
    }
}
