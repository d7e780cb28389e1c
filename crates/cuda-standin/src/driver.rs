//! The C functions of the driver, by the names under which `cuda.h` has them.
#![expect(unsafe_code, reason = "the functions of a C interface take addresses")]

mod blas;
mod host;
#[cfg(target_os = "linux")]
mod nccl;
#[cfg(test)]
mod tests;

use crate::exec::Launch;
use crate::fault::{Fault, Status};
use crate::settings::{self, Settings};
use crate::state::{Answer, Handle, HostRange, State, Work, report};
use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};

/// What a function returns: a number of `Status`.
type Code = c_uint;
/// A pointer to an object of the driver, which is its number here.
type Object = *mut c_void;

static STATE: Mutex<Option<State>> = Mutex::new(None);

thread_local! {
    /// The device whose context is current.
    static CURRENT: Cell<Option<usize>> = const { Cell::new(None) };
}

/// The version of CUDA: new enough for all functions that are here.
const VERSION: c_int = 13000;

/// Contexts are numbers from here on.
const CONTEXTS: Handle = 0x1000;

fn code(answer: Answer<()>) -> Code {
    answer.map_or_else(|status| status.0, |()| Status::SUCCESS.0)
}

/// Answers a call, which is counted, and fails if a test has it fail. A bug here is an error of the call.
fn answer(name: &'static str, body: impl FnOnce() -> Answer<()>) -> Code {
    if settings::fails(name) {
        let is_memory = name.contains("Alloc");
        let status = if is_memory { Status::ERROR_OUT_OF_MEMORY } else { Status::ERROR_UNKNOWN };
        return status.0;
    }
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(answer) => code(answer),
        Err(_) => report(&Fault::new(Status::ERROR_UNKNOWN, format!("{name} panicked"))).0,
    }
}

/// Answers a call that uses the driver's objects.
fn with_state(name: &'static str, body: impl FnOnce(&mut State) -> Answer<()>) -> Code {
    answer(name, || {
        let mut state = STATE.lock().unwrap_or_else(PoisonError::into_inner);
        body(state.as_mut().ok_or(Status::ERROR_NOT_INITIALIZED)?)
    })
}

/// The device whose context is current.
fn current() -> Answer<usize> {
    CURRENT.with(Cell::get).ok_or(Status::ERROR_INVALID_CONTEXT)
}

fn handle(object: Object) -> Handle {
    object.addr() as Handle
}

fn object(handle: Handle) -> Object {
    std::ptr::without_provenance_mut(handle as usize)
}

/// Stores a result where the caller said.
///
/// # Safety
/// - The address is null, or one of a `T` that may be written.
unsafe fn store<T>(to: *mut T, value: T) -> Answer<()> {
    if to.is_null() {
        return Err(Status::ERROR_INVALID_VALUE);
    }
    // SAFETY: it is not null, so what the caller says.
    unsafe { to.write(value) };
    Ok(())
}

impl State {
    /// The stream that a handle names; null is that of the current device.
    fn stream(&self, stream: Object) -> Answer<Handle> {
        match handle(stream) {
            0..=2 => {
                self.devices.get(current()?).map(|device| device.legacy).ok_or(Status::ERROR_INVALID_CONTEXT)
            }
            other => self.stream_device(other).map(|_| other),
        }
    }

    /// Checks that bytes are in an allocation of a device.
    fn check(&mut self, device: usize, address: u64, bytes: u64) -> Answer<()> {
        let found = self.device(device)?.memory.bytes(address, bytes).map(drop);
        found.map_err(|fault| report(&Fault::new(Status::ERROR_INVALID_VALUE, fault.text)))
    }

    /// Whether bytes of the host are in pinned memory.
    fn is_pinned(&self, range: HostRange) -> bool {
        let found = self.pinned.range(..=range.address).next_back();
        found.is_some_and(|(start, length)| range.address + range.bytes <= start + length)
    }

    fn copy_in(&mut self, to: u64, from: HostRange, stream: Handle) -> Answer<()> {
        let device = self.stream_device(stream)?;
        self.check(device, to, from.bytes as u64)?;
        if self.is_pinned(from) {
            return self.submit(stream, Work::CopyIn { to, from });
        }
        let mut content = vec![0; from.bytes];
        from.read(&mut content);
        self.submit(stream, Work::Write { to, content })
    }

