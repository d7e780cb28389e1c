//! Compiled chains of elementwise operators have the bits of the operators themselves.

#![allow(clippy::unwrap_used, reason = "a test")]

mod chains;

use chains::{CHAINS, Chain, assert_same, numbers};
use flambeau_compile::compile;
use flambeau_core::{Result, ScalarType};
use flambeau_ops::{Tensor, ops};

const TYPES: [ScalarType; 2] = [ScalarType::F32, ScalarType::F64];

fn four(sizes: &[i64], dtype: ScalarType) -> Vec<Tensor> {
    (1..5).map(|seed| numbers(seed, sizes, dtype).unwrap()).collect()
}

fn check(name: &str, chain: Chain, inputs: &[Tensor], compiles: bool) {
    let compiled = compile(chain);
    assert_same(name, &compiled.call(inputs).unwrap(), &chain(inputs).unwrap());
    let explanation = compiled.explain(inputs);
    assert_eq!(explanation.is_compiled(), compiles, "{name}: {explanation}");
}

#[test]
fn sizes_around_the_vectors() {
    for dtype in TYPES {
        for size in [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 511, 512, 513, 1025, 40_000] {
            for (name, chain, _) in CHAINS {
                check(name, *chain, &four(&[size], dtype), true);
            }
        }
    }
}

#[test]
fn each_chain_is_one_loop() {
    for (name, chain, _) in CHAINS {
        let inputs = four(&[100], ScalarType::F32);
        let explanation = compile(chain).explain(&inputs);
        assert_eq!((explanation.loops.len(), explanation.calls.len()), (1, 0), "{name}: {explanation}");
    }
}

#[test]
fn no_dimensions_and_no_elements() {
    for (name, chain, _) in CHAINS {
        check(name, *chain, &four(&[], ScalarType::F32), true);
        check(name, *chain, &four(&[0], ScalarType::F64), false);
        check(name, *chain, &four(&[3, 0, 2], ScalarType::F32), false);
    }
}

#[test]
fn layouts() {
    for dtype in TYPES {
        let whole = four(&[12, 10, 9], dtype);
        let views: [fn(&Tensor) -> Result<Tensor>; 4] = [
            |x| x.transpose(0, 2),
            |x| ops::slice_tensor(x, 1, Some(1), Some(10), 2),
            |x| x.permute(&[1, 2, 0]),
            |x| x.select(2, 3),
        ];
        for view in views {
            let strided: Vec<Tensor> = whole.iter().map(|x| view(x).unwrap()).collect();
            let mixed = [
                strided[0].clone(),
                strided[1].contiguous().unwrap(),
                strided[2].clone(),
                strided[3].clone(),
            ];
            for (name, chain, _) in CHAINS {
                check(name, *chain, &strided, true);
                check(name, *chain, &mixed, true);
            }
        }
    }
}

#[test]
fn broadcasts() {
    let dtype = ScalarType::F32;
    let (x, row) = (numbers(1, &[7, 33], dtype).unwrap(), numbers(2, &[33], dtype).unwrap());
    let (column, number) = (numbers(3, &[7, 1], dtype).unwrap(), numbers(4, &[], dtype).unwrap());
    for (name, chain, _) in CHAINS {
        check(name, *chain, &[x.clone(), row.clone(), column.clone(), number.clone()], true);
        check(name, *chain, &[column.clone(), x.clone(), row.clone(), x.clone()], true);
        check(name, *chain, &[row.clone(), column.clone(), number.clone(), row.clone()], true);
    }
}

#[test]
fn special_values_at_each_position() {
    let special = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0, f64::MIN_POSITIVE, 1e-310, 1e300];
    for dtype in TYPES {
        for (name, chain, _) in CHAINS {
            let compiled = compile(chain);
            for position in 0..19 {
                for value in special {
                    let inputs: Vec<Tensor> = (0..4)
                        .map(|i| {
                            let mut elements =
                                numbers(i, &[19], ScalarType::F64).unwrap().to_vec::<f64>().unwrap();
                            elements[position] = value;
                            elements[(position + i as usize * 5) % 19] = value;
                            Tensor::from_vec(elements, &[19]).unwrap().to(dtype).unwrap()
                        })
                        .collect();
                    assert_same(name, &compiled.call(&inputs).unwrap(), &chain(&inputs).unwrap());
                }
            }
            assert_eq!(compiled.plans(), 1, "{name}");
        }
    }
}

#[test]
fn any_number_of_threads_gives_the_same_bits() {
    let inputs = four(&[300_007], ScalarType::F32);
    let before = flambeau_ops::parallel::num_threads();
    for (name, chain, _) in CHAINS {
        let (compiled, expected) = (compile(chain), chain(&inputs).unwrap());
        for threads in [1, 2, 3, 7] {
            flambeau_ops::parallel::set_num_threads(threads);
            assert_same(name, &compiled.call(&inputs).unwrap(), &expected);
        }
    }
    flambeau_ops::parallel::set_num_threads(before);
}

#[test]
fn plans_are_kept_by_types_and_not_by_values() {
    let compiled = compile(CHAINS[0].1);
    let call = |sizes: &[i64], seed, dtype| {
        let inputs = [numbers(seed, sizes, dtype).unwrap(), numbers(seed + 1, sizes, dtype).unwrap()];
        compiled.call(&inputs).unwrap();
        compiled.plans()
    };
    assert_eq!(call(&[10], 1, ScalarType::F32), 1);
    assert_eq!(call(&[10], 7, ScalarType::F32), 1);
    assert_eq!(call(&[11], 7, ScalarType::F32), 2);
    assert_eq!(call(&[10], 7, ScalarType::F64), 3);
    assert_eq!(call(&[10, 1], 7, ScalarType::F64), 4);
}
