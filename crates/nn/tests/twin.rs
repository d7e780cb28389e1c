//! Modules and losses against those of the Python package, which are written apart from them: names, sizes and values.
//!
//! `twin/make.py` writes `twin/outputs.tsv`; parameters and inputs are the functions that both have.
#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

use flambeau_core::{Result, ScalarType};
use flambeau_nn::functional::*;
use flambeau_nn::*;
use flambeau_ops::{Tensor, ops};

const OUTPUTS: &str = include_str!("twin/outputs.tsv");

fn values(count: i64, factor: f64, phase: f64) -> Vec<f64> {
    (0..count).map(|i| (i as f64 * factor + phase).sin()).collect()
}

fn made(phase: f64, sizes: &[i64]) -> Tensor {
    Tensor::from_vec(values(sizes.iter().product(), 0.37, phase), sizes).unwrap()
}

/// Every tensor of the state by its rank among the names: sines, and for variances their squares plus 1/2.
fn filled<M: Module>(mut module: M) -> M {
    module.to_dtype(ScalarType::F64).unwrap();
    module.requires_grad_(false).unwrap();
    module.eval();
    let mut state = module.state_dict().unwrap();
    for (rank, (name, tensor)) in state.iter_mut().enumerate().filter(|(_, (_, t))| t.is_floating_point()) {
        let mut new: Vec<f64> =
            values(tensor.numel(), 0.7, rank as f64).iter().map(|value| value * 0.5).collect();
        if name.ends_with("running_var") {
            new.iter_mut().for_each(|value| *value = *value * *value + 0.5);
        }
        *tensor = Tensor::from_vec(new, tensor.sizes()).unwrap();
    }
    module.load_state_dict(&state).unwrap();
    module
}

/// Fails unless `run` of the filled module gives what the row of `case` has.
fn check<M: Module>(case: &str, module: Result<M>, run: impl Fn(&M) -> Result<Vec<Tensor>>) {
    let module = filled(module.unwrap());
    let row = OUTPUTS.lines().find(|line| line.split('\t').next() == Some(case));
    let [_, names, shapes, numbers] = row.expect(case).split('\t').collect::<Vec<_>>()[..] else {
        panic!("{case}")
    };
    let own: Vec<String> = module.state_dict().unwrap().into_keys().collect();
    assert_eq!(own.join(","), names, "{case}");
    let outputs = run(&module).unwrap_or_else(|e| panic!("{case}: {e}"));
    let text = |tensor: &Tensor| tensor.sizes().iter().map(i64::to_string).collect::<Vec<_>>().join("x");
    assert_eq!(outputs.iter().map(text).collect::<Vec<_>>().join(" "), shapes, "{case}");
    let got: Vec<f64> = outputs.iter().flat_map(|tensor| tensor.to_vec::<f64>().unwrap()).collect();
    let got = got.iter().step_by(got.len() / 48 + 1);
    let expected: Vec<f64> = numbers.split(' ').map(|number| number.parse().unwrap()).collect();
    assert_eq!(got.len(), expected.len(), "{case}");
    for (got, expected) in got.zip(expected) {
        assert!((got - expected).abs() <= 1e-12 * (1.0 + expected.abs()), "{case}: {got} and {expected}");
    }
}

fn forward<M: Forward>(case: &str, module: Result<M>, input: &Tensor) {
    check(case, module, |module| Ok(vec![module.forward(input)?]));
}

fn loss<L: Loss>(case: &str, loss: L, input: &Tensor, target: &Tensor) {
    check(case, Ok(loss), |loss| Ok(vec![Loss::forward(loss, input, target)?]));
}

fn sequence() -> Tensor {
    made(0.0, &[2, 4, 6])
}

fn memory() -> Tensor {
    made(1.0, &[2, 3, 6])
}

/// `[2, 3]`: which positions of the memory are padding.
fn padding() -> Masks {
    let padded = Tensor::from([[false, false, true], [false, true, true]]);
    Masks::default().key_padding(&padded)
}

