//! What was compiled before: a file with a line for each program and architecture, to which each result is appended when it is known.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;

/// The last word of a line, so that a part of one is not taken for a result.
const END: &str = "end";

/// Results by their keys, and the file.
pub(crate) struct Results {
    known: HashMap<String, (u32, u32)>,
    file: File,
}

/// The result of a line `KEY REGISTERS BYTES end`.
fn parsed(line: &str) -> Option<(String, (u32, u32))> {
    let [key, registers, bytes, END] = line.split(' ').collect::<Vec<_>>()[..] else { return None };
    Some((key.to_owned(), (registers.parse().ok()?, bytes.parse().ok()?)))
}

impl Results {
    /// The results of a file, which is made if there is none.
    pub(crate) fn open(path: &Path) -> std::io::Result<Self> {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(error),
        };
        let mut file = OpenOptions::new().create(true).append(true).open(path)?;
        if !text.is_empty() && !text.ends_with('\n') {
            file.write_all(b"\n")?;
        }
        Ok(Results { known: text.lines().filter_map(parsed).collect(), file })
    }

    pub(crate) fn get(&self, key: &str) -> Option<(u32, u32)> {
        self.known.get(key).copied()
    }

    pub(crate) fn add(&mut self, key: &str, (registers, bytes): (u32, u32)) -> std::io::Result<()> {
        self.known.insert(key.to_owned(), (registers, bytes));
        self.file.write_all(format!("{key} {registers} {bytes} {END}\n").as_bytes())
    }
}
