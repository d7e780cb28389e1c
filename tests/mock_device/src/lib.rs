//! Two devices, `mock:0` and `mock:1`, whose memory the host cannot access: pointers to it are to pages mapped with `PROT_NONE`.
//!
//! It uses the public API only, and nothing in the library knows of it. It has memory, a function for bytes to
//! come and go, and no kernel of its own: operators run on the host, by the library's fallback.

#[cfg(target_os = "linux")]
mod memory;

#[cfg(target_os = "linux")]
mod hooks {
    use crate::memory::{Arena, Memory};
    use flambeau::core::backend::{Backend, DeviceHooks};
    use flambeau::core::{Allocator, Device, DeviceType, DispatchKey, ErrorKind, Result, ensure};
    use flambeau::cpu_fallback::CpuFallback;
    use flambeau::dispatch::BoxedRegistration;
    use std::cell::Cell;
    use std::sync::OnceLock;

    const COUNT: usize = 2;

    inventory::submit!(Backend::new(DeviceType::PrivateUse1, "mock", start));
    inventory::submit!(BoxedRegistration::fallback(DispatchKey::PrivateUse1, &CpuFallback));

    struct Hooks(&'static Memory<COUNT>);

    fn start() -> Result<&'static dyn DeviceHooks> {
        static HOOKS: OnceLock<Hooks> = OnceLock::new();
        let memory = Memory::new([Arena::new()?, Arena::new()?], current);
        Ok(HOOKS.get_or_init(|| Hooks(memory)))
    }

    thread_local! {
        static CURRENT: Cell<usize> = const { Cell::new(0) };
    }

    fn current() -> usize {
        CURRENT.with(Cell::get)
    }

    impl DeviceHooks for Hooks {
        fn device_count(&self) -> usize {
            COUNT
        }

        fn current_device(&self) -> usize {
            current()
        }

        fn set_current_device(&self, index: usize) -> Result<()> {
            ensure!(index < COUNT, Device, "mock: expected one of {COUNT} devices but got {index}");
            CURRENT.with(|current| current.set(index));
            Ok(())
        }

        fn allocator(&self) -> &'static dyn Allocator {
            self.0
        }

        #[expect(unsafe_code, reason = "copies bytes between the host and pages that stand for a device's")]
        unsafe fn copy(&self, from: (Device, *const u8), to: (Device, *mut u8), bytes: usize) -> Result<()> {
            let source = self.host_address(from.0, from.1.cast_mut(), bytes)?;
            let target = self.host_address(to.0, to.1, bytes)?;
            // SAFETY: both ranges were found to be the host's, or inside the pages of the device that they are said to be on; `copy`
            // (valid), (quiet).
            unsafe { std::ptr::copy_nonoverlapping(source.cast_const(), target, bytes) };
            Ok(())
        }
    }

    impl Hooks {
        /// Where the host sees bytes of a device.
        fn host_address(&self, device: Device, data: *mut u8, bytes: usize) -> Result<*mut u8> {
            if device.is_cpu() {
                return Ok(data);
            }
            let arena = device.index().and_then(|index| self.0.arenas.get(index));
            let seen = arena.and_then(|arena| arena.host_address(data, bytes));
            seen.ok_or_else(|| {
                flambeau::Error::new(ErrorKind::Device, format!("mock: {bytes} bytes are not on {device}"))
            })
        }
    }
}
