//! Reads zip archives whose entries are not compressed, also with the 64-bit records of large archives.
//!
//! The layout is that of PKWARE's `APPNOTE.TXT`: entries, a directory of them, and a last record that says where it lies.
//! Checksums are not looked at: `torch.save` may be told to leave them out, and PyTorch does not look at them either.

use super::fault;
use crate::serialization::bytes;
use flambeau_core::{Result, ensure};
use std::collections::HashMap;
use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::path::Path;

/// An open archive of `torch.save`: a folder of records in one file.
pub(super) struct Archive {
    file: File,
    size: u64,
    records: HashMap<String, Record>,
}

#[derive(Clone, Copy)]
struct Record {
    /// Where the header before its bytes lies.
    header: u64,
    size: u64,
}

/// Where the directory lies.
struct Directory {
    offset: u64,
    size: u64,
    count: u64,
}

const ENTRY: u32 = 0x0403_4b50;
const DIRECTORY_ENTRY: u32 = 0x0201_4b50;
const END: u32 = 0x0605_4b50;
const END_64: u32 = 0x0606_4b50;
const LOCATOR_64: u32 = 0x0706_4b50;
/// Says that the number stands where 64 bits have room.
const ELSEWHERE: u64 = 0xffff_ffff;
/// The last record with the longest comment.
const LONGEST_END: u64 = 22 + 0xffff;
/// Longer directories are refused: an entry has some hundred bytes for a storage.
const LONGEST_DIRECTORY: u64 = 100_000_000;
/// What comes before the names, in the directory and before the bytes of an entry.
const DIRECTORY_ENTRY_SIZE: usize = 46;
const ENTRY_SIZE: u64 = 30;

impl Archive {
    pub(super) fn open(path: &Path) -> Result<Self> {
        let file = File::open(path)?;
        let size = file.metadata()?.len();
        let mut archive = Archive { file, size, records: HashMap::new() };
        let directory = archive.directory()?;
        archive.read_directory(&directory)?;
        archive.leave_folder()?;
        Ok(archive)
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.records.contains_key(name)
    }

    /// How many bytes a record has.
    pub(super) fn size_of(&self, name: &str) -> Result<u64> {
        Ok(self.find(name)?.size)
    }

    /// The bytes of a record of at most so many.
    pub(super) fn record(&mut self, name: &str, most: u64) -> Result<Vec<u8>> {
        let size = self.size_of(name)?;
        ensure!(size <= most, Io, "expected at most {most} bytes for `{name}` but got {size}");
        bytes(self.reader(name)?, size)
    }

    /// The file, at the first byte of a record that lies inside it.
    pub(super) fn reader(&mut self, name: &str) -> Result<&mut File> {
        let record = self.find(name)?;
        let header = self.bytes(record.header, ENTRY_SIZE)?;
        let header = Fields(&header);
        ensure!(header.u32(0)? == ENTRY, Io, "expected an entry for `{name}` but got something else");
        let start = record.header + ENTRY_SIZE + u64::from(header.u16(26)?) + u64::from(header.u16(28)?);
        let end = start.saturating_add(record.size);
        ensure!(
            end <= self.size,
            Io,
            "`{name}` ends at {end} and the file at {}: it is cut short",
            self.size
        );
        self.file.seek(SeekFrom::Start(start))?;
        Ok(&mut self.file)
    }

    fn find(&self, name: &str) -> Result<Record> {
        self.records
            .get(name)
            .copied()
            .ok_or_else(|| fault(format!("expected a record `{name}`, which is not there")))
    }

    /// Bytes of the file, as many as it has.
    fn bytes(&mut self, offset: u64, count: u64) -> Result<Vec<u8>> {
        let end = offset.saturating_add(count);
        ensure!(
            end <= self.size,
            Io,
            "expected bytes up to {end} but the file ends at {}: it is cut short",
            self.size
        );
        self.file.seek(SeekFrom::Start(offset))?;
        bytes(&mut self.file, count)
    }

    /// What the last record says; it lies before a comment of unknown length.
    fn directory(&mut self) -> Result<Directory> {
        let start = self.size.saturating_sub(LONGEST_END);
        let tail = self.bytes(start, self.size - start)?;
        let end_at = tail.windows(22).rposition(|window| window[..4] == END.to_le_bytes());
        let end_at = end_at.ok_or_else(|| {
            fault("expected an archive of `torch.save`, as PyTorch writes it since version 1.6, but got something else, \
                   or the beginning of one")
        })?;
        let end = Fields(&tail[end_at..]);
        let directory =
            Directory { count: end.u16(10)?.into(), size: end.u32(12)?.into(), offset: end.u32(16)?.into() };
        let is_whole = directory.count < 0xffff && directory.size < ELSEWHERE && directory.offset < ELSEWHERE;
        if is_whole { Ok(directory) } else { self.directory_64(start + end_at as u64) }
    }

