//! Operators without a kernel: an error that names them, or the host where the environment says so.

use flambeau_core::{DispatchKey, Result, bail};
use flambeau_ops::cpu_fallback::CpuFallback;
use flambeau_ops::dispatch::{BoxedKernel, BoxedRegistration, Call, Value};
use std::sync::LazyLock;

inventory::submit!(BoxedRegistration::fallback(DispatchKey::Cuda, &OnHostIfRequested));

/// The variable that has operators without a kernel run on the host.
const VARIABLE: &str = "FLAMBEAU_CUDA_FALLBACK";

struct OnHostIfRequested;

impl BoxedKernel for OnHostIfRequested {
    fn call(&self, call: &Call<'_>) -> Result<Vec<Value>> {
        static REQUESTED: LazyLock<bool> =
            LazyLock::new(|| std::env::var(VARIABLE).is_ok_and(|value| value == "1"));
        if !*REQUESTED {
            let name = call.operator.name();
            bail!(
                NotImplemented(name),
                "there is no kernel for cuda; {VARIABLE}=1 in the environment runs it on the host"
            );
        }
        CpuFallback.call(call)
    }
}
