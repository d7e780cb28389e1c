//! `x.to(..)`, whose overloads are read by hand: a device may stand first without a dtype behind it.

use crate::arguments::{
    Arguments, Overload, Parameter, Signature, boolean, device, dtype, memory_format, tensor,
};
use crate::binding::Binding;
use crate::call::entry;
use flambeau_ops::ops;
use pyo3::prelude::*;

pub(crate) static BINDINGS: &[Binding] = &[Binding {
    signature: &TO,
    module: "",
    doc: "With elements of another type, on another device or in another order; itself where nothing changes.",
    entry: entry!(TO),
}];

const WAIT: Parameter = boolean("non_blocking").or("False");
const COPY: Parameter = boolean("copy").or("False");
const FORMAT: Parameter = memory_format("memory_format").by_keyword().or("None");

fn flag(a: &Arguments<'_, '_>, index: usize) -> PyResult<bool> {
    a.given(index, Arguments::boolean).map(|given| given == Some(true))
}

static TO: Signature = Signature {
    name: "to",
    overloads: &[
        Overload {
            parameters: &[
                tensor("input"),
                device("device").or("None"),
                dtype("dtype").or("None"),
                WAIT,
                COPY,
                FORMAT,
            ],
            receiver: Some(0),
            function: false,
            call: |a| {
                let (input, device, dtype) =
                    (a.tensor(0)?, a.given(1, Arguments::device)?, a.given(2, Arguments::dtype)?);
                let (wait, copy) = (flag(a, 3)?, flag(a, 4)?);
                let format = a.given(5, Arguments::memory_format)?;
                a.returns(|| ops::to_dtype_layout(&input, dtype, None, device, None, wait, copy, format))
            },
        },
        Overload {
            parameters: &[tensor("input"), dtype("dtype"), WAIT, COPY, FORMAT],
            receiver: Some(0),
            function: false,
            call: |a| {
                let (input, dtype) = (a.tensor(0)?, a.dtype(1)?);
                let (wait, copy) = (flag(a, 2)?, flag(a, 3)?);
                let format = a.given(4, Arguments::memory_format)?;
                a.returns(|| ops::to_dtype(&input, dtype, wait, copy, format))
            },
        },
        Overload {
            parameters: &[tensor("input"), tensor("other"), WAIT, COPY, FORMAT],
            receiver: Some(0),
            function: false,
            call: |a| {
                let (input, other) = (a.tensor(0)?, a.tensor(1)?);
                let (wait, copy) = (flag(a, 2)?, flag(a, 3)?);
                let format = a.given(4, Arguments::memory_format)?;
                a.returns(|| ops::to_other(&input, &other, wait, copy, format))
            },
        },
    ],
};