fn recurrent<S: Step<N>, const N: usize>(kind: &str) {
    let both = RecurrentOptions::default().num_layers(2).bidirectional(true);
    for (case, options) in [("1.False", RecurrentOptions::default()), ("2.True", both)] {
        let module = Recurrent::<S, N>::with_options(6, 5, options);
        check(&format!("{kind}.{case}"), module, run);
    }
    check(&format!("{kind}Cell"), RecurrentCell::<S, N>::new(6, 5), |cell| {
        Ok(cell.forward(&sequence().select(0, 0)?)?.to_vec())
    });
}

fn run<S: Step<N>, const N: usize>(module: &Recurrent<S, N>) -> Result<Vec<Tensor>> {
    let (output, states) = module.forward(&sequence())?;
    Ok([&[output], &states[..]].concat())
}

#[test]
fn recurrent_networks() {
    recurrent::<ElmanTanh, 1>("RNN");
    recurrent::<GruStep, 1>("GRU");
    recurrent::<LstmStep, 2>("LSTM");
    let projected = RecurrentOptions::default().proj_size(3).bias(false);
    check("LSTM.projected", Lstm::with_options(6, 5, projected), run);
    check("RNN.relu", ReluRnn::new(6, 5), run);
}

#[test]
fn a_sequence_in_two_parts_is_the_whole() {
    let lstm = filled(Lstm::new(6, 5).unwrap());
    let (whole, last) = lstm.forward(&sequence()).unwrap();
    let (first, states) = lstm.forward(&sequence().i((.., ..3)).unwrap()).unwrap();
    let (second, end) = lstm.forward_from(&sequence().i((.., 3..)).unwrap(), &states).unwrap();
    assert!(Tensor::cat(&[first, second], 1).unwrap().equal(&whole).unwrap());
    assert!(end.iter().zip(&last).all(|(a, b)| a.equal(b).unwrap()));
    assert!(lstm.forward_from(&memory(), &[end[0].clone(), whole]).is_err());
}

#[test]
fn attention() {
    let own = || MultiheadAttention::new(6, 2);
    let mean = |(output, weights): (Tensor, Tensor)| Ok(vec![output, weights.mean_dim(1)?]);
    check("attention", own(), |module| {
        mean(module.attend_with_weights(&sequence(), &memory(), &memory(), &padding())?)
    });
    check("attention.self", own(), |module| {
        let x = sequence();
        let none = Masks::default();
        let (output, weights) = module.attend_with_weights(&x, &x, &x, &none)?;
        assert!(module.forward(&x)?.sub(&output)?.abs()?.max()?.item::<f64>()? < 1e-14);
        mean((output, weights))
    });
    let options = MultiheadAttentionOptions::default().kdim(4).vdim(3).bias(false);
    check("attention.widths", MultiheadAttention::with_options(6, 2, options), |module| {
        Ok(vec![module.attend(
            &sequence(),
            &made(1.0, &[2, 3, 4]),
            &made(2.0, &[2, 3, 3]),
            &Masks::default(),
        )?])
    });
}

#[test]
fn masks_are_one_whether_of_bool_or_added_or_causal() {
    let (module, x) = (filled(MultiheadAttention::new(6, 2).unwrap()), sequence());
    let later = Tensor::ones(&[4, 4], ScalarType::F64).unwrap();
    let later = ops::gt_scalar(&ops::triu(&later, 1).unwrap(), 0.into()).unwrap();
    let added =
        Tensor::zeros(&[4, 4], ScalarType::F64).unwrap().masked_fill(&later, f64::NEG_INFINITY).unwrap();
    let each = later.unsqueeze(0).unwrap().expand(&[4, 4, 4]).unwrap();
    let causal = module.attend(&x, &x, &x, &Masks::default().causal(true)).unwrap();
    for mask in [&later, &added, &each] {
        let masked = module.attend(&x, &x, &x, &Masks::default().attention(mask)).unwrap();
        assert!(masked.sub(&causal).unwrap().abs().unwrap().max().unwrap().item::<f64>().unwrap() < 1e-14);
    }
}

