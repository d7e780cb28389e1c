//! Devices that other crates provide: their names, number, allocators, and copies between them.

#![expect(unsafe_code, reason = "copies between devices are by address")]

use crate::data_ptr::Allocator;
use crate::{Device, DeviceType, Error, ErrorKind, Result, bail, ensure};
use std::panic::Location;
use std::sync::{Mutex, OnceLock, PoisonError};

/// A kind of device, registered by a crate at link time:
/// `inventory::submit!(Backend::new(DeviceType::PrivateUse1, "mock", start));`.
///
/// It takes effect in every program that uses that crate at all. The name is that of `"mock:1"`.
pub struct Backend {
    device_type: DeviceType,
    name: &'static str,
    start: fn() -> Result<&'static dyn DeviceHooks>,
    location: &'static Location<'static>,
}

inventory::collect!(Backend);

impl Backend {
    /// Devices of `device_type` called `name`. The first use of one calls `start`, once; its error is that of every use.
    #[track_caller]
    pub const fn new(
        device_type: DeviceType,
        name: &'static str,
        start: fn() -> Result<&'static dyn DeviceHooks>,
    ) -> Self {
        Backend { device_type, name, start, location: Location::caller() }
    }
}

/// What a kind of device provides beside its kernels.
pub trait DeviceHooks: Send + Sync {
    /// How many devices of the kind there are.
    fn device_count(&self) -> usize;

    /// The index of the device that is used if none is given.
    fn current_device(&self) -> usize;

    /// Makes another the current one of this thread.
    ///
    /// # Errors
    /// What the device reports.
    fn set_current_device(&self, index: usize) -> Result<()>;

    /// The allocator of its memory.
    fn allocator(&self) -> &'static dyn Allocator;

    /// Copies `bytes` bytes from one device to another or within one; each is of this kind or the host. When it returns, the copy is done.
    ///
    /// # Safety
    /// - (valid) Both ranges are inside live allocations of their devices, and they do not overlap.
    /// - (quiet) Meanwhile no other thread writes to either range, or reads `to`.
    ///
    /// # Errors
    /// What the device reports.
    unsafe fn copy(&self, from: (Device, *const u8), to: (Device, *mut u8), bytes: usize) -> Result<()>;

    /// Waits until all work given to a device is done.
    ///
    /// # Errors
    /// What the device reports of that work.
    fn synchronize(&self, index: usize) -> Result<()> {
        let _ = index;
        Ok(())
    }
}

/// The result of starting a backend, or that there is none. An error is stored as its parts, since each caller gets one of its own.
type Started = Result<Option<&'static dyn DeviceHooks>, (ErrorKind, String)>;

static STARTED: [OnceLock<Started>; DeviceType::COUNT] = [const { OnceLock::new() }; DeviceType::COUNT];

/// The hooks of a kind of device; `None` if no crate has registered any.
///
/// # Errors
/// `InvalidArgument` if two crates have, and those of starting it.
pub fn hooks(device_type: DeviceType) -> Result<Option<&'static dyn DeviceHooks>> {
    let started = STARTED[device_type as usize]
        .get_or_init(|| start(device_type).map_err(|error| (error.kind(), error.to_string())));
    started.clone().map_err(|(kind, message)| Error::new(kind, message))
}

fn start(device_type: DeviceType) -> Result<Option<&'static dyn DeviceHooks>> {
    let mut backends = of_type(device_type);
    let Some(backend) = backends.next() else { return Ok(None) };
    if let Some(other) = backends.next() {
        return Err(Error::new(
            ErrorKind::InvalidArgument,
            format!(
                "expected one backend of {device_type:?} but got `{}` from {} and `{}` from {}",
                backend.name, backend.location, other.name, other.location
            ),
        ));
    }
    (backend.start)().map(Some).map_err(|error| error.context(format!("starting {}", backend.name)))
}

fn of_type(device_type: DeviceType) -> impl Iterator<Item = &'static Backend> {
    inventory::iter::<Backend>.into_iter().filter(move |backend| backend.device_type == device_type)
}

/// The name that its crate has given a kind of device.
pub(crate) fn name(device_type: DeviceType) -> Option<&'static str> {
    named(device_type).map(|(name, _)| name)
}

