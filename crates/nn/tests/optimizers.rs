//! Tests of optimizers, schedules and clipping against PyTorch's numbers.
//!
//! The literals are PyTorch 2.15's in f64: `torch.optim` with `foreach=False` on the parameter below, five steps whose
//! gradient is [`gradient`]; `torch.optim.lr_scheduler` on SGD with `lr=0.5`; `torch.nn.utils.clip_grad_norm_`.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use flambeau_autograd::{Autograd, no_grad};
use flambeau_core::ScalarType;
use flambeau_nn::optim::*;
use flambeau_ops::{Tensor, ops};

fn leaf(values: &[f64]) -> Tensor {
    let tensor = Tensor::from_slice(values).unwrap();
    tensor.requires_grad_(true).unwrap();
    tensor
}

fn start() -> Tensor {
    leaf(&[0.5, -1.25, 2.0, 0.0])
}

/// `p * [1, 0.5, -0.25, 2] + 0.1 (step + 1)`.
fn gradient(param: &Tensor, step: usize) -> Tensor {
    let values = param.to_vec::<f64>().unwrap();
    let scaled = values.iter().zip([1.0, 0.5, -0.25, 2.0]).map(|(p, c)| p * c + 0.1 * (step as f64 + 1.0));
    Tensor::from_slice(&scaled.collect::<Vec<_>>()).unwrap()
}

fn steps(optimizer: &mut dyn Optimizer, param: &Tensor, range: std::ops::Range<usize>) {
    for step in range {
        param.set_grad(Some(&gradient(param, step))).unwrap();
        optimizer.step().unwrap();
    }
}

fn assert_close(got: &[f64], expected: &[f64]) {
    assert_eq!(got.len(), expected.len());
    for (g, e) in got.iter().zip(expected) {
        assert!((g - e).abs() <= 1e-12 * (1.0 + e.abs()), "expected {expected:?} but got {got:?}");
    }
}

fn check(make: impl Fn(Vec<Tensor>) -> Box<dyn Optimizer>, expected: [f64; 4]) {
    let param = start();
    let mut optimizer = make(vec![param.clone()]);
    steps(&mut *optimizer, &param, 0..5);
    assert_close(&param.to_vec::<f64>().unwrap(), &expected);

    // Saved after two steps and taken over by another, it gives the same to the bit.
    let resumed = start();
    let mut first = make(vec![resumed.clone()]);
    steps(&mut *first, &resumed, 0..2);
    let mut second = make(vec![resumed.clone()]);
    second.load_state_dict(&first.state_dict().unwrap()).unwrap();
    steps(&mut *second, &resumed, 2..5);
    assert!(resumed.equal(&param).unwrap());
}

#[test]
fn sgd() {
    let check = |options: SgdOptions, expected| {
        check(|params| Box::new(Sgd::new(params, options.clone()).unwrap()), expected);
    };
    let base = SgdOptions { lr: 0.1, ..Default::default() };
    check(base.clone(), [0.16380399999999998, -1.107593734375, 2.107721734375, -0.11553600000000001]);
    check(
        SgdOptions { weight_decay: 0.2, maximize: true, ..base.clone() },
        [0.9016551680000001, -1.292955964775, 1.7300164607, 0.19122041760000003],
    );
    check(
        SgdOptions { momentum: 0.9, dampening: 0.3, weight_decay: 0.05, ..base.clone() },
        [-0.15634597020441013, -0.8206903399846931, 2.1924543628004796, -0.18166715089885063],
    );
    check(
        SgdOptions { momentum: 0.8, nesterov: true, ..base },
        [-0.2716224908800001, -0.852283959955, 2.378083773195, -0.22670064128000003],
    );
}

#[test]
fn adam() {
    let check = |options: AdamOptions, expected| {
        check(|params| Box::new(Adam::new(params, options.clone()).unwrap()), expected);
    };
    let base = AdamOptions { lr: 0.05, ..Default::default() };
    check(base.clone(), [0.2489741519009107, -1.0210937375304228, 2.2322246527392777, -0.24999997708382385]);
    check(
        AdamOptions { beta1: 0.8, beta2: 0.95, eps: 1e-6, weight_decay: 0.1, amsgrad: true, ..base.clone() },
        [0.2482323208993017, -1.0191397609913937, 2.136212576408584, -0.2479911607737334],
    );
    check(
        AdamOptions { maximize: true, ..base },
        [0.7505217910188152, -1.4925214296327405, 1.7812614802268525, 0.23576627763818903],
    );
}