    /// The same in 64 bits, found by the locator before the last record.
    fn directory_64(&mut self, end: u64) -> Result<Directory> {
        let at =
            end.checked_sub(20).ok_or_else(|| fault("expected a locator before the end of the archive"))?;
        let locator = self.bytes(at, 20)?;
        ensure!(
            Fields(&locator).u32(0)? == LOCATOR_64,
            Io,
            "expected a locator before the end of the archive"
        );
        let last = self.bytes(Fields(&locator).u64(8)?, 56)?;
        let last = Fields(&last);
        ensure!(last.u32(0)? == END_64, Io, "expected the end of a directory but got something else");
        Ok(Directory { count: last.u64(32)?, size: last.u64(40)?, offset: last.u64(48)? })
    }

    fn read_directory(&mut self, directory: &Directory) -> Result<()> {
        ensure!(
            directory.size <= LONGEST_DIRECTORY,
            Io,
            "expected a directory of at most {LONGEST_DIRECTORY} bytes but got one of {}",
            directory.size
        );
        let bytes = self.bytes(directory.offset, directory.size)?;
        let (mut rest, mut total) = (&bytes[..], 0u64);
        for _ in 0..directory.count {
            let (name, record, length) = entry(rest)?;
            // So that no few bytes stand for many: what is read from a file is never more than it has.
            total = total.saturating_add(record.size);
            ensure!(total <= self.size, Io, "expected entries of {} bytes in all but got more", self.size);
            let before = self.records.insert(name.clone(), record);
            ensure!(before.is_none(), Io, "`{name}` is there twice");
            rest = &rest[length..];
        }
        Ok(())
    }

    /// Names the records without the folder that all lie in, which is named after the file.
    fn leave_folder(&mut self) -> Result<()> {
        let folders: Vec<&str> =
            self.records.keys().filter_map(|name| name.strip_suffix("data.pkl")).collect();
        let [folder] = folders[..] else {
            return Err(fault(format!("expected one data.pkl in the archive but got {}", folders.len())));
        };
        let folder = folder.to_string();
        let records = std::mem::take(&mut self.records).into_iter();
        self.records = records
            .filter_map(|(name, record)| Some((name.strip_prefix(&folder)?.to_string(), record)))
            .collect();
        Ok(())
    }
}

/// The first entry of a directory: its name, where it lies, and how long this description of it is.
fn entry(bytes: &[u8]) -> Result<(String, Record, usize)> {
    let fields = Fields(bytes);
    ensure!(
        fields.u32(0)? == DIRECTORY_ENTRY,
        Io,
        "expected an entry of the directory but got something else"
    );
    let (name_size, extra_size, comment_size) = (fields.u16(28)?, fields.u16(30)?, fields.u16(32)?);
    let extra_at = DIRECTORY_ENTRY_SIZE + usize::from(name_size);
    let name = fields.part(DIRECTORY_ENTRY_SIZE, name_size.into())?;
    let name = str::from_utf8(name).map_err(|_| fault("expected names in UTF-8"))?.to_string();
    ensure!(
        fields.u16(8)? & 1 == 0 && fields.u16(10)? == 0,
        Io,
        "`{name}` is compressed or encrypted, which `torch.save` never does"
    );
    let mut numbers = [fields.u32(24)?.into(), fields.u32(20)?.into(), fields.u32(42)?.into()];
    read_zip64_sizes(&mut numbers, fields.part(extra_at, extra_size.into())?)?;
    let [size, stored, header] = numbers;
    ensure!(size == stored, Io, "`{name}` has {size} bytes and {stored} in the file");
    let length = extra_at + usize::from(extra_size) + usize::from(comment_size);
    fields.part(0, length)?;
    Ok((name, Record { header, size }, length))
}

/// Replaces the numbers that the zip64 extra field holds, in this order.
fn read_zip64_sizes(numbers: &mut [u64; 3], mut extra: &[u8]) -> Result<()> {
    while !extra.is_empty() {
        let (kind, size) = (Fields(extra).u16(0)?, usize::from(Fields(extra).u16(2)?));
        let field = Fields(extra).part(4, size)?;
        if kind == 1 {
            let missing = numbers.iter_mut().filter(|number| **number == ELSEWHERE);
            for (index, number) in missing.enumerate() {
                *number = Fields(field).u64(8 * index)?;
            }
            return Ok(());
        }
        extra = &extra[4 + size..];
    }
    Ok(())
}

/// Little-endian numbers at offsets that may lie beyond the end.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn part(&self, at: usize, size: usize) -> Result<&'a [u8]> {
        let end = at.saturating_add(size);
        self.0.get(at..end).ok_or_else(|| fault("the directory of the archive is cut short"))
    }

    fn array<const N: usize>(&self, at: usize) -> Result<[u8; N]> {
        let mut array = [0; N];
        array.copy_from_slice(self.part(at, N)?);
        Ok(array)
    }

    fn u16(&self, at: usize) -> Result<u16> {
        Ok(u16::from_le_bytes(self.array(at)?))
    }

    fn u32(&self, at: usize) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array(at)?))
    }

    fn u64(&self, at: usize) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array(at)?))
    }
}
