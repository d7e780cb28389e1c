//! The C functions of captures and graphs.
#![expect(unsafe_code, reason = "the functions of a C interface take addresses")]

use super::{Code, Object, handle, object, store, with_state};
use crate::fault::Status;
use std::ffi::{c_uint, c_ulonglong};

/// The mode of a capture that calls which may wait for the device do not affect.
const RELAXED: c_uint = 2;

functions_of_state! {
    cuStreamBeginCapture_v2(state, stream: Object, mode: c_uint) {
        if mode > RELAXED {
            return Err(Status::ERROR_INVALID_VALUE);
        }
        let stream = state.stream(stream)?;
        state.begin_capture(stream, mode == RELAXED)
    }

    cuStreamEndCapture(state, stream: Object, graph: *mut Object) {
        let stream = state.stream(stream)?;
        // SAFETY: the condition of the function; this holds for all that follow.
        unsafe { store(graph, std::ptr::null_mut()) }?;
        let captured = state.end_capture(stream)?;
        // SAFETY: as above.
        unsafe { store(graph, object(captured)) }
    }

    cuGraphInstantiateWithFlags(state, executable: *mut Object, graph: Object, _flags: c_ulonglong) {
        let made = state.instantiate(handle(graph))?;
        // SAFETY: as above.
        unsafe { store(executable, object(made)) }
    }

    cuGraphLaunch(state, executable: Object, stream: Object) {
        let stream = state.stream(stream)?;
        state.launch_graph(handle(executable), stream)
    }

    cuGraphDestroy(state, graph: Object) {
        state.destroy_graph(handle(graph))
    }

    cuGraphExecDestroy(state, executable: Object) {
        state.destroy_executable(handle(executable))
    }
}
