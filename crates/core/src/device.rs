//! Devices: where a tensor's elements are stored.

use crate::{Error, ErrorKind, backend};
use std::fmt;
use std::str::FromStr;

/// A kind of device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum DeviceType {
    /// The host's memory.
    Cpu = 0,
    /// An NVIDIA GPU.
    Cuda = 1,
    /// No memory at all: shapes and types only.
    Meta = 2,
    /// A device of a crate outside this repository.
    PrivateUse1 = 3,
    /// A second one.
    PrivateUse2 = 4,
    /// A third one.
    PrivateUse3 = 5,
}

impl DeviceType {
    /// How many kinds there are; they number from 0.
    pub const COUNT: usize = 6;

    /// Every kind.
    pub const ALL: [DeviceType; DeviceType::COUNT] = [
        DeviceType::Cpu,
        DeviceType::Cuda,
        DeviceType::Meta,
        DeviceType::PrivateUse1,
        DeviceType::PrivateUse2,
        DeviceType::PrivateUse3,
    ];

    /// The name as written in `"cuda:1"`, which the crate that [registers](crate::backend::Backend) a device chooses.
    pub fn name(self) -> &'static str {
        match self {
            DeviceType::Cpu | DeviceType::Meta => self.own_name(),
            _ => backend::name(self).unwrap_or(self.own_name()),
        }
    }

    const fn own_name(self) -> &'static str {
        match self {
            DeviceType::Cpu => "cpu",
            DeviceType::Cuda => "cuda",
            DeviceType::Meta => "meta",
            DeviceType::PrivateUse1 => "privateuseone",
            DeviceType::PrivateUse2 => "privateusetwo",
            DeviceType::PrivateUse3 => "privateusethree",
        }
    }
}

/// A device: its kind and, where there can be several, which one.
///
/// ```
/// use flambeau_core::Device;
/// let device: Device = "cuda:1".parse()?;
/// assert_eq!(device, Device::cuda(1));
/// assert_eq!(device.to_string(), "cuda:1");
/// assert!("cuda:x".parse::<Device>().is_err());
/// # Ok::<(), flambeau_core::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Device {
    kind: DeviceType,
    index: i8, // -1: the current one
}

impl Device {
    /// The host.
    pub const CPU: Device = Device { kind: DeviceType::Cpu, index: -1 };
    /// Shapes without data.
    pub const META: Device = Device { kind: DeviceType::Meta, index: -1 };

    /// The `index`-th device of a kind.
    pub const fn new(kind: DeviceType, index: Option<u8>) -> Self {
        match index {
            Some(i) if i < 128 => Device { kind, index: i as i8 },
            _ => Device { kind, index: -1 },
        }
    }

    /// The `index`-th GPU.
    pub const fn cuda(index: u8) -> Self {
        Device::new(DeviceType::Cuda, Some(index))
    }

    /// Its kind.
    pub const fn device_type(self) -> DeviceType {
        self.kind
    }

    /// Which one of its kind, or `None` for the current one.
    pub const fn index(self) -> Option<usize> {
        if self.index < 0 { None } else { Some(self.index as usize) }
    }

    /// Whether it is the host.
    pub const fn is_cpu(self) -> bool {
        matches!(self.kind, DeviceType::Cpu)
    }

    /// Whether it has shapes only.
    pub const fn is_meta(self) -> bool {
        matches!(self.kind, DeviceType::Meta)
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.name())?;
        if self.index >= 0 { write!(f, ":{}", self.index) } else { Ok(()) }
    }
}

impl FromStr for Device {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let (name, index) = match text.split_once(':') {
            Some((name, index)) => (name, Some(index)),
            None => (text, None),
        };
        let fault = || {
            let message = format!("expected a device such as \"cpu\" or \"cuda:0\" but got {text:?}");
            Error::new(ErrorKind::Device, message)
        };
        let kind = DeviceType::ALL.into_iter().find(|k| k.name() == name).ok_or_else(fault)?;
        match index {
            None => Ok(Device::new(kind, None)),
            Some(i) => match i.parse::<u8>() {
                Ok(i) if i < 128 => Ok(Device::new(kind, Some(i))),
                _ => Err(fault()),
            },
        }
    }
}