#[test]
fn adam_w() {
    let check = |options: AdamOptions, expected| {
        check(|params| Box::new(AdamW::new(params, options.clone()).unwrap()), expected);
    };
    let base = AdamOptions { lr: 0.05, weight_decay: 0.01, ..Default::default() };
    check(base.clone(), [0.24797747877980764, -1.0183301684410466, 2.2268691028731067, -0.24976199665498217]);
    check(
        AdamOptions { beta1: 0.7, beta2: 0.9, weight_decay: 0.3, amsgrad: true, ..base },
        [0.2182836769100162, -0.9576469173205588, 2.060093522163834, -0.24339320641765566],
    );
}

/// Several steps for a parameter with the strides that `arrange` gives it, whose means are contiguous.
fn adam_of(dtype: ScalarType, arrange: fn(&Tensor) -> Tensor, decoupled: bool) -> Tensor {
    let made = Tensor::from_vec((0..35).map(|i| f64::from(i * 37 % 23) - 11.0).collect(), &[5, 7]).unwrap();
    let made = made.to(dtype).unwrap();
    let param = arrange(&made);
    param.requires_grad_(true).unwrap();
    // Not the default `eps`, which is 0 in float16.
    let options = AdamOptions { lr: 0.05, weight_decay: 0.1, eps: 1e-3, ..Default::default() };
    let mut optimizer: Box<dyn Optimizer> = match decoupled {
        true => Box::new(AdamW::new(vec![param.clone()], options).unwrap()),
        false => Box::new(Adam::new(vec![param.clone()], options).unwrap()),
    };
    for step in 0..3 {
        let grad = made.mul_scalar(0.2 * f64::from(step) - 0.3).unwrap();
        param.set_grad(Some(&grad)).unwrap();
        optimizer.step().unwrap();
    }
    param.detach().unwrap()
}

#[test]
fn steps_of_adam_do_not_depend_on_strides() {
    for dtype in [ScalarType::F16, ScalarType::BF16, ScalarType::F32, ScalarType::F64] {
        for decoupled in [false, true] {
            let contiguous = adam_of(dtype, |t| t.mul_scalar(1).unwrap(), decoupled);
            let transposed = adam_of(
                dtype,
                |t| t.t().unwrap().contiguous().unwrap().t().unwrap().detach().unwrap(),
                decoupled,
            );
            assert!(contiguous.isfinite().unwrap().all().unwrap().item::<bool>().unwrap(), "{dtype}");
            assert!(contiguous.equal(&transposed).unwrap(), "{dtype}");
        }
    }
}

#[test]
fn a_step_of_adam_is_not_recorded() {
    let (param, [mean, square, grad]) = (start(), [0; 3].map(|_| Tensor::from([1.0, 2.0, 3.0, 4.0])));
    let step = || ops::_adam_step_(&param, &mean, &square, &grad, 0.1, 0.9, 0.99, 1e-8, 1.0, 1.0, 0.0, false);
    let version = param.storage().version();
    assert!(step().is_err());
    assert_eq!(param.storage().version(), version);
    let _guard = no_grad();
    step().unwrap();
    assert!(param.storage().version() > version && param.is_leaf() && param.requires_grad());
}

#[test]
fn groups_have_options_of_their_own_and_parameters_without_gradient_stay() {
    let (a, b, c) = (leaf(&[1.0]), leaf(&[1.0]), leaf(&[1.0]));
    let group =
        |params: Vec<Tensor>, lr| ParamGroup { params, options: SgdOptions { lr, ..Default::default() } };
    let mut sgd =
        Sgd::with_groups(vec![group(vec![a.clone(), c.clone()], 0.5), group(vec![b.clone()], 0.25)]).unwrap();
    for tensor in [&a, &b] {
        tensor.set_grad(Some(&Tensor::from([1.0f64]))).unwrap();
    }
    sgd.step().unwrap();
    let value = |t: &Tensor| t.item::<f64>().unwrap();
    assert_eq!((value(&a), value(&b), value(&c)), (0.5, 0.75, 1.0));
    sgd.zero_grad().unwrap();
    assert!(a.grad().is_none() && sgd.learning_rates() == [0.5, 0.25]);
    assert!(sgd.set_learning_rates(&[1.0]).is_err() && sgd.set_learning_rates(&[1.0, f64::NAN]).is_err());
}

