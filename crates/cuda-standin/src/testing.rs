//! For the tests of this crate: a device without the driver around it.

use crate::exec::{self, Environment, Launch};
pub use crate::fault::{Fault, Status};
use crate::instruction::Program;
use crate::memory::Memory;
use crate::ptx;
use crate::settings::Order;

/// A device that runs each launch at once.
#[derive(Debug)]
pub struct Simulator {
    memory: Memory,
    order: Order,
    races: bool,
    steps: u64,
}

/// A decoded program.
#[derive(Debug)]
pub struct Module(Program);

impl Simulator {
    /// A device: the seed of its order, and whether unordered accesses to shared memory are faults.
    pub fn new(seed: u64, races: bool) -> Self {
        Simulator { memory: Memory::new(1 << 30, 0), order: Order::new(seed), races, steps: 1 << 32 }
    }

    /// The same device, on which a launch is taken to run forever after so many instructions of a warp.
    #[must_use]
    pub fn with_steps(self, steps: u64) -> Self {
        Simulator { steps, ..self }
    }

    /// An allocation that holds these bytes.
    ///
    /// # Errors
    /// Without memory.
    pub fn upload(&mut self, content: &[u8]) -> Result<u64, Fault> {
        let bytes = content.len() as u64;
        let no_memory = || Fault::new(Status::ERROR_OUT_OF_MEMORY, "no memory");
        let address = self.memory.allocate(bytes).ok_or_else(no_memory)?;
        self.memory.bytes_mut(address, bytes)?.copy_from_slice(content);
        Ok(address)
    }

    /// Bytes of an allocation.
    ///
    /// # Errors
    /// Outside of live allocations.
    pub fn download(&self, address: u64, bytes: u64) -> Result<Vec<u8>, Fault> {
        self.memory.bytes(address, bytes).map(<[u8]>::to_vec)
    }

    /// Takes an allocation back.
    ///
    /// # Errors
    /// For an address that is not one of a live allocation.
    pub fn free(&mut self, address: u64) -> Result<(), Fault> {
        self.memory.free(address)
    }

    /// Decodes a program.
    ///
    /// # Errors
    /// What is not known, with its line.
    pub fn load(&mut self, source: &str) -> Result<Module, String> {
        let memory = &mut self.memory;
        let mut allocate = |variable: &ptx::GlobalVariable| {
            let bytes = variable.content.len() as u64;
            let address = memory.allocate(bytes).ok_or("no memory")?;
            memory.bytes_mut(address, bytes).map_err(|fault| fault.text)?.copy_from_slice(&variable.content);
            Ok(address)
        };
        ptx::parse(source, &mut allocate).map(Module)
    }

    /// Runs the first kernel of a program; parameters are of eight bytes each.
    ///
    /// # Errors
    /// What a thread does wrong.
    pub fn launch(
        &mut self,
        module: &Module,
        blocks: u32,
        threads: u32,
        parameters: &[u64],
    ) -> Result<(), Fault> {
        let parameters = parameters.iter().flat_map(|value| value.to_le_bytes()).collect();
        let launch = Launch { grid: [blocks, 1, 1], block: [threads, 1, 1], dynamic_shared: 0, parameters };
        let no_kernel = || Fault::new(Status::ERROR_NOT_FOUND, "a program without kernels");
        let kernel = module.0.kernels.first().ok_or_else(no_kernel)?;
        let (memory, order) = (&mut self.memory, &mut self.order);
        let on = Environment { memory, order, races: self.races, steps: self.steps, files: &mut Vec::new() };
        exec::run(&module.0, kernel, &launch, on)
    }
}

impl Module {
    /// The number of instructions and of registers.
    pub fn size(&self) -> (usize, usize) {
        let registers = &self.0.registers;
        let count = [registers.narrow, registers.wide, registers.predicates].map(usize::from);
        (self.0.code.len(), count.iter().sum())
    }
}
