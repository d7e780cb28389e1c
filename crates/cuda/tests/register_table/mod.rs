//! The table of what kernels need: registers of a thread and bytes of local memory, for several architectures.

use flambeau_core::{Result, ScalarType, bail};
use flambeau_cuda::testing;
use std::collections::BTreeMap;

/// The compute capabilities of the columns.
pub(crate) const CAPABILITIES: [(i32, i32); 4] = [(8, 0), (9, 0), (10, 0), (12, 0)];

/// Registers and local bytes for each capability.
pub(crate) type Resources = Vec<(u32, u32)>;

/// A kernel without its types, and the types: `gather` and `float32`.
pub(crate) type Name = (String, String);

/// In place of types, of a kernel that has none.
const NO_TYPES: &str = "-";

/// What each kernel needs.
pub(crate) type Table = BTreeMap<Name, Resources>;

/// The type that a word of a program's name names.
fn type_of(word: &str) -> Option<&'static str> {
    match word {
        "boolean" => Some(ScalarType::Bool.name()),
        "float" => Some(ScalarType::F32.name()),
        "double" => Some(ScalarType::F64.name()),
        other => other.parse().ok().map(ScalarType::name),
    }
}

/// The name of a program in the table. Words that name types are taken out; if all name the same one, it is written once.
pub(crate) fn name_of(program: &str) -> Name {
    let text = program.replace("unsigned short", "uint16").replace("#define ", "").replace("typedef ", "");
    let (mut words, mut types): (Vec<&str>, Vec<&str>) = (Vec::new(), Vec::new());
    for word in text.split_whitespace().filter(|word| *word != "T;") {
        match type_of(word) {
            Some(name) => types.push(name),
            None => words.push(word),
        }
    }
    if types.iter().all(|name| *name == types[0]) {
        types.truncate(1);
    }
    let types = if types.is_empty() { NO_TYPES.to_owned() } else { types.join(">") };
    (words.join(" "), types)
}

/// The programs that are no formulas, by their names in the table.
///
/// # Errors
/// `Internal` where two have the same name.
pub(crate) fn hand_written() -> Result<BTreeMap<Name, String>> {
    named(testing::programs())
}

/// Programs by their names in the table.
///
/// # Errors
/// `Internal` where two different ones have the same name.
pub(crate) fn named(programs: Vec<(String, String)>) -> Result<BTreeMap<Name, String>> {
    let mut all = BTreeMap::new();
    for (program, source) in programs {
        if let Some(other) = all.insert(name_of(&program), source.clone())
            && other != source
        {
            bail!(Internal, "cuda: expected names of programs to differ but two are called {program:?}");
        }
    }
    Ok(all)
}

/// The table in a text: a line has a name, the types that need the same, and `registers/bytes` for each capability.
pub(crate) fn parsed(text: &str) -> Table {
    let column = |text: &str| {
        let (registers, bytes) = text.split_once('/')?;
        Some((registers.parse().ok()?, bytes.parse().ok()?))
    };
    let row = |line: &str| {
        let [name, types, columns] = line.split(" | ").collect::<Vec<_>>().try_into().ok()?;
        let columns = columns.split(' ').map(column).collect::<Option<Resources>>()?;
        let each = types.split(' ').map(|of| ((name.to_owned(), of.to_owned()), columns.clone()));
        Some(each.collect::<Vec<_>>())
    };
    text.lines().filter(|line| !line.starts_with('#')).filter_map(row).flatten().collect()
}

/// What needs more than a table says, what it does not have, and what is in it and is no more.
pub(crate) fn growth(known: &Table, now: &Table) -> Vec<String> {
    let grown = |(name, resources): (&Name, &Resources)| {
        let text = format!("{} of {}", name.0, name.1);
        let Some(known) = known.get(name) else { return Some(format!("{text} is not in the table")) };
        let grows =
            known.iter().zip(resources).any(|(before, after)| after.0 > before.0 || after.1 > before.1);
        grows.then(|| format!("{text}: {known:?} became {resources:?}"))
    };
    let gone = known.keys().filter(|name| !now.contains_key(*name));
    let gone =
        gone.map(|(name, types)| format!("{name} of {types} is in the table, but there is no such program"));
    now.iter().filter_map(grown).chain(gone).collect()
}