    /// Into memory that is not pinned the copy is done on return.
    fn copy_out(&mut self, from: u64, to: HostRange, stream: Handle) -> Answer<()> {
        let device = self.stream_device(stream)?;
        self.check(device, from, to.bytes as u64)?;
        let is_late = self.is_pinned(to);
        if !is_late {
            self.refuse_in_capture(stream)?;
        }
        self.submit(stream, Work::CopyOut { from, to })?;
        if is_late { Ok(()) } else { self.synchronize_stream(stream) }
    }

    fn copy(&mut self, from: (usize, u64), to: u64, bytes: u64, stream: Handle) -> Answer<()> {
        let device = self.stream_device(stream)?;
        self.check(from.0, from.1, bytes)?;
        self.check(device, to, bytes)?;
        self.submit(stream, Work::Copy { from, to, bytes })
    }

    fn fill(&mut self, to: u64, (value, width): (u32, usize), count: usize, stream: Handle) -> Answer<()> {
        let device = self.stream_device(stream)?;
        self.check(device, to, (count * width) as u64)?;
        self.submit(stream, Work::Fill { to, value, width, count: count as u64 })
    }

    fn legacy(&self) -> Answer<Handle> {
        self.stream(std::ptr::null_mut())
    }
}

fn range(address: *const c_void, bytes: usize) -> HostRange {
    HostRange { address: address.expose_provenance(), bytes }
}

/// Declares functions of the driver. Each has the safety conditions that `cuda.h` states: addresses are null, or may be read or written.
macro_rules! functions {
    ($($name:ident($($arg:ident: $ty:ty),* $(,)?) $body:block)*) => {$(
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, clippy::missing_safety_doc, reason = "the driver's names, and its conditions")]
        pub(in crate::driver) unsafe extern "C" fn $name($($arg: $ty),*) -> Code {
            answer(stringify!($name), || $body)
        }
    )*};
}

/// As `functions!`, of those that use the driver's objects.
macro_rules! functions_of_state {
    ($($name:ident($state:ident $(, $arg:ident: $ty:ty)* $(,)?) $body:block)*) => {$(
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, clippy::missing_safety_doc, reason = "the driver's names, and its conditions")]
        pub(in crate::driver) unsafe extern "C" fn $name($($arg: $ty),*) -> Code {
            with_state(stringify!($name), |$state| $body)
        }
    )*};
}

mod graphs;

/// How many devices the environment shows.
fn visible_devices(settings: &Settings) -> i32 {
    let Ok(list) = std::env::var("CUDA_VISIBLE_DEVICES") else { return settings.devices };
    let is_device =
        |text: &&str| text.trim().parse().is_ok_and(|index: i32| (0..settings.devices).contains(&index));
    list.split(',').take_while(is_device).count() as i32
}

functions! {
    cuInit(flags: c_uint) {
        if flags != 0 {
            return Err(Status::ERROR_INVALID_VALUE);
        }
        let mut settings = Settings::of_environment();
        settings.devices = visible_devices(&settings);
        if settings.devices == 0 {
            return Err(Status::ERROR_NO_DEVICE);
        }
        STATE.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(|| State::new(settings));
        Ok(())
    }

    cuDriverGetVersion(version: *mut c_int) {
        // SAFETY: the condition of the function.
        unsafe { store(version, VERSION) }
    }

    cuGetErrorName(status: c_uint, text: *mut *const c_char) {
        let (name, _) = Status(status).texts().ok_or(Status::ERROR_INVALID_VALUE)?;
        // SAFETY: as above.
        unsafe { store(text, name.as_ptr().cast()) }
    }

    cuGetErrorString(status: c_uint, text: *mut *const c_char) {
        let (_, sentence) = Status(status).texts().ok_or(Status::ERROR_INVALID_VALUE)?;
        // SAFETY: as above.
        unsafe { store(text, sentence.as_ptr().cast()) }
    }

    cuCtxGetCurrent(context: *mut Object) {
        let current = CURRENT.with(Cell::get).map_or(0, |device| CONTEXTS + device as Handle);
        // SAFETY: as above.
        unsafe { store(context, object(current)) }
    }

    cuCtxGetDevice(device: *mut c_int) {
        // SAFETY: as above.
        unsafe { store(device, current()? as c_int) }
    }
}

