//! The checksum of a checkpoint, which detects damage that leaves a file well formed.

use super::Metadata;
use super::snapshot::{Entries, Entry};
use flambeau_core::Result;

/// The checksum of tensors with their names, types and sizes, and of metadata.
///
/// It finds accidents, not forgeries: each word enters by a step that can be undone, so files that differ in one word never
/// have the same, and others hardly ever.
pub(super) fn checksum(tensors: &Entries<'_>, metadata: &Metadata) -> Result<u64> {
    let mut sum = Checksum(0);
    for (key, note) in metadata {
        sum.bytes(key.as_bytes());
        sum.bytes(note.as_bytes());
    }
    for (name, tensor) in tensors {
        sum.bytes(name.as_bytes());
        sum.tensor(tensor)?;
    }
    Ok(sum.0)
}

struct Checksum(u64);

impl Checksum {
    /// Exclusive or, the product with an odd number, and exclusive or with the upper half are all one to one.
    fn word(&mut self, word: u64) {
        let mixed = (self.0 ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 = mixed ^ (mixed >> 32);
    }

    /// Bytes after their number, so that the end of one text is not the beginning of the next.
    fn bytes(&mut self, bytes: &[u8]) {
        self.word(bytes.len() as u64);
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.word(u64::from_le_bytes(word));
        }
    }

    fn tensor(&mut self, tensor: &Entry) -> Result<()> {
        self.bytes(tensor.code.as_bytes());
        self.word(tensor.sizes.len() as u64);
        tensor.sizes.iter().for_each(|size| self.word(*size as u64));
        self.bytes(tensor.bytes()?);
        Ok(())
    }
}
