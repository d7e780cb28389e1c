//! Tests of the library through its public interface. The operator table [`op_db`] has a row for each operator, which all checks
//! use.
//!
//! `forward` compares with a float64 reference in every scalar type and instruction set; `layouts` with odd strides;
//! `variants` in-place, `out=` and Meta; `boundaries` NaN and infinity at every position; `determinism` one thread against two, three and seven;
//! `gradients` derivatives of both orders; `tangents` forward mode; `errors` what must be refused; `types` which types are
//! taken; `devices` and `mixed_devices` memory that the host may not touch, or that is not there; `races` sizes that change meanwhile;
//! `bool_bytes` odd bytes of bool; `failed_calls` the operands of calls that fail; `convolutions` and `hostile` draw their cases. A skipped check
//! names its reason, and every test prints how many it skipped.

pub mod array;
pub mod call;
pub mod compare;
pub mod draw;
pub mod enlarge;
pub mod layout;
pub mod leaves;
pub mod op_db;
pub mod operands;
pub mod operator_variants;
pub mod report;
pub mod row;