functions_of_state! {
    cuDeviceGetCount(state, count: *mut c_int) {
        // SAFETY: the condition of the function; this holds for all that follow.
        unsafe { store(count, state.devices.len() as c_int) }
    }

    cuDeviceGet(state, device: *mut c_int, index: c_int) {
        device_index(state, index)?;
        // SAFETY: as above.
        unsafe { store(device, index) }
    }

    cuDeviceGetName(state, name: *mut c_char, length: c_int, device: c_int) {
        device_index(state, device)?;
        let text = c"Stand-in (no GPU)".to_bytes_with_nul();
        let fits = usize::try_from(length).is_ok_and(|length| length >= text.len());
        if name.is_null() || !fits {
            return Err(Status::ERROR_INVALID_VALUE);
        }
        // SAFETY: the caller's buffer has `length` bytes, which are enough.
        unsafe { std::ptr::copy_nonoverlapping(text.as_ptr().cast(), name, text.len()) };
        Ok(())
    }

    cuDeviceGetAttribute(state, value: *mut c_int, attribute: c_uint, device: c_int) {
        device_index(state, device)?;
        let found = attribute_of_device(attribute).ok_or(Status::ERROR_INVALID_VALUE)?;
        // SAFETY: as above.
        unsafe { store(value, found) }
    }

    cuDeviceTotalMem_v2(state, bytes: *mut usize, device: c_int) {
        let index = device_index(state, device)?;
        // SAFETY: as above.
        unsafe { store(bytes, state.devices[index].memory.total() as usize) }
    }

    cuDevicePrimaryCtxRetain(state, context: *mut Object, device: c_int) {
        let index = device_index(state, device)?;
        // SAFETY: as above.
        unsafe { store(context, object(CONTEXTS + index as Handle)) }
    }

    cuDevicePrimaryCtxRelease_v2(state, device: c_int) {
        device_index(state, device).map(drop)
    }

    cuCtxSetCurrent(state, context: Object) {
        let device = match handle(context) {
            0 => None,
            handle => {
                let index = handle.checked_sub(CONTEXTS).map(|index| index as usize);
                Some(index.filter(|index| *index < state.devices.len()).ok_or(Status::ERROR_INVALID_CONTEXT)?)
            }
        };
        CURRENT.with(|current| current.set(device));
        Ok(())
    }

    cuCtxSynchronize(state) {
        let device = current()?;
        state.refuse_waits(device, true)?;
        state.synchronize_device(device)
    }

    cuMemGetInfo_v2(state, free: *mut usize, total: *mut usize) {
        let memory = &state.device(current()?)?.memory;
        // SAFETY: as above.
        unsafe {
            store(free, memory.free_bytes() as usize)?;
            store(total, memory.total() as usize)
        }
    }

    cuMemAlloc_v2(state, address: *mut u64, bytes: usize) {
        if bytes == 0 {
            return Err(Status::ERROR_INVALID_VALUE);
        }
        state.refuse_waits(current()?, false)?;
        let found = state.device(current()?)?.memory.allocate(bytes as u64);
        // SAFETY: as above.
        unsafe { store(address, found.ok_or(Status::ERROR_OUT_OF_MEMORY)?) }
    }

    cuMemFree_v2(state, address: u64) {
        let device = current()?;
        if address == 0 {
            return Ok(());
        }
        state.refuse_waits(device, false)?;
        state.synchronize_device(device)?;
        state.device(device)?.memory.free(address).map_err(|fault| report(&fault))
    }

    cuMemAllocAsync(state, address: *mut u64, bytes: usize, stream: Object) {
        let device = state.stream_device(state.stream(stream)?)?;
        let found = state.device(device)?.memory.allocate(bytes as u64);
        // SAFETY: as above.
        unsafe { store(address, found.ok_or(Status::ERROR_OUT_OF_MEMORY)?) }
    }

    cuMemFreeAsync(state, address: u64, stream: Object) {
        let stream = state.stream(stream)?;
        state.submit(stream, Work::Free { address })
    }

    cuMemHostAlloc(state, address: *mut *mut c_void, bytes: usize, _flags: c_uint) {
        (0..state.devices.len()).try_for_each(|device| state.refuse_waits(device, false))?;
        let pinned = host::allocate(bytes).ok_or(Status::ERROR_OUT_OF_MEMORY)?;
        state.pinned.insert(pinned.addr(), bytes);
        // SAFETY: as above.
        unsafe { store(address, pinned.cast()) }
    }

    cuMemFreeHost(state, address: *mut c_void) {
        let bytes = state.pinned.get(&address.addr()).copied().ok_or(Status::ERROR_INVALID_VALUE)?;
        (0..state.devices.len()).try_for_each(|device| state.refuse_waits(device, false))?;
        (0..state.devices.len()).try_for_each(|device| state.synchronize_device(device))?;
        state.pinned.remove(&address.addr());
        // SAFETY: it was allocated with so many bytes, and no work uses it any more.
        unsafe { host::free(address.cast(), bytes) };
        Ok(())
    }

    cuMemcpyHtoD_v2(state, to: u64, from: *const c_void, bytes: usize) {
        let stream = state.legacy()?;
        state.copy_in(to, range(from, bytes), stream)
    }

    cuMemcpyHtoDAsync_v2(state, to: u64, from: *const c_void, bytes: usize, stream: Object) {
        let stream = state.stream(stream)?;
        state.copy_in(to, range(from, bytes), stream)
    }

    cuMemcpyDtoH_v2(state, to: *mut c_void, from: u64, bytes: usize) {
        let stream = state.legacy()?;
        state.copy_out(from, range(to, bytes), stream)
    }

    cuMemcpyDtoHAsync_v2(state, to: *mut c_void, from: u64, bytes: usize, stream: Object) {
        let stream = state.stream(stream)?;
        state.copy_out(from, range(to, bytes), stream)
    }

    cuMemcpyDtoD_v2(state, to: u64, from: u64, bytes: usize) {
        let (device, stream) = (current()?, state.legacy()?);
        state.copy((device, from), to, bytes as u64, stream)
    }

    cuMemcpyDtoDAsync_v2(state, to: u64, from: u64, bytes: usize, stream: Object) {
        let stream = state.stream(stream)?;
        let device = state.stream_device(stream)?;
        state.copy((device, from), to, bytes as u64, stream)
    }

    cuMemcpyPeerAsync(state, to: u64, to_context: Object, from: u64, from_context: Object, bytes: usize, stream: Object) {
        // The stream may be of either device; the copy is work of the one that gets the bytes.
        let (source, target) = (context_device(state, from_context)?, context_device(state, to_context)?);
        let stream = state.stream(stream)?;
        state.synchronize_stream(stream)?;
        let legacy = state.devices[target].legacy;
        state.copy((source, from), to, bytes as u64, legacy)
    }

    cuMemsetD8_v2(state, to: u64, value: u8, count: usize) {
        let stream = state.legacy()?;
        state.fill(to, (value.into(), 1), count, stream)
    }

    cuMemsetD8Async(state, to: u64, value: u8, count: usize, stream: Object) {
        let stream = state.stream(stream)?;
        state.fill(to, (value.into(), 1), count, stream)
    }

    cuMemsetD32Async(state, to: u64, value: c_uint, count: usize, stream: Object) {
        let stream = state.stream(stream)?;
        state.fill(to, (value, 4), count, stream)
    }

    cuStreamCreate(state, stream: *mut Object, _flags: c_uint) {
        let device = current()?;
        state.device(device)?;
        let handle = state.create_stream(device);
        // SAFETY: as above.
        unsafe { store(stream, object(handle)) }
    }

    cuStreamDestroy_v2(state, stream: Object) {
        state.destroy_stream(handle(stream))
    }

    cuStreamSynchronize(state, stream: Object) {
        let stream = state.stream(stream)?;
        state.synchronize_stream(stream)
    }

    cuStreamQuery(state, stream: Object) {
        let stream = state.stream(stream)?;
        state.poll(stream)?;
        if state.is_idle(stream)? { Ok(()) } else { Err(Status::ERROR_NOT_READY) }
    }

    cuStreamWaitEvent(state, stream: Object, event: Object, _flags: c_uint) {
        let stream = state.stream(stream)?;
        state.wait_event(stream, handle(event))
    }

    cuEventCreate(state, event: *mut Object, _flags: c_uint) {
        state.device(current()?)?;
        let handle = state.create_event();
        // SAFETY: as above.
        unsafe { store(event, object(handle)) }
    }

    cuEventDestroy_v2(state, event: Object) {
        state.destroy_event(handle(event))
    }

    cuEventRecord(state, event: Object, stream: Object) {
        let stream = state.stream(stream)?;
        state.record(handle(event), stream)
    }

    cuEventSynchronize(state, event: Object) {
        state.device(current()?)?;
        state.synchronize_event(handle(event))
    }

    cuEventQuery(state, event: Object) {
        state.poll_event(handle(event))?;
        if state.has_passed(handle(event))? { Ok(()) } else { Err(Status::ERROR_NOT_READY) }
    }

    cuEventElapsedTime(state, milliseconds: *mut f32, start: Object, end: Object) {
        let time = state.milliseconds(handle(start), handle(end))?;
        // SAFETY: as above.
        unsafe { store(milliseconds, time) }
    }

    cuModuleLoadData(state, module: *mut Object, image: *const c_void) {
        // SAFETY: as above.
        unsafe { load(state, module, image) }
    }

    cuModuleLoadDataEx(state, module: *mut Object, image: *const c_void, _count: c_uint, _options: *mut c_uint, _values: *mut *mut c_void) {
        // SAFETY: as above.
        unsafe { load(state, module, image) }
    }

    cuModuleUnload(state, module: Object) {
        state.unload(handle(module))
    }

    cuModuleGetFunction(state, function: *mut Object, module: Object, name: *const c_char) {
        // SAFETY: as above.
        let name = unsafe { text(name) }?;
        let found = state.find_function(handle(module), name)?;
        // SAFETY: as above.
        unsafe { store(function, object(found)) }
    }

    cuModuleGetGlobal_v2(state, address: *mut u64, bytes: *mut usize, module: Object, name: *const c_char) {
        // SAFETY: as above.
        let name = unsafe { text(name) }?;
        let found = state.module(handle(module))?.variables.get(name).copied();
        let (start, length) = found.ok_or(Status::ERROR_NOT_FOUND)?;
        // SAFETY: as above.
        unsafe {
            store(address, start)?;
            store(bytes, length as usize)
        }
    }

    cuFuncGetAttribute(state, value: *mut c_int, attribute: c_uint, function: Object) {
        let function = state.function(handle(function))?;
        let found = match attribute {
            0 => function.max_threads() as c_int,
            1 => function.shared_bytes() as c_int,
            _ => return Err(Status::ERROR_INVALID_VALUE),
        };
        // SAFETY: as above.
        unsafe { store(value, found) }
    }

    cuFuncSetAttribute(state, function: Object, _attribute: c_uint, _value: c_int) {
        state.function(handle(function)).map(drop)
    }
}

