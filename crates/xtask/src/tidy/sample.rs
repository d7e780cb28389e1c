//! `cargo xtask tidy --sample SEED`: passages of the code chosen at random, for a reader who has not seen it.

use super::File;
use crate::seed::SplitMix;

/// How many passages, and how many lines each has.
const PASSAGES: usize = 10;
const LINES: usize = 10;
/// Draws after which a tree with too few files gives up.
const DRAWS: usize = 1000;

/// A passage: its file, and the index of its first line.
#[derive(Clone, Copy)]
pub(super) struct Passage<'a> {
    file: &'a File,
    first: usize,
}

/// Passages of different files, neither generated nor tests. Each line of the code is as likely as any other.
pub(super) fn passages(files: &[File], seed: u64) -> Vec<Passage<'_>> {
    let all: Vec<Passage<'_>> = files.iter().filter(|file| is_code(file)).flat_map(of_file).collect();
    let mut draw = SplitMix::new(seed);
    let mut chosen: Vec<Passage<'_>> = vec![];
    for _ in 0..DRAWS {
        let Some(passage) = all.get(draw.below(all.len())) else { break };
        if chosen.len() < PASSAGES && chosen.iter().all(|other| other.file.path != passage.file.path) {
            chosen.push(*passage);
        }
    }
    chosen
}

fn is_code(file: &File) -> bool {
    file.is_rust() && !file.is_generated() && !file.is_test() && !file.path.starts_with("tests/")
}

/// All passages of a file, up to its tests.
fn of_file(file: &File) -> impl Iterator<Item = Passage<'_>> {
    let code = file.text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let starts = (code.lines().count() + 1).saturating_sub(LINES);
    (0..starts).map(move |first| Passage { file, first })
}

impl std::fmt::Display for Passage<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "{}:{}", self.file.path, self.first + 1)?;
        let mut lines = self.file.text.lines().skip(self.first).take(LINES);
        lines.try_for_each(|line| writeln!(f, "    {line}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, tests: &str) -> File {
        File { path: path.to_owned(), text: "code\n".repeat(30) + tests }
    }

    #[test]
    fn passages_follow_from_the_seed_and_are_code() {
        let mut files: Vec<File> =
            (0..20).map(|n| file(&format!("a{n}.rs"), "#[cfg(test)]\nmod tests {\ntest\n")).collect();
        files.extend(["tests/a.rs", "a/generated/b.rs", "a/tests/b.rs", "a.md"].map(|path| file(path, "")));
        let printed = |seed| passages(&files, seed).iter().map(Passage::to_string).collect::<Vec<_>>();
        let shown = printed(7);
        assert_eq!(shown.len(), PASSAGES);
        assert!(
            shown.iter().all(|text| text.starts_with('a') && text.matches("    code\n").count() == LINES)
        );
        assert_eq!(shown, printed(7));
        assert_ne!(shown, printed(8));
        assert!(passages(&files[20..], 7).is_empty());
    }
}