/// A kind of devices that was registered while the program runs: its name, and where that happened.
type Registered = (&'static str, &'static Location<'static>);

static REGISTERED: [OnceLock<Registered>; DeviceType::COUNT] = [const { OnceLock::new() }; DeviceType::COUNT];

fn named(device_type: DeviceType) -> Option<Registered> {
    let linked = of_type(device_type).next().map(|backend| (backend.name, backend.location));
    linked.or_else(|| REGISTERED[device_type as usize].get().copied())
}

/// Registers a kind of device while the program runs, as the first of `PrivateUse1`, `PrivateUse2` and `PrivateUse3` that no crate has
/// taken and that was not used yet. From then on `"name:1"` is a device. It lasts until the process ends.
///
/// # Errors
/// `InvalidArgument` where the name is taken, naming both locations, or cannot be written in front of `:1`; where no kind is left, naming
/// those that have them.
///
/// ```
/// use flambeau_core::backend::{DeviceHooks, register_device};
/// use flambeau_core::{Allocator, Device, Result, allocator::CpuAllocator};
///
/// /// Two devices, whose memory is the host's.
/// struct Twins;
/// impl DeviceHooks for Twins {
///     fn device_count(&self) -> usize { 2 }
///     fn current_device(&self) -> usize { 0 }
///     fn set_current_device(&self, _: usize) -> Result<()> { Ok(()) }
///     fn allocator(&self) -> &'static dyn Allocator { &CpuAllocator }
///     unsafe fn copy(&self, from: (Device, *const u8), to: (Device, *mut u8), bytes: usize) -> Result<()> {
///         // SAFETY: both are the host's memory, and the caller says that they are valid.
///         unsafe { std::ptr::copy_nonoverlapping(from.1, to.1, bytes) };
///         Ok(())
///     }
/// }
///
/// let kind = register_device("twin", &Twins)?;
/// let second: Device = "twin:1".parse()?;
/// assert_eq!((second.device_type(), second.index()), (kind, Some(1)));
/// let error = register_device("twin", &Twins).unwrap_err();
/// assert!(error.message().matches(".rs:").count() == 2, "both locations: {error}");
/// # Ok::<(), flambeau_core::Error>(())
/// ```
#[track_caller]
pub fn register_device(name: &str, hooks: &'static dyn DeviceHooks) -> Result<DeviceType> {
    static REGISTERING: Mutex<()> = Mutex::new(());
    let here = Location::caller();
    let is_word = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    ensure!(
        !name.is_empty() && is_word,
        InvalidArgument("register_device", "name"),
        "expected a word such as \"npu\" but got {name:?}"
    );
    let _one_at_a_time = REGISTERING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(taken) = DeviceType::ALL.into_iter().find(|kind| kind.name() == name) {
        let first = named(taken).map_or_else(|| "the library".to_owned(), |(_, origin)| origin.to_string());
        bail!(
            InvalidArgument("register_device", "name"),
            "expected one kind of devices called {name} but there is one from {first} and one from {here}"
        );
    }
    let kinds = [DeviceType::PrivateUse1, DeviceType::PrivateUse2, DeviceType::PrivateUse3];
    for kind in kinds {
        // A kind that was used before it had hooks stays without them.
        if named(kind).is_none() && STARTED[kind as usize].set(Ok(Some(hooks))).is_ok() {
            let name = Box::leak(name.to_owned().into_boxed_str());
            let _ = REGISTERED[kind as usize].set((name, here));
            return Ok(kind);
        }
    }
    let origin = |(name, origin): Registered| format!("{name} from {origin}");
    let taken: Vec<String> = kinds.into_iter().filter_map(named).map(origin).collect();
    bail!(
        InvalidArgument("register_device"),
        "expected one of three kinds of devices to be free for {name} from {here} but there are {}",
        taken.join(", ")
    )
}

/// `device` with its number: the current one where none is given.
///
/// # Errors
/// `Device` where there is no device of that number, and those of starting the backend.
pub fn resolve(device: Device) -> Result<Device> {
    let Some(hooks) = hooks(device.device_type())? else { return Ok(device) };
    let index = device.index().unwrap_or_else(|| hooks.current_device());
    ensure!(
        index < hooks.device_count(),
        Device,
        "expected one of the {} devices of {} but got {device}",
        hooks.device_count(),
        device.device_type().name()
    );
    Ok(Device::new(device.device_type(), u8::try_from(index).ok()))
}

/// Copies bytes between two devices, of which one may be the host.
///
/// # Safety
/// As for [`DeviceHooks::copy`].
///
/// # Errors
/// `Device` where neither has hooks, or they are of two kinds beside the host; what the device reports.
pub unsafe fn copy(from: (Device, *const u8), to: (Device, *mut u8), bytes: usize) -> Result<()> {
    let of = |device: Device| if device.is_cpu() { Ok(None) } else { hooks(device.device_type()) };
    let is_host_or_same = from.0.is_cpu() || to.0.is_cpu() || from.0.device_type() == to.0.device_type();
    match of(to.0)?.or(of(from.0)?) {
        // SAFETY: the conditions above.
        Some(hooks) if is_host_or_same => unsafe { hooks.copy(from, to, bytes) },
        _ => {
            let message = format!("expected devices that bytes go between but got {} and {}", from.0, to.0);
            Err(Error::new(ErrorKind::Device, message))
        }
    }
}

/// Makes a device the current one of its kind for this thread, until it is dropped.
///
/// ```
/// use flambeau_core::{Device, backend::DeviceGuard};
/// // The host has one device, which is always current.
/// drop(DeviceGuard::new(Device::CPU)?);
/// # Ok::<(), flambeau_core::Error>(())
/// ```
#[must_use = "the device is current only while this lives"]
pub struct DeviceGuard {
    before: Option<(&'static dyn DeviceHooks, usize)>,
    not_send: std::marker::PhantomData<*const ()>,
}

impl DeviceGuard {
    /// Makes `device` current; without a number, or without hooks, nothing changes.
    ///
    /// # Errors
    /// Those of [`resolve`], and what the device reports.
    pub fn new(device: Device) -> Result<Self> {
        let mut guard = DeviceGuard { before: None, not_send: std::marker::PhantomData };
        if let (Some(hooks), Some(index)) = (hooks(device.device_type())?, resolve(device)?.index()) {
            let before = hooks.current_device();
            hooks.set_current_device(index)?;
            guard.before = Some((hooks, before));
        }
        Ok(guard)
    }
}

impl Drop for DeviceGuard {
    fn drop(&mut self) {
        if let Some((hooks, index)) = self.before {
            // It was current before; a device that has failed since reports that at its next use.
            let _ = hooks.set_current_device(index);
        }
    }
}