#[test]
fn transformers() {
    for (case, first) in [("False", false), ("True", true)] {
        let options = TransformerOptions::default().dim_feedforward(8).norm_first(first);
        let gelu = options.clone().activation(FeedForwardActivation::Gelu);
        let case_of = |name: &str| format!("{name}.{case}");
        forward(&case_of("encoder_layer"), TransformerEncoderLayer::with_options(6, 2, gelu), &sequence());
        let decoder = TransformerDecoderLayer::with_options(6, 2, options);
        check(&case_of("decoder_layer"), decoder, |layer| {
            Ok(vec![layer.forward(&sequence(), &memory(), &Masks::default().causal(true), &padding())?])
        });
    }
    let layer =
        || TransformerEncoderLayer::with_options(6, 2, TransformerOptions::default().dim_feedforward(8));
    let layers = (0..2).map(|_| layer()).collect::<Result<Vec<_>>>().unwrap();
    let norm = Some(LayerNorm::new(&[6]).unwrap());
    forward("encoder", Ok(TransformerEncoder { layers, norm }), &sequence());
}

fn spatial<const N: usize>(image: &Tensor) {
    let case = |name: &str| format!("{name}.{N}");
    let conv = ConvOptions::<N>::default().stride(2).padding(1).groups(2);
    forward(&case("conv"), Conv::with_options(4, 6, 3, conv), image);
    let same = Conv::<N>::without_bias(4, 2, 2, ConvOptions::default().padding(Padding::Same));
    forward(&case("conv.same"), same.map(|conv| conv.padding_mode(PadMode::Circular)), image);
    let back = ConvTransposeOptions::<N>::default().stride(2).padding(1).output_padding(1).groups(2);
    forward(&case("conv_transpose"), ConvTranspose::with_options(4, 6, 3, back), image);
    forward(&case("batch_norm"), BatchNorm::<N>::new(4), image);
    let instance = ChannelNormOptions::default().track_running_stats(false);
    forward(&case("instance_norm"), InstanceNorm::<N>::with_options(4, instance), image);
    let max = MaxPoolOptions::<N>::default().stride(2).padding(1).ceil_mode(true);
    forward(&case("max_pool"), MaxPool::with_options(3, max), image);
    let mean = AvgPoolOptions::<N>::default().stride(2).padding(1).count_include_pad(false);
    forward(&case("avg_pool"), AvgPool::with_options(3, mean), image);
    forward(&case("adaptive_avg_pool"), Ok(AdaptiveAvgPool::<N>::new(2)), image);
    forward(&case("adaptive_max_pool"), Ok(AdaptiveMaxPool::<N>::new(2)), image);
}

fn image() -> Tensor {
    made(0.0, &[2, 4, 7, 5])
}

#[test]
fn convolutions_norms_and_pooling() {
    spatial::<1>(&made(0.0, &[2, 4, 7]));
    spatial::<2>(&image());
    spatial::<3>(&made(0.0, &[2, 4, 5, 4, 3]));
    forward("group_norm", GroupNorm::new(2, 4), &image());
    let response = LocalResponseNorm { size: 3, options: LocalResponse::default() };
    forward("local_response", Ok(response), &image());
    let norm = LayerNorm::with_options(&[7, 5], NormOptions::default().bias(false));
    forward("layer_norm", norm, &image());
}

#[test]
fn resampling_and_padding() {
    let upsample = |case: &str, size: OutputSize, options: Interpolate| {
        forward(&format!("upsample.{case}"), Ok(Upsample { size, options }), &image());
    };
    let mode = |mode: Interpolation| Interpolate::default().mode(mode);
    upsample("bilinear", [3, 9].into(), mode(Interpolation::Linear));
    upsample("nearest", [2.0, 2.0].into(), Interpolate::default());
    upsample("bicubic", [9, 4].into(), mode(Interpolation::Cubic).align_corners(true));
    upsample("area", [3, 2].into(), mode(Interpolation::Area));
    for (case, mode) in
        [("reflect", PadMode::Reflect), ("replicate", PadMode::Replicate), ("circular", PadMode::Circular)]
    {
        forward(&format!("pad.{case}"), Ok(Pad { sizes: vec![1, 2, 3, 0], mode }), &image());
    }
}

