//! `#[derive(Module)]`: what is visited, in which order and under which names.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use flambeau_autograd::Autograd;
use flambeau_core::{Result, ScalarType};
use flambeau_nn::{Dropout, Forward, Linear, Module, Training};
use flambeau_ops::Tensor;

#[derive(Module)]
struct Residual<M, const N: usize> {
    inner: M,
    scales: [Tensor; N],
    #[module(skip)]
    around: bool,
}

impl<M: Forward, const N: usize> Forward for Residual<M, N> {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        let mut x = self.inner.forward(input)?;
        for scale in &self.scales {
            x = x.mul(scale)?;
        }
        if self.around { x.add(input) } else { Ok(x) }
    }
}

#[derive(Module)]
struct Pair(Linear, #[module(skip)] i64, Option<Linear>);

#[derive(Module)]
struct Unit;

#[derive(Module)]
struct Everything {
    r#type: Tensor,
    blocks: Vec<Residual<Box<dyn Forward>, 2>>,
    pair: Pair,
    unit: Unit,
    #[module(buffer)]
    seen: Vec<Tensor>,
    #[module(buffer)]
    absent: Option<Tensor>,
    training: Training,
}

fn scale() -> Tensor {
    let scale = Tensor::from([2.0f32]);
    scale.requires_grad_(true).unwrap();
    scale
}

fn everything() -> Everything {
    let block = |inner: Box<dyn Forward>| Residual { inner, scales: [scale(), scale()], around: true };
    Everything {
        r#type: scale(),
        blocks: vec![
            block(Box::new(Linear::new(2, 2).unwrap())),
            block(Box::new(Dropout::new(0.5).unwrap())),
        ],
        pair: Pair(Linear::without_bias(2, 2).unwrap(), 3, None),
        unit: Unit,
        seen: vec![Tensor::from([1.0f32]), Tensor::from([2i64])],
        absent: None,
        training: Training::new(),
    }
}

fn names(named: Vec<(String, Tensor)>) -> Vec<String> {
    named.into_iter().map(|(name, _)| name).collect()
}

#[test]
fn all_parts_are_visited_in_their_order() {
    let module = everything();
    assert_eq!(
        names(module.named_parameters()),
        [
            "type",
            "blocks.0.inner.weight",
            "blocks.0.inner.bias",
            "blocks.0.scales.0",
            "blocks.0.scales.1",
            "blocks.1.scales.0",
            "blocks.1.scales.1",
            "pair.0.weight"
        ]
    );
    assert_eq!(names(module.named_buffers()), ["seen.0", "seen.1"]);
    let mut modules = vec![];
    module.for_each_module(&mut |name, _| modules.push(name.to_string()));
    assert_eq!(
        modules,
        ["blocks.0", "blocks.0.inner", "blocks.1", "blocks.1.inner", "pair", "pair.0", "unit"]
    );
    assert_eq!((module.pair.1, module.absent.is_none()), (3, true));
}

#[test]
fn modes_and_types_reach_all_parts() {
    let mut module = everything();
    module.eval();
    assert!(!module.training.is_training());
    let x = Tensor::from([1.0f32, 3.0]);
    assert_eq!(module.blocks[1].forward(&x).unwrap().to_vec::<f32>().unwrap(), [5.0, 15.0]);
    module.to_dtype(ScalarType::F64).unwrap();
    assert!(
        module.parameters().iter().all(|tensor| tensor.dtype() == ScalarType::F64 && tensor.requires_grad())
    );
    assert_eq!(module.seen[0].dtype(), ScalarType::F64);
    assert_eq!(module.seen[1].dtype(), ScalarType::I64);
    assert!(!module.seen[0].requires_grad());
}
