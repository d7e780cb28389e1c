//! The table of what kernels need: registers of a thread and bytes of local memory, for several architectures.

use flambeau_cuda::testing;
use std::collections::BTreeMap;

/// The compute capabilities of the columns.
pub(crate) const CAPABILITIES: [(i32, i32); 4] = [(8, 0), (9, 0), (10, 0), (12, 0)];

/// Registers and local bytes for each capability.
pub(crate) type Resources = Vec<(u32, u32)>;

/// The hand-written programs of float, by names of one line. Those of other types differ in conversions alone.
pub(crate) fn hand_written() -> Vec<(String, String)> {
    let is_part = |source: &str| source.contains("typedef float T;") && !source.contains("typedef double R;");
    let one_line = |name: &str| {
        let line = name.replace("typedef float T;", "").replace("#define ", "").replace('\n', " ");
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let all = testing::programs().into_iter().filter(|(_, source)| is_part(source));
    all.map(|(name, source)| (one_line(&name), source)).collect()
}

/// The table in a text: a line has a name, and `registers/bytes` for each capability.
pub(crate) fn parsed(text: &str) -> BTreeMap<String, Resources> {
    let column = |text: &str| {
        let (registers, bytes) = text.split_once('/')?;
        Some((registers.parse().ok()?, bytes.parse().ok()?))
    };
    let row = |line: &str| {
        let (name, columns) = line.rsplit_once(" | ")?;
        Some((name.to_owned(), columns.split(' ').map(column).collect::<Option<Resources>>()?))
    };
    text.lines().filter(|line| !line.starts_with('#')).filter_map(row).collect()
}

/// What needs more than a table says, what it does not have, and what is in it and is no more.
pub(crate) fn growth(known: &BTreeMap<String, Resources>, now: &BTreeMap<String, Resources>) -> Vec<String> {
    let grown = |(name, resources): (&String, &Resources)| {
        let Some(known) = known.get(name) else { return Some(format!("{name} is not in the table")) };
        let grows =
            known.iter().zip(resources).any(|(before, after)| after.0 > before.0 || after.1 > before.1);
        grows.then(|| format!("{name}: {known:?} became {resources:?}"))
    };
    let gone = known.keys().filter(|name| !now.contains_key(*name));
    let gone = gone.map(|name| format!("{name} is in the table, but there is no such program"));
    now.iter().filter_map(grown).chain(gone).collect()
}