#[test]
fn wrong_options_parameters_and_states_are_named() {
    let message = |options| Adam::new(vec![start()], options).unwrap_err().to_string();
    assert!(message(AdamOptions { lr: -1.0, ..Default::default() }).contains("lr"));
    assert!(message(AdamOptions { beta2: 1.0, ..Default::default() }).contains("beta2"));
    let nesterov = SgdOptions { nesterov: true, ..Default::default() };
    assert!(Sgd::new(vec![start()], nesterov).is_err());
    let twice = start();
    assert!(Sgd::new(vec![twice.clone(), twice], SgdOptions::default()).is_err());
    assert!(Sgd::new(vec![Tensor::from([1.0f64])], SgdOptions::default()).is_err());

    let param = start();
    let mut adam = Adam::new(vec![param.clone()], AdamOptions::default()).unwrap();
    steps(&mut adam, &param, 0..1);
    let state = adam.state_dict().unwrap();
    let refused = |key: &str, tensor: Option<Tensor>| {
        let mut state = state.clone();
        match tensor {
            Some(tensor) => state.insert(key.into(), tensor),
            None => state.remove(key),
        };
        let mut other = Adam::new(vec![param.clone()], AdamOptions::default()).unwrap();
        let error = other.load_state_dict(&state).unwrap_err();
        assert!(error.message().contains(&format!("`{key}`")), "{error}");
    };
    refused("group.0.lr", None);
    refused("state.0.exp_avg", Some(Tensor::from([1.0f64])));
    refused("state.0.exp_avg_sq", Some(Tensor::from([1.0f32, 1.0, 1.0, 1.0])));
    refused("state.1.exp_avg", Some(Tensor::from([1.0f64])));
}

fn rates(schedule: impl Schedule) -> Vec<f64> {
    let mut sgd = Sgd::new(vec![start()], SgdOptions { lr: 0.5, ..Default::default() }).unwrap();
    let mut scheduler = Scheduler::new(schedule, &mut sgd).unwrap();
    let mut rates = vec![];
    for _ in 0..12 {
        rates.push(sgd.learning_rates()[0]);
        scheduler.step(&mut sgd).unwrap();
    }
    rates
}

#[test]
fn schedules() {
    let stepped = [0.5, 0.05, 0.005, 0.0005].map(|rate| [rate; 3]).concat();
    assert_close(&rates(StepLr { size: 3, gamma: 0.1 }), &stepped);
    let cosine = [
        0.5,
        0.45416407864998737,
        0.3341640786499874,
        0.1858359213500126,
        0.06583592135001262,
        0.02,
        0.06583592135001261,
        0.18583592135001265,
        0.3341640786499875,
        0.4541640786499876,
        0.5000000000000001,
        0.45416407864998765,
    ];
    assert_close(&rates(CosineAnnealing { period: 5, min: 0.02 }), &cosine);
    let powers = [
        0.5,
        0.45,
        0.405,
        0.36450000000000005,
        0.32805,
        0.29524500000000004,
        0.2657205,
        0.23914845000000004,
        0.21523360500000005,
        0.19371024450000005,
        0.17433922005000005,
        0.15690529804500003,
    ];
    assert_close(&rates(LambdaLr(|step| 0.9f64.powf(step as f64))), &powers);
    let warm = rates(LinearWarmupCosine { warmup: 4, total: 8, min: 0.1 });
    assert_close(
        &warm,
        &[
            0.0,
            0.125,
            0.25,
            0.375,
            0.5,
            0.3 + 0.2 * 0.5f64.sqrt(),
            0.3,
            0.3 - 0.2 * 0.5f64.sqrt(),
            0.1,
            0.1,
            0.1,
            0.1,
        ],
    );
}

/// The literals of these are the Python package's, whose optimisers and schedules are written apart from these.
#[test]
fn adagrad() {
    let check = |options: AdagradOptions, expected| {
        check(|params| Box::new(Adagrad::new(params, options.clone()).unwrap()), expected);
    };
    let base = AdagradOptions::default().lr(0.1);
    check(base.clone(), [0.16648929651173483, -1.0353058796862376, 2.2408628567124445, -0.2562183259104818]);
    check(
        base.lr_decay(0.2).weight_decay(0.1).initial_accumulator_value(0.3).eps(1e-3).maximize(true),
        [0.7404057857284617, -1.3811873820224394, 1.8360250220806316, 0.16279382431535894],
    );
}

