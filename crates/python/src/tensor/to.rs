//! `x.to(..)`, whose overloads are read by hand: a device may stand first without a dtype behind it.

use crate::arguments::{Overload, Parameter, Signature, boolean, device, dtype, memory_format, tensor};
use crate::call::{Binding, method};
use flambeau_ops::ops;

pub(crate) static BINDINGS: &[Binding] = &[method!(
    TO,
    "to(device device=None, dtype dtype=None, bool non_blocking=False, bool copy=False, *, memory_format memory_format=None)\n\
     to(dtype dtype, bool non_blocking=False, bool copy=False, *, memory_format memory_format=None)\n\
     to(Tensor other, bool non_blocking=False, bool copy=False, *, memory_format memory_format=None)\n\n\
     With elements of another type, on another device or in another order; itself where nothing changes."
)];

const WAIT: Parameter = boolean("non_blocking").or("False");
const COPY: Parameter = boolean("copy").or("False");
const FORMAT: Parameter = memory_format("memory_format").by_keyword().or_none().or("None");

static TO: Signature = Signature {
    name: "to",
    overloads: &[
        Overload {
            parameters: &[
                tensor("input"),
                device("device").or_none().or("None"),
                dtype("dtype").or_none().or("None"),
                WAIT,
                COPY,
                FORMAT,
            ],
            receiver: Some(0),
            function: false,
            call: |a| {
                let (input, device, dtype) = (a.tensor(0)?, a.optional_device(1)?, a.optional_dtype(2)?);
                let (wait, copy) = (a.boolean_or(3, false)?, a.boolean_or(4, false)?);
                let format = a.optional_memory_format(5)?;
                a.returns(|| ops::to_dtype_layout(&input, dtype, None, device, None, wait, copy, format))
            },
        },
        Overload {
            parameters: &[tensor("input"), dtype("dtype"), WAIT, COPY, FORMAT],
            receiver: Some(0),
            function: false,
            call: |a| {
                let (input, dtype) = (a.tensor(0)?, a.dtype(1)?);
                let (wait, copy) = (a.boolean_or(2, false)?, a.boolean_or(3, false)?);
                let format = a.optional_memory_format(4)?;
                a.returns(|| ops::to_dtype(&input, dtype, wait, copy, format))
            },
        },
        Overload {
            parameters: &[tensor("input"), tensor("other"), WAIT, COPY, FORMAT],
            receiver: Some(0),
            function: false,
            call: |a| {
                let (input, other) = (a.tensor(0)?, a.tensor(1)?);
                let (wait, copy) = (a.boolean_or(2, false)?, a.boolean_or(3, false)?);
                let format = a.optional_memory_format(4)?;
                a.returns(|| ops::to_other(&input, &other, wait, copy, format))
            },
        },
    ],
};
