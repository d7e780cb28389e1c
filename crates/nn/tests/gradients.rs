//! Gradients of modules and losses against central differences.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use flambeau_autograd::{Autograd, gradcheck};
use flambeau_core::{Result, ScalarType};
use flambeau_nn::functional::*;
use flambeau_nn::*;
use flambeau_ops::Tensor;

fn made(phase: f64, sizes: &[i64]) -> Tensor {
    let count: i64 = sizes.iter().product();
    Tensor::from_vec((0..count).map(|i| (i as f64 * 0.37 + phase).sin()).collect(), sizes).unwrap()
}

fn tracked(tensor: Tensor) -> Tensor {
    tensor.requires_grad_(true).unwrap();
    tensor
}

/// The gradients of inputs and of all parameters.
fn check<M: Module>(
    module: Result<M>,
    inputs: &[Tensor],
    run: impl Fn(&M, &[Tensor]) -> Result<Vec<Tensor>>,
) {
    let mut module = module.unwrap();
    module.to_dtype(ScalarType::F64).unwrap();
    module.eval();
    let inputs: Vec<Tensor> = inputs.iter().map(|tensor| tracked(tensor.clone())).collect();
    // The module shares its parameters with the list, so that differences of these are seen.
    let all = [&inputs[..], &module.parameters()[..]].concat();
    gradcheck(|all| run(&module, &all[..inputs.len()]), &all).unwrap();
}

#[test]
fn recurrent_networks() {
    let x = [made(0.0, &[2, 3, 2])];
    let both = || RecurrentOptions::default().num_layers(2).bidirectional(true);
    check(Rnn::with_options(2, 3, both()), &x, |m, x| m.forward(&x[0]).map(|(y, [h])| vec![y, h]));
    check(Gru::with_options(2, 3, both()), &x, |m, x| m.forward(&x[0]).map(|(y, [h])| vec![y, h]));
    let projected = both().proj_size(2);
    check(Lstm::with_options(2, 3, projected), &x, |m, x| m.forward(&x[0]).map(|(y, [h, c])| vec![y, h, c]));
    check(LstmCell::new(2, 3), &[made(0.0, &[2, 2])], |m, x| Ok(m.forward(&x[0])?.to_vec()));
}

#[test]
fn attention_and_transformers() {
    let inputs = [made(0.0, &[2, 3, 4]), made(1.0, &[2, 2, 4])];
    let none = Masks::default();
    let causal = Masks::default().causal(true);
    check(MultiheadAttention::new(4, 2), &inputs, |m, x| {
        let (output, weights) = m.attend_with_weights(&x[0], &x[1], &x[1], &none)?;
        Ok(vec![output, weights, m.attend(&x[0], &x[1], &x[1], &none)?])
    });
    let options = TransformerOptions::default().dim_feedforward(3).activation(FeedForwardActivation::Gelu);
    check(TransformerDecoderLayer::with_options(4, 2, options), &inputs, |m, x| {
        Ok(vec![m.forward(&x[0], &x[1], &causal, &none)?])
    });
}

#[test]
fn convolutions_and_norms() {
    let x = [made(0.0, &[2, 2, 4, 3])];
    let forward = |m: &dyn Forward, x: &[Tensor]| Ok(vec![m.forward(&x[0])?]);
    check(Conv2d::with_options(2, 2, 2, ConvOptions::default().padding(Padding::Same)), &x, |m, x| {
        forward(m, x)
    });
    let circular = Conv2d::with_options(2, 2, 3, ConvOptions::default().padding(1));
    check(circular.map(|conv| conv.padding_mode(PadMode::Circular)), &x, |m, x| forward(m, x));
    check(ConvTranspose2d::with_options(2, 2, 2, ConvTransposeOptions::default().stride(2)), &x, |m, x| {
        forward(m, x)
    });
    check(GroupNorm::new(2, 2), &x, |m, x| forward(m, x));
    check(InstanceNorm2d::new(2), &x, |m, x| forward(m, x));
    check(Ok(LocalResponseNorm { size: 2, options: LocalResponse::default() }), &x, |m, x| forward(m, x));
    check(BatchNorm2d::new(2), &x, |m, x| forward(m, x));
}

#[test]
fn losses() {
    let pair = [made(0.0, &[2, 3]), made(2.0, &[2, 3])];
    let signs = pair[1].sign().unwrap();
    let classes = Tensor::from([1i64, 2]);
    let check_loss = |loss: &dyn Fn(&[Tensor]) -> Result<Tensor>| {
        check(Ok(Identity), &pair, |_, x| Ok(vec![loss(x)?]));
    };
    check_loss(&|x| mse_loss(&x[0], &x[1], Reduction::Mean));
    check_loss(&|x| smooth_l1_loss(&x[0], &x[1], SmoothL1::default().beta(0.3)));
    check_loss(&|x| huber_loss(&x[0], &x[1], Huber::default().reduction(Reduction::None)));
    check_loss(&|x| kl_div(&x[0], &x[1], KlDiv::default().log_target(true).batch_mean(true)));
    check_loss(&|x| binary_cross_entropy_with_logits(&x[0], &x[1], BceWithLogits::default()));
    check_loss(&|x| gaussian_nll_loss(&x[0], &x[1], &(x[0].square()? + 1.0)?, GaussianNll::default()));
    check_loss(&|x| poisson_nll_loss(&x[0], &x[1], PoissonNll::default()));
    check_loss(&|x| cosine_embedding_loss(&x[0], &x[1], &signs.select(1, 0)?, CosineEmbedding::default()));
    check_loss(&|x| margin_ranking_loss(&x[0], &x[1], &signs, MarginRanking::default().margin(0.3)));
    check_loss(&|x| {
        triplet_margin_loss(&x[0], &x[1], &(&x[0] * &x[1])?, TripletMargin::default().swap(true))
    });
    check_loss(&|x| cross_entropy(&(&x[0] + &x[1])?, &classes, CrossEntropy::default().label_smoothing(0.1)));
}