#[test]
fn rms_prop() {
    let check = |options: RmsPropOptions, expected| {
        check(|params| Box::new(RmsProp::new(params, options.clone()).unwrap()), expected);
    };
    let base = RmsPropOptions::default().lr(0.05);
    check(base.clone(), [-0.46802616211300474, -0.8236202146003923, 3.5960134511053674, -0.2579533823622377]);
    check(
        base.clone().alpha(0.9).momentum(0.8).centered(true).weight_decay(0.1),
        [-0.6755947640120176, -0.3353553332695185, 2.8913754128312634, -0.3152742832925537],
    );
    check(
        base.centered(true).maximize(true),
        [2.5571002962718614, -3.071728659979252, 1.5346030429567261, 2.211148390518562],
    );
}

#[test]
fn more_schedules() {
    let check = |schedule: &dyn Schedule, expected: [f64; 12]| {
        let rates: Vec<f64> = (0..12).map(|step| schedule.rate(0.5, step)).collect();
        assert_close(&rates, &expected);
    };
    check(&MultiStepLr { milestones: vec![3, 5, 9], gamma: 0.1 }, MULTI_STEP);
    check(&ConstantLr { factor: 0.25, total: 4 }, CONSTANT);
    check(&LinearLr { start: 0.25, end: 0.75, total: 5 }, LINEAR);
    check(&ExponentialLr { gamma: 0.8 }, EXPONENTIAL);
    check(&PolynomialLr { total: 8, power: 2.0 }, POLYNOMIAL);
    check(&CosineWarmRestarts { period: 3, factor: 2, min: 0.1 }, RESTARTS);
    check(&OneCycleLr::new(12), ONE_CYCLE);
    let three = OneCycleLr { rising: 0.4, anneal: Anneal::Linear, three_phase: true, ..OneCycleLr::new(12) };
    check(&three, THREE_PHASES);
    let half = ConstantLr { factor: 0.5, total: 100 };
    check(&SequentialLr::new(half).then(4, ExponentialLr { gamma: 0.9 }), SEQUENTIAL);
    check(&Chained(ConstantLr { factor: 0.5, total: 4 }, ExponentialLr { gamma: 0.9 }), CHAINED);
    check(&MultiplicativeLr(|step| 1.0 - 0.05 * step as f64), MULTIPLICATIVE);
}

#[test]
fn the_rate_falls_on_a_plateau() {
    let mut sgd = Sgd::new(vec![start()], SgdOptions::default().lr(0.5)).unwrap();
    let options = PlateauOptions::default().factor(0.5).patience(1).threshold(0.1).cooldown(2).min_lr(0.1);
    let mut plateau = ReduceLrOnPlateau::new(options).unwrap();
    let losses = [1.0, 0.95, 0.8, 0.79, 0.78, 0.77, 0.5, 0.49, 0.48, 0.47, 0.47, 0.47, 0.47, 0.47, 0.47];
    let expected = [0.5, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25, 0.25, 0.125, 0.125, 0.125, 0.125, 0.1, 0.1, 0.1];
    for (loss, expected) in losses.into_iter().zip(expected) {
        plateau.step(loss, &mut sgd).unwrap();
        assert_eq!(sgd.learning_rates(), [expected]);
    }
    assert!(ReduceLrOnPlateau::new(PlateauOptions::default().factor(1.0)).is_err());
}

const MULTI_STEP: [f64; 12] = [0.5, 0.5, 0.5, 0.05, 0.05, 0.005, 0.005, 0.005, 0.005, 0.0005, 0.0005, 0.0005];
const CONSTANT: [f64; 12] = [0.125, 0.125, 0.125, 0.125, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5];
const LINEAR: [f64; 12] =
    [0.125, 0.175, 0.225, 0.275, 0.325, 0.375, 0.375, 0.375, 0.375, 0.375, 0.375, 0.375];