/// # Safety
/// - As those of the driver's functions.
unsafe fn text<'a>(text: *const c_char) -> Answer<&'a str> {
    if text.is_null() {
        return Err(Status::ERROR_INVALID_VALUE);
    }
    // SAFETY: it is not null, so it ends with a zero byte.
    unsafe { CStr::from_ptr(text) }.to_str().map_err(|_| Status::ERROR_INVALID_VALUE)
}

/// Loads PTX. Machine code is refused, which has a caller offer the PTX.
///
/// # Safety
/// - The image is text that ends with a zero byte, or begins with the four bytes of an ELF file.
unsafe fn load(state: &mut State, module: *mut Object, image: *const c_void) -> Answer<()> {
    const ELF: [u8; 4] = *b"\x7fELF";
    if image.is_null() {
        return Err(Status::ERROR_INVALID_VALUE);
    }
    // SAFETY: not null, so there is a byte; each that is read follows one that is not the zero byte.
    let is_code = (0..4).all(|i| unsafe { image.cast::<u8>().add(i).read() } == ELF[i]);
    if is_code {
        return Err(Status::ERROR_NO_BINARY_FOR_GPU);
    }
    // SAFETY: the condition above.
    let source = unsafe { text(image.cast()) }?;
    state.refuse_waits(current()?, false)?;
    let loaded = state.load(current()?, source)?;
    // SAFETY: as above.
    unsafe { store(module, object(loaded)) }
}

