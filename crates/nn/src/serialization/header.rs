//! The header of a safetensors file: JSON with the dtype, the sizes and the position of each tensor's elements.

use super::snapshot::Entries;
use super::{Metadata, fault, scalar_type};
use flambeau_core::{Error, ErrorKind, Result, ScalarType, bail, ensure, fallible};
use serde::de::{Deserialize, Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};
use std::collections::{BTreeMap, btree_map};
use std::fmt;
use std::fs::File;
use std::io::{Read, Write};

/// Longer headers are refused, as the format says.
const LONGEST: u64 = 100_000_000;
/// What is read of a header takes no more than so many bytes for each of its own.
const EXPANSION: usize = 16;
/// The key of the metadata.
const METADATA_KEY: &str = "__metadata__";
/// The header ends at a multiple of so many bytes, so that elements are aligned for whoever maps the file.
const ALIGNMENT: usize = 8;

/// Where tensors lie in a file, in the order of their elements, and the metadata beside them.
pub(super) struct Header {
    pub(super) tensors: Vec<(String, Info)>,
    pub(super) metadata: Metadata,
}

/// What a header says of a tensor.
pub(super) struct Info {
    code: String,
    shape: Vec<u64>,
    /// First byte and end, counted from the end of the header.
    offsets: (u64, u64),
}

/// Reads the header of a file of so many bytes, which must account for each of them.
pub(super) fn read(file: &mut File, size: u64) -> Result<Header> {
    ensure!(size >= 8, Io, "expected at least 8 bytes but got {size}: it is cut short or something else");
    let mut length = [0; 8];
    file.read_exact(&mut length)?;
    let length = u64::from_le_bytes(length);
    ensure!(length <= LONGEST, Io, "expected a header but got one of {length} bytes: it is something else");
    ensure!(
        length <= size - 8,
        Io,
        "expected {length} bytes of contents but got {}: it is cut short",
        size - 8
    );
    let text = super::bytes(file, length)?;
    // The parser allocates infallibly, so the memory is checked for before.
    fallible::ensure_room(text.len().saturating_mul(EXPANSION))?;
    let header: Header =
        serde_json::from_slice(&text).map_err(|e| fault(format!("expected tensors by name in JSON: {e}")))?;
    header.in_order(size - 8 - length)
}

impl Header {
    /// The same in the order of the elements, each of which belongs to one tensor.
    fn in_order(mut self, size: u64) -> Result<Self> {
        self.tensors.sort_by_key(|(_, info)| info.offsets);
        let mut end = 0;
        for (name, info) in &self.tensors {
            let (first, last) = info.offsets;
            ensure!(
                first == end && (first..=size).contains(&last),
                Io,
                "expected `{name}` within {end} to {size}, which is left, but it lies at {first} to {last}"
            );
            end = last;
        }
        ensure!(
            end == size,
            Io,
            "expected {end} bytes but got {size}: {} bytes belong to no tensor",
            size - end
        );
        Ok(self)
    }
}

impl Info {
    /// Type and sizes, which are those of as many bytes as the tensor has.
    pub(super) fn checked(&self) -> Result<(ScalarType, Vec<i64>)> {
        let dtype = scalar_type(&self.code)?;
        let expected = byte_count(&self.shape, dtype);
        let got = self.offsets.1 - self.offsets.0;
        let Some(expected) = expected else {
            bail!(Io, "expected sizes whose product is below 2^63 but got {:?}", self.shape)
        };
        ensure!(
            expected == got,
            Io,
            "expected {expected} bytes for elements of {dtype} of sizes {:?} but got {got}",
            self.shape
        );
        Ok((dtype, self.shape.iter().map(|size| *size as i64).collect()))
    }
}

/// How many bytes elements of these sizes take, where strides can be told, even if a size of 0 leaves no elements.
fn byte_count(shape: &[u64], dtype: ScalarType) -> Option<u64> {
    let longest = shape.iter().try_fold(1i64, |n, size| n.checked_mul(i64::try_from(*size).ok()?.max(1)))?;
    let count = if shape.contains(&0) { 0 } else { longest };
    u64::try_from(count).ok()?.checked_mul(dtype.size() as u64)
}