const EXPONENTIAL: [f64; 12] = [
    0.5,
    0.4,
    0.32,
    0.256,
    0.2048,
    0.16384,
    0.131072,
    0.1048576,
    0.08388608,
    0.067108864,
    0.0536870912,
    0.04294967296,
];
const POLYNOMIAL: [f64; 12] =
    [0.5, 0.3828125, 0.28125, 0.1953125, 0.125, 0.0703125, 0.03125, 0.0078125, 0.0, 0.0, 0.0, 0.0];
const RESTARTS: [f64; 12] = [
    0.5,
    0.4,
    0.2,
    0.5,
    0.47320508075689,
    0.4,
    0.3,
    0.2,
    0.12679491924311,
    0.5,
    0.49318516525781,
    0.47320508075689,
];
const ONE_CYCLE: [f64; 12] = [
    0.02,
    0.17489482710979,
    0.43964257956106,
    0.49720771772546,
    0.46650648492071,
    0.40587282697488,
    0.32368949884755,
    0.23131855133349,
    0.14153049910435,
    0.066738765094415,
    0.017283493712698,
    2e-06,
];
const THREE_PHASES: [f64; 12] = [
    0.02,
    0.14631578947368,
    0.27263157894737,
    0.39894736842105,
    0.47473684210526,
    0.34842105263158,
    0.22210526315789,
    0.095789473684211,
    0.017647294117647,
    0.011765529411765,
    0.0058837647058824,
    1.9999999999985e-06,
];
const SEQUENTIAL: [f64; 12] =
    [0.25, 0.25, 0.25, 0.25, 0.5, 0.45, 0.405, 0.3645, 0.32805, 0.295245, 0.2657205, 0.23914845];
const CHAINED: [f64; 12] = [
    0.25,
    0.225,
    0.2025,
    0.18225,
    0.32805,
    0.295245,
    0.2657205,
    0.23914845,
    0.215233605,
    0.1937102445,
    0.17433922005,
    0.156905298045,
];
const MULTIPLICATIVE: [f64; 12] = [
    0.5,
    0.475,
    0.4275,
    0.363375,
    0.2907,
    0.218025,
    0.1526175,
    0.099201375,
    0.059520825,
    0.03273645375,
    0.016368226875,
    0.00736570209375,
];

#[test]
fn clipping() {
    let cases = [
        (
            2.0,
            5.5,
            [
                0.2727272231405049,
                -0.5454544462810098,
                0.8181816694215147,
                -1.0909088925620196,
                0.13636361157025245,
            ],
        ),
        (
            1.0,
            10.5,
            [
                0.142857129251702,
                -0.285714258503404,
                0.42857138775510595,
                -0.571428517006808,
                0.071428564625851,
            ],
        ),
        (
            3.0,
            4.643522023687861,
            [0.323030593871958, -0.646061187743916, 0.969091781615874, -1.292122375487832, 0.161515296935979],
        ),
        (
            f64::INFINITY,
            4.0,
            [
                0.37499990625002344,
                -0.7499998125000469,
                1.1249997187500704,
                -1.4999996250000938,
                0.18749995312501172,
            ],
        ),
    ];
    let params = [leaf(&[0.0; 3]), leaf(&[0.0; 2])];
    let set = || {
        params[0].set_grad(Some(&Tensor::from([1.0f64, -2.0, 3.0]))).unwrap();
        params[1].set_grad(Some(&Tensor::from([-4.0f64, 0.5]))).unwrap();
    };
    let grads =
        || -> Vec<f64> { params.iter().flat_map(|p| p.grad().unwrap().to_vec::<f64>().unwrap()).collect() };
    for (order, norm, expected) in cases {
        set();
        assert_close(
            &clip_grad_norm_(&params, 1.5, ClipGradNorm::default().norm_type(order))
                .unwrap()
                .to_vec::<f64>()
                .unwrap(),
            &[norm],
        );
        assert_close(&grads(), &expected);
    }
    set();
    clip_grad_norm_(&params, 100.0, ClipGradNorm::default().norm_type(2.0)).unwrap();
    assert_eq!(grads(), [1.0, -2.0, 3.0, -4.0, 0.5]);
    clip_grad_value_(&params, 2.5).unwrap();
    assert_eq!(grads(), [1.0, -2.0, 2.5, -2.5, 0.5]);
    assert!(
        clip_grad_norm_(&params, -1.0, ClipGradNorm::default().norm_type(2.0)).is_err()
            && clip_grad_value_(&params, -1.0).is_err()
    );
}
