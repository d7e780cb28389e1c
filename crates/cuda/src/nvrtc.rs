//! NVRTC, which compiles CUDA C++ to the machine code of a device.
#![expect(unsafe_code, reason = "calls NVRTC")]

use crate::library::{find, functions};
use cudarc::nvrtc::sys::{nvrtcProgram, nvrtcResult};
use flambeau_core::{Error, ErrorKind, Result, bail, error};
use std::ffi::{CString, c_char};
use std::ptr;
use std::sync::OnceLock;

functions! {
    cudarc::nvrtc::sys {
        nvrtcVersion,
        nvrtcCreateProgram,
        nvrtcDestroyProgram,
        nvrtcCompileProgram,
        nvrtcGetProgramLogSize,
        nvrtcGetProgramLog,
        nvrtcGetCUBINSize,
        nvrtcGetCUBIN,
        nvrtcGetPTXSize,
        nvrtcGetPTX,
    }
}

/// NVRTC and its version.
pub(crate) struct Nvrtc {
    /// As `(13, 0)`.
    pub(crate) version: (i32, i32),
}

/// What a compilation gives: an image or two, the one that is tried first in front.
///
/// Machine code is for exactly the architecture that was named. PTX, with a zero byte behind it, is for that and later ones, by a driver that
/// is no older than NVRTC.
pub(crate) type Images = Vec<Vec<u8>>;

/// Whether programs are compiled to PTX alone, which the driver compiles: by the variable that NVIDIA's driver has for this too.
fn is_ptx_forced() -> bool {
    std::env::var("CUDA_FORCE_PTX_JIT").is_ok_and(|value| value == "1")
}

/// What every program is compiled with. Without contraction of `a * b + c`, which the host does not do either; division and roots are
/// correctly rounded, and denormal numbers stay.
const OPTIONS: [&str; 3] = ["--std=c++17", "--fmad=false", "--device-as-default-execution-space"];

/// Leaves out what no program uses, such as textures and launches from the device: the same machine code, sooner. Older versions refuse it.
const MINIMAL: &str = "--minimal";

/// The first version that has it.
const FIRST_WITH_MINIMAL: (i32, i32) = (12, 4);

/// The names under which NVRTC is installed, newest first.
const NAMES: [&str; 3] = ["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"];

/// NVRTC, opened by the first call.
///
/// # Errors
/// `Device` where it is not installed: the same each time.
pub(crate) fn nvrtc() -> Result<&'static Nvrtc> {
    static NVRTC: OnceLock<Result<Nvrtc, (ErrorKind, String)>> = OnceLock::new();
    let found = NVRTC.get_or_init(|| open().map_err(|error| (error.kind(), error.to_string())));
    found.as_ref().map_err(|(kind, message)| Error::new(*kind, message.clone()))
}

fn open() -> Result<Nvrtc> {
    let library = find(&NAMES).ok_or_else(|| {
        error!(
            Device,
            "expected NVRTC, which compiles kernels for CUDA devices, but {} was not found; `pip install \
             nvidia-cuda-nvrtc` installs it, and FLAMBEAU_CUDA_PATH names the folder that has it",
            NAMES.join(" and ")
        )
    })?;
    library.check(&FUNCTIONS)?;
    let (mut major, mut minor) = (0, 0);
    // SAFETY: the function writes two integers.
    check(unsafe { nvrtcVersion(&raw mut major, &raw mut minor) }, "nvrtcVersion")?;
    Ok(Nvrtc { version: (major, minor) })
}

fn check(status: nvrtcResult, function: &str) -> Result<()> {
    if status != nvrtcResult::NVRTC_SUCCESS {
        bail!(Device, "cuda: {function} failed with {status:?} ({})", status as u32);
    }
    Ok(())
}

/// A program, destroyed when dropped.
struct Program {
    handle: nvrtcProgram,
}

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: the program was created, and nobody uses it any more.
        let _ = unsafe { nvrtcDestroyProgram(&raw mut self.handle) };
    }
}

type SizeFunction = unsafe fn(nvrtcProgram, *mut usize) -> nvrtcResult;
type GetFunction = unsafe fn(nvrtcProgram, *mut c_char) -> nvrtcResult;

impl Program {
    /// The bytes that a pair of functions gives.
    fn bytes(&self, size: SizeFunction, get: GetFunction, name: &str) -> Result<Vec<u8>> {
        let mut bytes = 0;
        // SAFETY: the program exists, and the function writes one integer.
        check(unsafe { size(self.handle, &raw mut bytes) }, name)?;
        let mut image = vec![0u8; bytes];
        // SAFETY: as above, and it writes as many bytes as the other function said.
        check(unsafe { get(self.handle, image.as_mut_ptr().cast()) }, name)?;
        Ok(image)
    }

