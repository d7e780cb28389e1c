//! The text: reading, encoding as numbers, and splitting into training and held-out parts.

use flambeau::core::{bail, ensure};
use flambeau::{Error, ErrorKind, Result, Tensor};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Files that count as text in a folder.
const ENDINGS: [&str; 6] = ["md", "txt", "rs", "toml", "yaml", "py"];
/// One character in so many is held out.
const HELD_OUT: usize = 10;

/// Characters as numbers.
pub(crate) struct Text {
    /// The character of each number, in order of code points.
    pub(crate) alphabet: Vec<char>,
    /// What is trained on.
    pub(crate) train: Vec<i64>,
    /// What is not.
    pub(crate) held_out: Vec<i64>,
}

impl Text {
    /// Reads a file or a folder. The last tenth of each file is held out.
    ///
    /// # Errors
    /// `Io` naming the file that is missing or not UTF-8, `InvalidArgument` where there is too little text for `context`.
    pub(crate) fn read(path: &Path, context: usize) -> Result<Text> {
        let texts = files(path)?.iter().map(|f| read(f)).collect::<Result<Vec<String>>>()?;
        let alphabet: BTreeSet<char> = texts.iter().flat_map(|t| t.chars()).collect();
        let mut text =
            Text { alphabet: alphabet.into_iter().collect(), train: Vec::new(), held_out: Vec::new() };
        for content in &texts {
            let numbers = text.numbers(content)?;
            let (train, held_out) = numbers.split_at(numbers.len() - numbers.len() / HELD_OUT);
            text.train.extend(train);
            text.held_out.extend(held_out);
        }
        ensure!(
            text.train.len() > context && text.held_out.len() > context,
            InvalidArgument,
            "{}: expected more than {context} characters to train on and to hold out but got {} and {}",
            path.display(),
            text.train.len(),
            text.held_out.len()
        );
        Ok(text)
    }

    /// The numbers of characters.
    ///
    /// # Errors
    /// `InvalidArgument` naming a character that the alphabet has not.
    pub(crate) fn numbers(&self, characters: &str) -> Result<Vec<i64>> {
        let number = |c: char| match self.alphabet.binary_search(&c) {
            Ok(index) => Ok(index as i64),
            Err(_) => bail!(InvalidArgument, "expected characters that the text has but got {c:?}"),
        };
        characters.chars().map(number).collect()
    }

    /// The characters of numbers.
    pub(crate) fn characters(&self, numbers: &[i64]) -> String {
        numbers.iter().filter_map(|n| self.alphabet.get(*n as usize)).collect()
    }

    /// A number that another text hardly has: FNV-1a, by words, of alphabet and characters (Fowler, Noll and Vo, 1991).
    pub(crate) fn fingerprint(&self) -> u64 {
        let alphabet = self.alphabet.iter().map(|c| u64::from(*c));
        let numbers = self.train.iter().chain(&self.held_out).map(|n| *n as u64);
        let mix = |hash: u64, word: u64| (hash ^ word).wrapping_mul(0x0100_0000_01b3);
        alphabet.chain([u64::MAX]).chain(numbers).fold(0xcbf2_9ce4_8422_2325, mix)
    }
}

/// Sequences of `context` characters that begin at `starts`, and the same one character on.
///
/// # Errors
/// `OutOfMemory`.
pub(crate) fn sequences(text: &[i64], starts: &[usize], context: usize) -> Result<(Tensor, Tensor)> {
    let sizes = [starts.len() as i64, context as i64];
    let cut = |shift: usize| -> Result<Tensor> {
        let numbers = starts.iter().flat_map(|s| &text[s + shift..s + shift + context]).copied().collect();
        Tensor::from_vec(numbers, &sizes)
    };
    Ok((cut(0)?, cut(1)?))
}

/// The file, or the text files of the folder and of those inside it, in order of their names.
fn files(path: &Path) -> Result<Vec<PathBuf>> {
    let fault = |e: std::io::Error| Error::from(e).context(path.display());
    if !std::fs::metadata(path).map_err(fault)?.is_dir() {
        return Ok(vec![path.to_path_buf()]);
    }
    let mut found = Vec::new();
    text_files(path, &mut found).map_err(fault)?;
    ensure!(!found.is_empty(), Io, "{}: expected files that end in {ENDINGS:?} but got none", path.display());
    found.sort();
    Ok(found)
}

/// Hidden files, and folders behind links, which may lead back, are left out.
fn text_files(folder: &Path, found: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let path = entry.path();
        let hidden = entry.file_name().to_string_lossy().starts_with('.');
        let is_text = path.extension().and_then(|e| e.to_str()).is_some_and(|e| ENDINGS.contains(&e));
        if !hidden && entry.file_type()?.is_dir() {
            text_files(&path, found)?;
        } else if !hidden && is_text && !path.is_dir() {
            found.push(path);
        }
    }
    Ok(())
}

fn read(path: &Path) -> Result<String> {
    let bytes = std::fs::read(path).map_err(|e| Error::from(e).context(path.display()))?;
    String::from_utf8(bytes).map_err(|e| {
        let at = e.utf8_error().valid_up_to();
        Error::new(ErrorKind::Io, format!("{}: expected UTF-8 text but byte {at} is not", path.display()))
    })
}