fn device_index(state: &State, device: c_int) -> Answer<usize> {
    let index = usize::try_from(device).ok().filter(|index| *index < state.devices.len());
    index.ok_or(Status::ERROR_INVALID_DEVICE)
}

fn context_device(state: &State, context: Object) -> Answer<usize> {
    let index = handle(context).checked_sub(CONTEXTS).map(|index| index as usize);
    index.filter(|index| *index < state.devices.len()).ok_or(Status::ERROR_INVALID_CONTEXT)
}

/// The attributes of a device of compute capability 9.0, by their numbers in `cuda.h`.
fn attribute_of_device(attribute: c_uint) -> Option<c_int> {
    Some(match attribute {
        1 => 1024,      // threads per block
        2 | 3 => 1024,  // size of a block, x and y
        4 => 64,        // size of a block, z
        5 => i32::MAX,  // size of a grid, x
        6 | 7 => 65535, // size of a grid, y and z
        8 => 48 << 10,  // shared memory per block
        10 => 32,       // threads of a warp
        16 => 4,        // multiprocessors
        39 => 2048,     // threads per multiprocessor
        41 => 1,        // unified addresses
        75 => 9,        // compute capability
        76 => 0,
        81 => 228 << 10, // shared memory per multiprocessor
        97 => 227 << 10, // shared memory per block at most
        _ => return None,
    })
}

