//! Recurrent networks: the gradient of all steps, and outputs with and without a history.

use super::{check, constant, values, x};
use flambeau_autograd::grad;
use flambeau_core::Result;
use flambeau_ops::{Tensor, ops};

const KINDS: [(&str, i64); 4] = [("rnn_tanh", 1), ("rnn_relu", 1), ("gru", 3), ("lstm", 4)];

/// The operands of one layer in both directions: the input of `[length, batch, 3]`, parameters, and states of two elements.
fn operands(gates: i64, [length, batch]: [i64; 2]) -> Vec<Tensor> {
    let rows = 2 * gates;
    let params = |seed: i64| {
        [x(&[rows, 3], seed), x(&[rows, 2], seed + 1), x(&[rows], seed + 2), x(&[rows], seed + 3)]
    };
    let mut all = vec![x(&[length, batch, 3], 0)];
    all.extend(params(10));
    all.extend(params(20));
    all.push(x(&[2, batch, 2], 30));
    if gates == 4 {
        all.push(x(&[2, batch, 2], 31));
    }
    all
}

fn network(name: &str, all: &[Tensor], directions: usize) -> Result<Vec<Tensor>> {
    let (input, params) = (&all[0], &all[1..1 + 4 * directions]);
    let hx = all[9..].iter().map(|state| ops::slice_tensor(state, 0, Some(0), Some(directions as i64), 1));
    let hx = hx.collect::<Result<Vec<Tensor>>>()?;
    let both = directions == 2;
    let (output, state) = match name {
        "rnn_tanh" => ops::rnn_tanh_input(input, &hx[0], params, true, 1, 0.0, true, both, false)?,
        "rnn_relu" => ops::rnn_relu_input(input, &hx[0], params, true, 1, 0.0, true, both, false)?,
        "gru" => ops::gru_input(input, &hx[0], params, true, 1, 0.0, true, both, false)?,
        _ => {
            let (output, shown, memory) =
                ops::lstm_input(input, &hx, params, true, 1, 0.0, true, both, false)?;
            return Ok(vec![output, shown, memory]);
        }
    };
    Ok(vec![output, state])
}

#[test]
fn networks_have_derivatives_of_both_orders() {
    for (name, gates) in KINDS {
        check(name, |all| network(name, all, 2), &operands(gates, [3, 2]));
    }
}

#[test]
fn a_history_changes_no_bit() {
    for (name, gates) in KINDS {
        let all = operands(gates, [5, 3]);
        let alone: Vec<Tensor> = all.iter().map(constant).collect();
        for directions in [1, 2] {
            let (recorded, plain) =
                (network(name, &all, directions).unwrap(), network(name, &alone, directions).unwrap());
            for (recorded, plain) in recorded.iter().zip(&plain) {
                assert_eq!(values(recorded), values(plain), "{name} {directions}");
            }
        }
    }
}

/// What is saved of the outputs is not what callers get.
#[test]
fn outputs_may_be_written_in_place() {
    for (name, gates) in KINDS {
        let all = operands(gates, [4, 2]);
        let gradient = |in_place: bool| {
            let results = network(name, &all, 1).unwrap();
            for result in &results {
                if in_place {
                    ops::mul__scalar(result, 2.into()).unwrap();
                }
            }
            let factor = if in_place { 1 } else { 2 };
            let output = ops::mul_scalar(&results[0], factor.into()).unwrap();
            let sum = ops::sum(&ops::square(&output).unwrap(), None).unwrap();
            let found = grad(&[sum], &all[..5], &[None], None, false, true).unwrap();
            found.iter().flatten().map(values).collect::<Vec<_>>()
        };
        assert_eq!(gradient(true), gradient(false), "{name}");
    }
}