    /// What the compiler says.
    fn log(&self) -> Result<String> {
        let log = self.bytes(nvrtcGetProgramLogSize, nvrtcGetProgramLog, "nvrtcGetProgramLog")?;
        Ok(String::from_utf8_lossy(&log).trim_end_matches('\0').to_owned())
    }
}

impl Nvrtc {
    /// What the image of a program depends on beside its source.
    pub(crate) fn settings(&self, capability: (i32, i32)) -> String {
        let (major, minor) = self.version;
        format!("nvrtc {major}.{minor} {} {}", architecture(capability), self.options().join(" "))
    }

    /// What every program is compiled with by this version.
    fn options(&self) -> Vec<&'static str> {
        let minimal = (self.version >= FIRST_WITH_MINIMAL).then_some(MINIMAL);
        OPTIONS.into_iter().chain(minimal).collect()
    }

    /// A program that is compiled for devices of a compute capability.
    ///
    /// # Errors
    /// `Internal` where it does not compile, with the compiler's messages.
    fn compiled(&self, source: &str, capability: (i32, i32), more: &[&str]) -> Result<Program> {
        let text = CString::new(source).map_err(|_| error!(Internal, "cuda: a program has a zero byte"))?;
        let mut program = Program { handle: ptr::null_mut() };
        // SAFETY: the texts are terminated, and there are no headers.
        let status = unsafe {
            nvrtcCreateProgram(
                &raw mut program.handle,
                text.as_ptr(),
                c"flambeau.cu".as_ptr(),
                0,
                ptr::null(),
                ptr::null(),
            )
        };
        check(status, "nvrtcCreateProgram")?;
        let target = format!("--gpu-architecture={}", architecture(capability));
        let options = self.options().into_iter().chain(more.iter().copied()).chain([target.as_str()]);
        let options: Vec<CString> = options.filter_map(|option| CString::new(option).ok()).collect();
        let pointers: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
        // SAFETY: the program exists, and the options are terminated.
        let status = unsafe { nvrtcCompileProgram(program.handle, pointers.len() as i32, pointers.as_ptr()) };
        if status != nvrtcResult::NVRTC_SUCCESS {
            bail!(
                Internal,
                "cuda: a kernel does not compile for {}: {}",
                architecture(capability),
                program.log()?
            );
        }
        Ok(program)
    }

    /// Compiles a program for devices of a compute capability.
    ///
    /// # Errors
    /// `Internal` where it does not compile, with the compiler's messages.
    pub(crate) fn compile(&self, source: &str, capability: (i32, i32)) -> Result<Images> {
        let program = self.compiled(source, capability, &[])?;
        let mut images = Images::new();
        if !is_ptx_forced() {
            images.push(program.bytes(nvrtcGetCUBINSize, nvrtcGetCUBIN, "nvrtcGetCUBIN")?);
        }
        let mut ptx = program.bytes(nvrtcGetPTXSize, nvrtcGetPTX, "nvrtcGetPTX")?;
        ptx.push(0);
        images.push(ptx);
        Ok(images)
    }

    /// The registers of a thread of each kernel of a program, and the bytes of its stack in local memory, by the kernel's name.
    ///
    /// # Errors
    /// As for [`compile`](Self::compile), and `Internal` where the compiler does not say.
    pub(crate) fn resources(
        &self,
        source: &str,
        capability: (i32, i32),
    ) -> Result<Vec<(String, (u32, u32))>> {
        let log = self.compiled(source, capability, &["--ptxas-options=-v"])?.log()?;
        let of_kernel = |text: &str| {
            let (name, text) = text.split_once('\'')?;
            let numbers = (number_before(text, " registers")?, number_before(text, " bytes stack frame")?);
            Some((name.to_owned(), numbers))
        };
        let found: Option<Vec<_>> = log.split("Compiling entry function '").skip(1).map(of_kernel).collect();
        match found {
            Some(kernels) if !kernels.is_empty() => Ok(kernels),
            _ => bail!(Internal, "cuda: the compiler does not say what a kernel needs: {log}"),
        }
    }
}

/// The number that stands before a text.
fn number_before(log: &str, text: &str) -> Option<u32> {
    let before = &log[..log.find(text)?];
    before.rsplit(|character: char| !character.is_ascii_digit()).next()?.parse().ok()
}

fn architecture((major, minor): (i32, i32)) -> String {
    format!("{}_{major}{minor}", if is_ptx_forced() { "compute" } else { "sm" })
}
