//! Kinds of devices that are registered while the program runs, beside one that is linked; and calls that fall back, in a profile.
#![cfg(target_os = "linux")]
#![allow(unsafe_code, reason = "copies bytes between devices whose memory is the host's")]

use flambeau::core::allocator::{MemoryStats, allocator_for};
use flambeau::core::backend::{DeviceHooks, register_device};
use flambeau::core::{Allocator, DataPtr, DeviceType, DispatchKey};
use flambeau::profiler::{Options, Profiler};
use flambeau::{Device, ErrorKind, Result, Tensor, cpu_fallback};
use flambeau_mock_device as _;

/// Two devices, whose memory is the host's, which guards refuse nevertheless.
struct Hooks;

impl DeviceHooks for Hooks {
    fn device_count(&self) -> usize {
        2
    }

    fn current_device(&self) -> usize {
        1
    }

    fn set_current_device(&self, _: usize) -> Result<()> {
        Ok(())
    }

    fn allocator(&self) -> &'static dyn Allocator {
        &Memory
    }

    unsafe fn copy(&self, from: (Device, *const u8), to: (Device, *mut u8), bytes: usize) -> Result<()> {
        // SAFETY: (valid), (quiet) of this function; all addresses are the host's.
        unsafe { std::ptr::copy_nonoverlapping(from.1, to.1, bytes) };
        Ok(())
    }
}

struct Memory;

impl Allocator for Memory {
    fn allocate(&self, bytes: usize) -> Result<DataPtr> {
        allocator_for(DeviceType::Cpu)?.allocate(bytes)
    }

    fn allocate_zeroed(&self, bytes: usize) -> Result<DataPtr> {
        allocator_for(DeviceType::Cpu)?.allocate_zeroed(bytes)
    }

    unsafe fn copy(&self, from: *const u8, to: *mut u8, bytes: usize) -> Result<()> {
        // SAFETY: the conditions of this function.
        unsafe { std::ptr::copy_nonoverlapping(from, to, bytes) };
        Ok(())
    }

    fn memory_stats(&self) -> MemoryStats {
        MemoryStats::default()
    }

    fn reset_peak(&self) {}

    fn empty_cache(&self) {}
}

#[test]
fn kinds_take_the_free_slots_and_names_are_unique() -> Result<()> {
    let error = register_device("mock", &Hooks).unwrap_err();
    let message = error.to_string();
    assert!(message.contains("mock_device/src/lib.rs:") && message.contains("registration.rs:"), "{message}");
    assert!(["cpu", "cuda", "meta", "", "a:b"].iter().all(|name| register_device(name, &Hooks).is_err()));

    let npu = register_device("npu", &Hooks)?;
    assert_eq!(npu, DeviceType::PrivateUse2);
    cpu_fallback::enable(DispatchKey::dense(npu));
    let x = Tensor::from([[1.0f32, 2.0], [3.0, 4.0]]).to("npu:0".parse::<Device>()?)?;
    let y = x.matmul(&x)?.sum()?;
    assert_eq!((y.device().to_string().as_str(), y.item::<f32>()?), ("npu:0", 54.0));
    assert_eq!(Tensor::ones(&[1], "npu".parse::<Device>()?)?.device().to_string(), "npu:1");
    assert_eq!(x.accessor::<f32, 2>().map(drop).unwrap_err().kind(), ErrorKind::Device);
    // To the other kind, through the host.
    let there = x.to(Device::CPU)?.to("mock:1".parse::<Device>()?)?;
    assert_eq!(there.to_vec2::<f32>()?, x.to_vec2::<f32>()?);
    assert!(x.add(&there).is_err());

    assert_eq!(register_device("tpu", &Hooks)?, DeviceType::PrivateUse3);
    let message = register_device("fourth", &Hooks).unwrap_err().to_string();
    assert!(["mock from", "npu from", "tpu from"].iter().all(|taken| message.contains(taken)), "{message}");
    Ok(())
}

#[test]
fn a_profile_shows_what_fell_back() -> Result<()> {
    let x = Tensor::ones(&[3], "mock:0".parse::<Device>()?)?;
    let session = Profiler::start(Options::default())?;
    x.exp()?;
    let profile = session.stop();
    let averages = profile.key_averages(false);
    let count =
        |name: &str| averages.iter().find(|average| average.name == name).map(|average| average.count);
    // Another test of the process may fall back meanwhile.
    assert!(count("exp").is_some() && count("cpu_fallback").is_some());
    Ok(())
}
