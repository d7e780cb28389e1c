//! Words that are not the field's, in identifiers, comments and documentation, and what to write for them.

use super::{File, Finding};

/// A word, and the terms that say what is meant. `docs/glossary.md` explains those.
const REFUSED: &[(&str, &str)] = &[
    ("place", "index, position, offset, slot, memory location"),
    ("places", "indices, positions, offsets, slots"),
    ("placed", "positioned, stored, anchored"),
    ("turn", "transpose, convert"),
    ("turns", "transposes, converts"),
    ("turned", "transposed"),
    ("way", "algorithm, rule, path, method"),
    ("ways", "algorithms, rules, paths"),
    ("seat", "participant, job slot"),
    ("seats", "participants, job slots"),
    ("stretch", "contiguous run, chunk"),
    ("stretches", "contiguous runs, chunks"),
    ("bed", "parking bucket"),
    ("beds", "parking buckets"),
    ("spare", "buffer reuse, free, unused"),
    ("spares", "cached buffers, free lists"),
    ("lent", "borrowed"),
    ("lend", "borrow"),
    ("lends", "borrows"),
    ("loan", "borrow"),
    ("greatest", "maximum, largest"),
    ("least", "minimum, smallest; `at least` is allowed"),
    ("asking", "prefetch, request, query"),
    ("asked", "prefetched, requested"),
    ("asks", "requests, requires, prefetches"),
    ("crowds", "fills most of the LLC"),
    ("outgrows", "exceeds"),
    ("heeds", "supports"),
    ("tap", "interpolation weight, kernel position"),
    ("taps", "interpolation weights, kernel positions"),
    ("stranger", "foreign owner"),
    ("strangers", "foreign owners"),
    ("revived", "resurrected"),
    ("nowhere", "none, null edge"),
    ("bring", "validate, reduce, convert, copy"),
    ("brings", "validates, reduces, converts, copies"),
    ("brought", "validated, reduced, converted, copied"),
    ("recounted", "rescaled strides"),
    ("widened", "upcast"),
    ("wanted", "expected, requested, needed"),
    ("nearest cache", "L1"),
    ("second cache", "L2"),
    ("last cache", "LLC"),
    ("past the caches", "non-temporal stores"),
];

/// Phrases in which a refused word is the field's own.
const ALLOWED: &[&str] = &[
    "in place",
    "in-place",
    "in_place",
    "inplace",
    "out of place",
    "out-of-place",
    "out_of_place",
    "outofplace",
    "placeholder",
    "at least",
    "van loan",
    "at_least",
    "least significant",
    "least squares",
    "least common multiple",
    "greatest common divisor",
    "decimal place",
];

/// Files that speak of a line of text: everywhere else under the kernels a line is one of a cache, and a tensor has rows.
const KERNELS: &[&str] =
    &["crates/ops/src/loops/", "crates/ops/src/native/", "crates/gemm/", "crates/vectorized/"];

/// This file and its siblings name what they forbid.
const OWN: &str = "crates/xtask/src/tidy";

pub(super) fn check(file: &File) -> Vec<Finding> {
    if file.path.starts_with(OWN) || !speaks(file) {
        return vec![];
    }
    let lines = file.text.lines().enumerate();
    lines.flat_map(|(index, line)| refused(file, index + 1, line)).collect()
}

/// Whether this is text of the project's own authors.
fn speaks(file: &File) -> bool {
    [".rs", ".md", ".py", ".pyi", ".yaml"].iter().any(|ending| file.path.ends_with(ending))
        && !file.path.contains("/golden/")
}

fn refused(file: &File, number: usize, line: &str) -> Vec<Finding> {
    let mut text = separated(line);
    for phrase in ALLOWED {
        text = without(text, &separated(phrase));
    }
    let mut found: Vec<Finding> = REFUSED
        .iter()
        .filter(|(word, _)| text.contains(&format!(" {word} ")))
        .map(|(word, instead)| file.error(number, format!("`{word}` is not the field's word: {instead}")))
        .collect();
    let is_kernel = KERNELS.iter().any(|folder| file.path.starts_with(folder));
    let text = without(without(text, " cache line "), " cache lines ");
    if is_kernel && (text.contains(" line ") || text.contains(" lines ")) {
        found.push(file.error(number, "`line` is not the field's word: row (of a tensor), cache line"));
    }
    found
}

/// The text without a phrase, which may follow itself and then shares a space.
fn without(mut text: String, phrase: &str) -> String {
    while text.contains(phrase) {
        text = text.replace(phrase, " ");
    }
    text
}

/// The words of a line in lower case, each between two spaces: those of `HalfWay`, `half_way` and `half-way` are the same.
fn separated(line: &str) -> String {
    let mut words = String::from(" ");
    let mut last = ' ';
    for c in line.chars() {
        let begins = c.is_uppercase() && last.is_lowercase();
        if begins || (!c.is_alphanumeric() && last.is_alphanumeric()) {
            words.push(' ');
        }
        if c.is_alphanumeric() {
            words.extend(c.to_lowercase());
        }
        last = c;
    }
    words.push(' ');
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> usize {
        check(&File { path: path.to_owned(), text: text.to_owned() }).len()
    }

    #[test]
    fn words_are_found_in_every_spelling() {
        for text in
            ["// its place", "fn place_of()", "struct HalfPlace;", "PLACE", "past the caches", "`way`"]
        {
            assert_eq!(found("a.rs", text), 1, "{text}");
        }
        assert_eq!(found("crates/gemm/src/a.rs", "// a line of it"), 1);
    }

    #[test]
    fn the_fields_own_phrases_pass() {
        for text in ["// in place, out of place, at least two", "fn in_place()", "replace(away)", "InPlace"] {
            assert_eq!(found("a.rs", text), 0, "{text}");
        }
        assert_eq!(found("crates/gemm/src/a.rs", "/// Bytes of a cache line, `CACHE_LINE`."), 0);
    }
}
