//! The index of a checkpoint: which file has which elements of which tensor. It is a safetensors file with notes and no tensors.

use super::{Shard, damaged, in_folder, number};
use flambeau_core::{Result, ScalarType, ensure, error};
use flambeau_nn::serialization::{Checkpoint, Metadata};
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

/// The name of the index in the folder.
const FILE: &str = "index.safetensors";
/// What the keys of tensors and of the program's notes begin with.
const TENSOR: &str = "tensor.";
const NOTE: &str = "note.";

/// A part of a tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) range: Range<i64>,
    pub(super) file: String,
    /// The name of the part in the file.
    pub(super) key: String,
}

/// A tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) dtype: ScalarType,
    pub(super) sizes: Vec<i64>,
    pub(super) parts: Vec<Part>,
}

/// Everything that a checkpoint has.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Index {
    pub(super) tensors: BTreeMap<String, Entry>,
    pub(super) notes: Metadata,
}

impl Index {
    pub(super) fn read(folder: &Path) -> Result<Index> {
        let stored = Checkpoint::load(folder.join(FILE))?;
        let mut index = Index::default();
        for (key, value) in stored.metadata {
            if let Some(name) = key.strip_prefix(TENSOR) {
                let entry = Entry::parse(&value).map_err(|e| in_folder(folder, e))?;
                index.tensors.insert(name.to_owned(), entry);
            } else if let Some(key) = key.strip_prefix(NOTE) {
                index.notes.insert(key.to_owned(), value);
            }
        }
        Ok(index)
    }

    /// Replaces the index of the folder, and removes files that the new one does not name.
    pub(super) fn write(&self, folder: &Path) -> Result<()> {
        let tensors = self.tensors.iter().map(|(name, entry)| (format!("{TENSOR}{name}"), entry.text()));
        let notes = self.notes.iter().map(|(key, value)| (format!("{NOTE}{key}"), value.clone()));
        let stored = Checkpoint { metadata: tensors.chain(notes).collect(), ..Default::default() };
        stored.save(folder.join(FILE))?;
        let named: Vec<&str> =
            self.tensors.values().flat_map(|entry| &entry.parts).map(|part| part.file.as_str()).collect();
        for file in std::fs::read_dir(folder).map_err(|e| in_folder(folder, e))? {
            let file = file.map_err(|e| in_folder(folder, e))?;
            let name = file.file_name().to_string_lossy().into_owned();
            if is_of_parts(&name) && !named.contains(&name.as_str()) {
                // A file that stays is of no harm.
                drop(std::fs::remove_file(file.path()));
            }
        }
        Ok(())
    }

    /// The parts of a tensor, which must have the sizes and the dtype of a shard.
    pub(super) fn parts_of(&self, name: &str, shard: &Shard) -> Result<&[Part]> {
        let absent = || {
            error!(
                InvalidArgument("checkpoint", "state"),
                "expected a checkpoint with tensor `{name}` but it has none"
            )
        };
        let entry = self.tensors.get(name).ok_or_else(absent)?;
        ensure!(
            entry.sizes == shard.sizes && entry.dtype == shard.dtype(),
            InvalidArgument("checkpoint", "state"),
            "expected tensor `{name}` of {} {:?} as in the checkpoint but got {} {:?}",
            entry.dtype,
            entry.sizes,
            shard.dtype(),
            shard.sizes
        );
        Ok(&entry.parts)
    }
}

/// The name of a file with the parts of a rank.
pub(super) fn file_of_parts(save: &str, rank: usize) -> String {
    format!("parts-{save}-{rank}.safetensors")
}

fn is_of_parts(name: &str) -> bool {
    name.starts_with("parts-") && name.ends_with(".safetensors")
}

impl Entry {
    /// `float32 2,3;0 6 parts-..-0.safetensors 4;..`: dtype and sizes, and for each part first, end, file and key.
    fn text(&self) -> String {
        let sizes: Vec<String> = self.sizes.iter().map(i64::to_string).collect();
        let mut text = format!("{} {}", self.dtype, sizes.join(","));
        for part in &self.parts {
            text += &format!(";{} {} {} {}", part.range.start, part.range.end, part.file, part.key);
        }
        text
    }

    fn parse(text: &str) -> Result<Entry> {
        let mut fields = text.split(';');
        let (dtype, sizes) =
            fields.next().and_then(|head| head.split_once(' ')).ok_or_else(|| damaged(text))?;
        let sizes = sizes.split(',').filter(|size| !size.is_empty());
        let sizes = sizes.map(|size| number(Some(size), text)).collect::<Result<Vec<i64>>>()?;
        let part = |field: &str| {
            let mut words = field.split(' ');
            let (start, end) = (number(words.next(), text)?, number(words.next(), text)?);
            let (Some(file), Some(key)) = (words.next(), words.next()) else { return Err(damaged(text)) };
            ensure!(
                start <= end && is_of_parts(file) && !file.contains('/'),
                Io,
                "the index of the checkpoint has a damaged part {field:?}"
            );
            Ok(Part { range: start..end, file: file.to_owned(), key: key.to_owned() })
        };
        Ok(Entry { dtype: dtype.parse()?, sizes, parts: fields.map(part).collect::<Result<_>>()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_read_as_it_was_written() {
        let part =
            |range: Range<i64>, rank| Part { range, file: file_of_parts("ab", rank), key: "7".to_owned() };
        for sizes in [vec![], vec![0], vec![2, 3]] {
            let entry = Entry { dtype: ScalarType::BF16, sizes, parts: vec![part(0..4, 0), part(4..6, 1)] };
            assert_eq!(Entry::parse(&entry.text()).unwrap(), entry);
        }
        for damaged in
            ["", "float32", "float32 a", "float32 2;0 2 ../x 1", "float32 2;2 0 parts-a.safetensors 1"]
        {
            assert!(Entry::parse(damaged).is_err(), "{damaged}");
        }
    }
}