/// Writes the length of a header and the header. The elements that follow are those of the entries, in their order.
pub(super) fn write(file: &mut impl Write, entries: &Entries<'_>, metadata: &Metadata) -> Result<()> {
    let mut text = String::from("{");
    if !metadata.is_empty() {
        text.push_str(&format!("{}:{},", quoted(METADATA_KEY)?, json(metadata)?));
    }
    let mut end = 0;
    for (name, entry) in entries {
        ensure!(
            **name != METADATA_KEY,
            InvalidArgument,
            "expected another name than {METADATA_KEY}, which is that of metadata"
        );
        let first = end;
        end += entry.bytes()?.len();
        let (name, code, sizes) = (quoted(name)?, entry.code, json(&entry.sizes)?);
        text.push_str(&format!(
            r#"{name}:{{"dtype":"{code}","shape":{sizes},"data_offsets":[{first},{end}]}},"#
        ));
    }
    if text.ends_with(',') {
        text.pop();
    }
    text.push('}');
    text.push_str(&" ".repeat(text.len().next_multiple_of(ALIGNMENT) - text.len()));
    ensure!(
        text.len() as u64 <= LONGEST,
        InvalidArgument,
        "expected names and metadata of {LONGEST} bytes at most"
    );
    file.write_all(&(text.len() as u64).to_le_bytes())?;
    Ok(file.write_all(text.as_bytes())?)
}

fn quoted(text: &str) -> Result<String> {
    json(&text)
}

pub(super) fn json(value: &impl serde::Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|e| Error::with_source(ErrorKind::Internal, e.to_string(), e))
}

impl<'de> Deserialize<'de> for Header {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Tensors;
        impl<'de> Visitor<'de> for Tensors {
            type Value = Header;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("tensors by name")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Header, A::Error> {
                let (mut tensors, mut metadata) = (BTreeMap::new(), None);
                while let Some(name) = map.next_key::<String>()? {
                    if name == METADATA_KEY && metadata.is_none() {
                        metadata = Some(map.next_value::<Option<Metadata>>()?.unwrap_or_default());
                        continue;
                    }
                    match tensors.entry(name) {
                        btree_map::Entry::Vacant(entry) if entry.key() != METADATA_KEY => {
                            let info = map.next_value::<Info>();
                            let info =
                                info.map_err(|e| A::Error::custom(format!("`{}`: {e}", entry.key())))?;
                            entry.insert(info);
                        }
                        other => return Err(A::Error::custom(format!("`{}` is there twice", other.key()))),
                    }
                }
                Ok(Header { tensors: tensors.into_iter().collect(), metadata: metadata.unwrap_or_default() })
            }
        }
        from.deserialize_map(Tensors)
    }
}

impl<'de> Deserialize<'de> for Info {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = Info;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("dtype, shape and data_offsets of a tensor")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Info, A::Error> {
                let (mut code, mut shape, mut offsets) = (None, None, None);
                while let Some(key) = map.next_key::<String>()? {
                    match key.as_str() {
                        "dtype" if code.is_none() => code = Some(map.next_value()?),
                        "shape" if shape.is_none() => shape = Some(map.next_value()?),
                        "data_offsets" if offsets.is_none() => offsets = Some(map.next_value()?),
                        "dtype" | "shape" | "data_offsets" => {
                            return Err(A::Error::custom(format!("{key} is there twice")));
                        }
                        _ => drop(map.next_value::<IgnoredAny>()?),
                    }
                }
                let offsets = offsets.ok_or_else(|| A::Error::missing_field("data_offsets"))?;
                let code = code.ok_or_else(|| A::Error::missing_field("dtype"))?;
                let shape = shape.ok_or_else(|| A::Error::missing_field("shape"))?;
                Ok(Info { code, shape, offsets })
            }
        }
        from.deserialize_map(Fields)
    }
}
