//! Tensors as serde sees them: type, sizes and elements; bytes for formats that are not for people, and numbers for those that are.
//!
//! Numbers are written as f64, i64 or u64, which hold those of every type, and those that JSON cannot write as `"nan"`, `"inf"` and
//! `"-inf"`. Neither the device nor autograd is kept: what is read is a leaf on the host.

use super::Tensor;
use super::elements::Elements;
use ::serde::de::{self, Deserialize, Deserializer, SeqAccess, Visitor};
use ::serde::ser::{self, Serialize, SerializeStruct, Serializer};
use flambeau_core::{Element, Geometry, Result, Scalar, ScalarType, Storage, TensorImpl, ensure, fallible};
use std::fmt;

/// In text as `{"dtype":"float32","sizes":[2],"data":[1.0,2.5]}`.
impl Serialize for Tensor {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let host = self.on_host().map_err(ser::Error::custom)?;
        let mut fields = to.serialize_struct("Tensor", 3)?;
        fields.serialize_field("dtype", &self.dtype())?;
        fields.serialize_field("sizes", host.sizes())?;
        fields.serialize_field("data", &Data(&host))?;
        fields.end()
    }
}

/// The elements of a tensor on the host.
struct Data<'a>(&'a Tensor);

impl Serialize for Data<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let for_people = to.is_human_readable();
        let written = crate::dispatch_all_types!(stored, self.0.dtype(), "serialize", T => {
            Elements::<T>::new(self.0).map(|elements| match for_people {
                true => to.collect_seq(elements.iter().map(|x| Number(x.to_scalar()))),
                false => bytes(&elements).map_err(ser::Error::custom).and_then(|bytes| to.serialize_bytes(&bytes)),
            })
        });
        written.map_err(ser::Error::custom)?
    }
}

fn bytes<T: Element>(elements: &Elements<T>) -> Result<Vec<u8>> {
    ensure_little_endian()?;
    fallible::to_vec(bytemuck::cast_slice(&elements.to_vec()?))
}

fn ensure_little_endian() -> Result<()> {
    ensure!(
        cfg!(target_endian = "little"),
        NotImplemented,
        "elements as bytes are only written and read on little-endian machines"
    );
    Ok(())
}

/// A number as text; a complex one as a list of its parts.
struct Number(Scalar);

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Scalar::Bool(truth) => to.serialize_bool(truth),
            Scalar::Int(i) => to.serialize_i64(i),
            Scalar::UInt(u) => to.serialize_u64(u),
            Scalar::Complex(re, im) => [re, im].map(|part| Number(Scalar::Float(part))).serialize(to),
            Scalar::Float(x) if x.is_nan() => to.serialize_str("nan"),
            Scalar::Float(x) if x.is_infinite() => to.serialize_str(if x > 0.0 { "inf" } else { "-inf" }),
            other => to.serialize_f64(other.to_f64()),
        }
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(NumberVisitor).map(Number)
    }
}

struct NumberVisitor;

impl<'de> Visitor<'de> for NumberVisitor {
    type Value = Scalar;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number, true, false, \"nan\", \"inf\", \"-inf\" or a list of two parts")
    }

    fn visit_bool<E: de::Error>(self, truth: bool) -> Result<Scalar, E> {
        Ok(Scalar::Bool(truth))
    }

    fn visit_i64<E: de::Error>(self, i: i64) -> Result<Scalar, E> {
        Ok(Scalar::Int(i))
    }

    fn visit_u64<E: de::Error>(self, i: u64) -> Result<Scalar, E> {
        Ok(Scalar::from(i))
    }

    fn visit_f64<E: de::Error>(self, x: f64) -> Result<Scalar, E> {
        Ok(Scalar::Float(x))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Scalar, A::Error> {
        let mut part =
            |nr| from.next_element::<Number>()?.ok_or_else(|| de::Error::invalid_length(nr, &self));
        let (Number(re), Number(im)) = (part(0)?, part(1)?);
        if from.next_element::<de::IgnoredAny>()?.is_some() {
            return Err(de::Error::invalid_length(3, &self));
        }
        Ok(Scalar::Complex(re.to_f64(), im.to_f64()))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Scalar, E> {
        match text {
            "nan" => Ok(Scalar::Float(f64::NAN)),
            "inf" => Ok(Scalar::Float(f64::INFINITY)),
            "-inf" => Ok(Scalar::Float(f64::NEG_INFINITY)),
            _ => Err(E::invalid_value(de::Unexpected::Str(text), &self)),
        }
    }
}

/// What is read before it is known to fit together.
#[derive(::serde::Deserialize)]
#[serde(crate = "::serde", rename = "Tensor")]
struct Fields {
    dtype: ScalarType,
    sizes: Vec<i64>,
    data: Read,
}

/// The elements as they were written.
enum Read {
    Numbers(Vec<Number>),
    Bytes(Vec<u8>),
}

impl<'de> Deserialize<'de> for Read {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        match from.is_human_readable() {
            true => Vec::deserialize(from).map(Read::Numbers),
            false => from.deserialize_byte_buf(BytesVisitor).map(Read::Bytes),
        }
    }
}

struct BytesVisitor;

impl<'de> Visitor<'de> for BytesVisitor {
    type Value = Vec<u8>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the bytes of a tensor's elements")
    }

    fn visit_bytes<E: de::Error>(self, bytes: &[u8]) -> Result<Vec<u8>, E> {
        fallible::to_vec(bytes).map_err(E::custom)
    }

    fn visit_byte_buf<E: de::Error>(self, bytes: Vec<u8>) -> Result<Vec<u8>, E> {
        Ok(bytes)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Vec<u8>, A::Error> {
        let mut bytes = Vec::new();
        while let Some(byte) = from.next_element()? {
            fallible::push(&mut bytes, byte).map_err(de::Error::custom)?;
        }
        Ok(bytes)
    }
}

/// Fails where type, sizes and elements do not fit together, or a number does not fit the type.
impl<'de> Deserialize<'de> for Tensor {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let Fields { dtype, sizes, data } = Fields::deserialize(from)?;
        let made = match data {
            Read::Bytes(bytes) => from_bytes(&bytes, &sizes, dtype),
            Read::Numbers(numbers) => from_numbers(&numbers, &sizes, dtype),
        };
        made.map_err(|e| de::Error::custom(e.in_operator("deserialize")))
    }
}

fn from_bytes(bytes: &[u8], sizes: &[i64], dtype: ScalarType) -> Result<Tensor> {
    ensure_little_endian()?;
    super::check_working(dtype)?;
    let geometry = Geometry::contiguous(sizes)?;
    ensure!(
        geometry.nbytes(dtype)? == bytes.len(),
        Shape,
        argument = "data",
        got = bytes.len(),
        "expected the bytes of {dtype} elements in sizes {sizes:?} but got {got} bytes"
    );
    Ok(Tensor(TensorImpl::new(Storage::from_bytes(bytes)?, geometry, dtype)?))
}

fn from_numbers(numbers: &[Number], sizes: &[i64], dtype: ScalarType) -> Result<Tensor> {
    crate::dispatch_all_types!(stored, dtype, "deserialize", T => {
        let elements: Result<Vec<T>> = fallible::try_collect(numbers.iter().map(|x| super::construct::convert(x.0)));
        Tensor::from_vec(elements?, sizes)
    })
}