#[test]
fn tables_and_activations() {
    let numbers = Tensor::from([[1i64, 5, 0], [6, 2, 2]]);
    let table = Embedding::with_options(7, 3, EmbeddingOptions::default().padding_idx(-2));
    forward("embedding", table, &numbers);
    check("bilinear", Bilinear::new(6, 6, 3), |module| {
        Ok(vec![module.forward(&sequence(), &made(2.0, &[2, 4, 6]))?])
    });
    forward("prelu", Prelu::new(4), &image());
    let x = (&sequence() * 3.0).unwrap();
    forward("ReLU6", Ok(Relu6), &x);
    forward("LogSigmoid", Ok(LogSigmoid), &x);
    forward("Hardsigmoid", Ok(Hardsigmoid), &x);
    forward("Hardswish", Ok(Hardswish), &x);
    forward("SELU", Ok(Selu), &x);
    forward("Softsign", Ok(Softsign), &x);
    forward("Tanhshrink", Ok(Tanhshrink), &x);
    forward("CELU", Ok(Celu::default()), &x);
    forward("ELU", Ok(Elu::default()), &x);
    forward("Hardshrink", Ok(Hardshrink::default()), &x);
    forward("Softshrink", Ok(Softshrink::default()), &x);
    forward("GLU", Ok(Glu::default()), &x);
    forward("Hardtanh", Ok(Hardtanh::default()), &x);
    forward("Softplus", Ok(Softplus::default()), &x);
    forward("Mish", Ok(Mish), &x);
}

#[test]
fn losses() {
    let (first, second) = (made(0.0, &[4, 6]), made(2.0, &[4, 6]));
    let (signs, weight) = (second.sign().unwrap(), (made(3.0, &[6]) + 2.0).unwrap());
    loss("MSELoss", MseLoss::default(), &first, &second);
    loss("L1Loss", L1Loss::default(), &first, &second);
    loss("SoftMarginLoss", SoftMarginLoss::default(), &first, &signs);
    loss("SmoothL1Loss", SmoothL1Loss::default().beta(0.5), &first, &second);
    loss("HuberLoss", HuberLoss::default().delta(0.3), &first, &second);
    loss("PoissonNLLLoss", PoissonNllLoss::default().full(true), &first, &(&second * 4.0).unwrap());
    loss("HingeEmbeddingLoss", HingeEmbeddingLoss::default(), &first, &signs);
    loss("KLDivLoss", KlDivLoss::default().log_target(true).batch_mean(true), &first, &second);
    loss("BCEWithLogitsLoss", BceWithLogitsLoss::default().pos_weight(&weight), &first, &second);
    let each_class = MultiLabelSoftMarginLoss::default().weight(&weight);
    loss("MultiLabelSoftMarginLoss", each_class, &first, &second);
    loss("BCELoss", BceLoss::default(), &first.square().unwrap(), &second.square().unwrap());
    let classes = Tensor::from([1i64, 0, 5, 3]);
    for (case, reduction) in [("none", Reduction::None), ("mean", Reduction::Mean), ("sum", Reduction::Sum)] {
        let options = CrossEntropyLoss::default().weight(&weight).ignore_index(3).label_smoothing(0.2);
        loss(&format!("CrossEntropyLoss.{case}"), options.reduction(reduction), &first, &classes);
    }
    loss("NLLLoss", NllLoss::default().weight(&weight), &first, &classes);
    loss("MultiMarginLoss", MultiMarginLoss::default().squared(true).margin(0.5), &first, &classes);
    let three = |case: &str, output: Result<Tensor>| {
        let output = output.unwrap();
        check(case, Ok(Identity), |_| Ok(vec![output.clone()]));
    };
    let gaussian = GaussianNllLoss::default().full(true);
    three("GaussianNLLLoss", gaussian.forward(&first, &second, &second.square().unwrap()));
    three("MarginRankingLoss", MarginRankingLoss::default().margin(0.2).forward(&first, &second, &signs));
    let cosine = CosineEmbeddingLoss::default().margin(0.1);
    three("CosineEmbeddingLoss", cosine.forward(&first, &second, &signs.select(1, 0).unwrap()));
    let triplet = TripletMarginLoss::default().swap(true);
    three("TripletMarginLoss", triplet.forward(&first, &second, &made(4.0, &[4, 6])));
}