/// The parameters of a launch as a kernel reads them.
///
/// # Safety
/// - There are as many addresses as the kernel has parameters, each of as many bytes as the parameter has.
unsafe fn gather(state: &State, function: Handle, addresses: *mut *mut c_void) -> Answer<Vec<u8>> {
    let function = state.function(function)?;
    let mut all = vec![0u8; function.parameter_bytes()];
    for (i, (offset, bytes)) in function.parameters().into_iter().enumerate() {
        if addresses.is_null() {
            return Err(Status::ERROR_INVALID_VALUE);
        }
        // SAFETY: the condition above.
        let from = unsafe { addresses.add(i).read() };
        if from.is_null() {
            return Err(Status::ERROR_INVALID_VALUE);
        }
        range(from, bytes).read(&mut all[offset..offset + bytes]);
    }
    Ok(all)
}

#[unsafe(no_mangle)]
#[allow(
    non_snake_case,
    clippy::missing_safety_doc,
    clippy::too_many_arguments,
    reason = "the driver's function"
)]
unsafe extern "C" fn cuLaunchKernel(
    function: Object,
    grid_x: c_uint,
    grid_y: c_uint,
    grid_z: c_uint,
    block_x: c_uint,
    block_y: c_uint,
    block_z: c_uint,
    shared_bytes: c_uint,
    stream: Object,
    parameters: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> Code {
    with_state("cuLaunchKernel", |state| {
        if !extra.is_null() {
            return Err(Status::ERROR_NOT_SUPPORTED);
        }
        // SAFETY: the condition of the driver's function.
        let parameters = unsafe { gather(state, handle(function), parameters) }?;
        let function = state.function(handle(function))?.clone();
        let launch = Launch {
            grid: [grid_x, grid_y, grid_z],
            block: [block_x, block_y, block_z],
            dynamic_shared: shared_bytes,
            parameters,
        };
        function.check(&launch).map_err(|fault| report(&fault))?;
        let stream = state.stream(stream)?;
        if state.stream_device(stream)? != function.module.device {
            return Err(Status::ERROR_INVALID_HANDLE);
        }
        state.submit(stream, Work::Launch { function, launch })
    })
}

/// Has the n-th call of a function from now on fail, once; for tests, which find it by its name. 0 for none.
#[unsafe(no_mangle)]
unsafe extern "C" fn flambeau_standin_fail_at(name: *const c_char, number: c_uint) -> Code {
    // SAFETY: the caller gives a text that ends with a zero byte.
    code(unsafe { text(name) }.map(|name| settings::fail_at(name, number.into())))
}

/// How often a function was called since `flambeau_standin_fail_at` was called last; of a name that is empty, all live allocations of all
/// devices, pinned memory, streams, events and modules.
#[unsafe(no_mangle)]
unsafe extern "C" fn flambeau_standin_count(name: *const c_char) -> u64 {
    // SAFETY: as above.
    match unsafe { text(name) } {
        Ok("") => {
            let state = STATE.lock().unwrap_or_else(PoisonError::into_inner);
            let count = |state: &State| {
                let of_devices = state.devices.iter().map(|device| device.memory.count());
                of_devices.sum::<usize>() + state.pinned.len() + state.objects()
            };
            state.as_ref().map_or(0, count) as u64
        }
        Ok(name) => {
            settings::counts().into_iter().find(|(known, _)| *known == name).map_or(0, |(_, count)| count)
        }
        Err(_) => 0,
    }
}
