//! The text: read, turned into numbers, cut into a part to train on and a part held out.

use flambeau::{Error, ErrorKind, Result};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Files that count as text in a folder.
const ENDINGS: [&str; 6] = ["md", "txt", "rs", "toml", "yaml", "py"];
/// The part held out.
const HELD_OUT: f64 = 0.1;

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
        let files = files(path)?;
        let texts = files.iter().map(|f| read(f)).collect::<Result<Vec<String>>>()?;
        let alphabet: Vec<char> =
            texts.iter().flat_map(|t| t.chars()).collect::<BTreeSet<char>>().into_iter().collect();
        let mut text = Text { alphabet, train: Vec::new(), held_out: Vec::new() };
        for content in &texts {
            let numbers: Vec<i64> = content.chars().filter_map(|c| text.number(c)).collect();
            let cut = (numbers.len() as f64 * (1.0 - HELD_OUT)) as usize;
            text.train.extend(&numbers[..cut]);
            text.held_out.extend(&numbers[cut..]);
        }
        if text.train.len() <= context || text.held_out.len() <= context {
            let message = format!(
                "{}: expected more than {context} characters to train on and to hold out but got {} and {}",
                path.display(),
                text.train.len(),
                text.held_out.len()
            );
            return Err(Error::new(ErrorKind::InvalidArgument, message));
        }
        Ok(text)
    }

    /// The number of a character of the alphabet.
    pub(crate) fn number(&self, c: char) -> Option<i64> {
        self.alphabet.binary_search(&c).ok().map(|i| i as i64)
    }

    /// The characters of numbers.
    pub(crate) fn characters(&self, numbers: &[i64]) -> String {
        numbers.iter().filter_map(|n| self.alphabet.get(*n as usize)).collect()
    }
}

fn files(path: &Path) -> Result<Vec<PathBuf>> {
    let fault = |e: std::io::Error| Error::from(e).context(path.display());
    if !std::fs::metadata(path).map_err(fault)?.is_dir() {
        return Ok(vec![path.to_path_buf()]);
    }
    let mut found = Vec::new();
    for entry in std::fs::read_dir(path).map_err(fault)? {
        let path = entry.map_err(fault)?.path();
        let is_text = path.extension().and_then(|e| e.to_str()).is_some_and(|e| ENDINGS.contains(&e));
        if path.is_dir() {
            found.extend(files(&path)?);
        } else if is_text {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

fn read(path: &Path) -> Result<String> {
    let bytes = std::fs::read(path).map_err(|e| Error::from(e).context(path.display()))?;
    String::from_utf8(bytes).map_err(|e| {
        let at = e.utf8_error().valid_up_to();
        Error::new(ErrorKind::Io, format!("{}: expected UTF-8 text but byte {at} is not", path.display()))
    })
}
