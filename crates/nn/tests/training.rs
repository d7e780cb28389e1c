//! Tests that models learn, and that training resumes from a checkpoint as if it had not stopped.

use flambeau_autograd::Autograd;
use flambeau_core::{ErrorKind, Result, ScalarType, manual_seed};
use flambeau_nn::optim::{AdamOptions, AdamW, CosineAnnealing, Optimizer, Scheduler, Sgd, SgdOptions};
use flambeau_nn::{Forward, Linear, Module, Relu, Sequential, Silu, Tanh, init};
use flambeau_ops::Tensor;

#[derive(Module)]
struct Net {
    hidden: Linear,
    out: Linear,
}

impl Net {
    fn new() -> Result<Self> {
        Ok(Net { hidden: Linear::new(2, 8)?, out: Linear::new(8, 1)? })
    }
}

impl Forward for Net {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        self.out.forward(&self.hidden.forward(input)?.tanh()?)
    }
}

fn xor() -> (Tensor, Tensor) {
    let inputs = Tensor::from([[0.0f32, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]]);
    (inputs, Tensor::from([[0.0f32], [1.0], [1.0], [0.0]]))
}

/// The sum of squared errors, after its gradient has been found.
fn loss(model: &dyn Forward, inputs: &Tensor, targets: &Tensor) -> Result<f32> {
    model.zero_grad()?;
    let error = model.forward(inputs)?.sub(targets)?;
    let loss = error.t()?.mm(&error)?;
    loss.backward()?;
    loss.item::<f32>()
}

fn train(model: &dyn Forward, optimizer: &mut dyn Optimizer, steps: usize) -> Result<f32> {
    let (inputs, targets) = xor();
    for _ in 0..steps {
        loss(model, &inputs, &targets)?;
        optimizer.step()?;
    }
    loss(model, &inputs, &targets)
}

#[test]
fn two_layers_learn_xor() {
    manual_seed(3);
    let net = Net::new().unwrap();
    let options = SgdOptions::default().lr(0.1).momentum(0.9);
    let mut sgd = Sgd::new(net.parameters(), options).unwrap();
    let last = train(&net, &mut sgd, 500).unwrap();
    assert!(last < 1e-3, "{last}");
}

#[test]
fn no_line_separates_xor() {
    manual_seed(3);
    let line = Linear::new(2, 1).unwrap();
    let mut sgd = Sgd::new(line.parameters(), SgdOptions::default().lr(0.1)).unwrap();
    // The best line answers 1/2 everywhere.
    let last = train(&line, &mut sgd, 500).unwrap();
    assert!((last - 1.0).abs() < 1e-4, "{last}");
}

/// More parameters than examples: any answers can be learnt by heart.
#[test]
fn a_wide_net_learns_noise_by_heart() {
    manual_seed(7);
    let net =
        Sequential::new().then(Linear::new(4, 64).unwrap()).then(Silu).then(Linear::new(64, 1).unwrap());
    let (inputs, targets) = (Tensor::zeros(&[16, 4], ()).unwrap(), Tensor::zeros(&[16, 1], ()).unwrap());
    init::normal_(&inputs, 0.0, 1.0).unwrap();
    init::normal_(&targets, 0.0, 1.0).unwrap();
    let mut adam = AdamW::new(net.parameters(), AdamOptions::default().lr(0.02)).unwrap();
    let mut schedule = Scheduler::new(CosineAnnealing { period: 600, min: 0.0 }, &mut adam).unwrap();
    let first = loss(&net, &inputs, &targets).unwrap();
    for _ in 0..600 {
        loss(&net, &inputs, &targets).unwrap();
        adam.step().unwrap();
        schedule.step(&mut adam).unwrap();
    }
    let last = loss(&net, &inputs, &targets).unwrap();
    assert!(last < 1e-3 * first, "{first} {last}");
}

/// Least squares has an answer: the gradient of a linear layer against the normal equations solved by hand.
#[test]
fn regression_finds_the_line() {
    let layer = Linear::new(1, 1).unwrap();
    let inputs = Tensor::from([[0.0f32], [1.0], [2.0], [3.0]]);
    let targets = Tensor::from([[1.0f32], [2.5], [3.5], [5.0]]);
    let mut sgd = Sgd::new(layer.parameters(), SgdOptions::default().lr(0.05).momentum(0.5)).unwrap();
    for _ in 0..400 {
        loss(&layer, &inputs, &targets).unwrap();
        sgd.step().unwrap();
    }
    // Means 1.5 and 3; covariances 6.5 / 5.
    let (weight, bias) =
        (layer.weight.item::<f32>().unwrap(), layer.bias.as_ref().unwrap().item::<f32>().unwrap());
    assert!((weight - 1.3).abs() < 1e-4 && (bias - 1.05).abs() < 1e-4, "{weight} {bias}");
}

#[test]
fn same_seed_same_model() {
    let made = || {
        manual_seed(11);
        Net::new().unwrap().hidden.weight.to_vec::<f32>().unwrap()
    };
    assert_eq!(made(), made());
}

#[test]
fn a_saved_model_goes_on_as_before() {
    manual_seed(5);
    let options = SgdOptions::default().lr(0.05).momentum(0.9);
    let (a, b) = (Net::new().unwrap(), Net::new().unwrap());
    let mut first = Sgd::new(a.parameters(), options.clone()).unwrap();
    let mut second = Sgd::new(b.parameters(), SgdOptions::default()).unwrap();
    train(&a, &mut first, 10).unwrap();
    b.load_state_dict(&a.state_dict().unwrap()).unwrap();
    second.load_state_dict(&first.state_dict().unwrap()).unwrap();
    assert_eq!(second.groups()[0].options, options);
    let (x, y) = (train(&a, &mut first, 10).unwrap(), train(&b, &mut second, 10).unwrap());
    assert_eq!(x.to_bits(), y.to_bits());
}

#[test]
fn states_that_do_not_fit_are_refused_and_change_nothing() {
    let (small, large) = (Linear::new(2, 2).unwrap(), Linear::new(2, 3).unwrap());
    let before = large.bias.as_ref().unwrap().to_vec::<f32>().unwrap();

    let error = large.load_state_dict(&small.state_dict().unwrap()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Shape);
    assert!(error.message().contains("`weight`"), "{error}");

    let mut state = large.state_dict().unwrap();
    state.insert("bias".into(), Tensor::zeros(&[3], ScalarType::F64).unwrap());
    let error = large.load_state_dict(&state).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Dtype);
    assert!(error.message().contains("`bias`") && error.message().contains("float64"), "{error}");

    let mut state = large.state_dict().unwrap();
    state.insert("extra".into(), Tensor::from(1.0f32));
    state.remove("weight");
    state.insert("bias".into(), Tensor::zeros(&[3], ScalarType::F32).unwrap());
    let error = large.load_state_dict(&state).unwrap_err();
    assert!(error.message().contains("missing keys [\"weight\"]"), "{error}");
    assert!(error.message().contains("unexpected keys [\"extra\"]"), "{error}");
    assert_eq!(large.bias.as_ref().unwrap().to_vec::<f32>().unwrap(), before);

    let difference = large.load_state_dict_partial(&state).unwrap();
    assert_eq!((difference.missing, difference.unexpected), (vec!["weight".into()], vec!["extra".into()]));
    assert_eq!(large.bias.as_ref().unwrap().to_vec::<f32>().unwrap(), [0.0; 3]);
}

#[test]
fn freezing_and_clearing() {
    let net = Net::new().unwrap();
    net.hidden.requires_grad_(false).unwrap();
    let (inputs, targets) = xor();
    loss(&net, &inputs, &targets).unwrap();
    assert!(net.hidden.weight.grad().is_none() && net.out.weight.grad().is_some());
    net.zero_grad().unwrap();
    assert!(net.out.weight.grad().is_none());
    assert!(
        Sgd::new(net.parameters(), SgdOptions::default()).is_err(),
        "frozen parameters cannot be trained"
    );
}

#[derive(Module)]
struct Tied {
    a: Tensor,
    b: Tensor,
}

impl Forward for Tied {
    fn forward(&self, input: &Tensor) -> Result<Tensor> {
        input.mul(&self.a)?.add(&self.b)
    }
}

#[test]
fn shared_weights_are_one_parameter_and_stay_shared() {
    let a = Tensor::from([1.0f32, 2.0]);
    a.requires_grad_(true).unwrap();
    let mut tied = Tied { b: a.clone(), a };
    assert_eq!(tied.named_parameters().len(), 1);
    assert_eq!(tied.state_dict().unwrap().len(), 2);
    tied.to_dtype(ScalarType::F64).unwrap();
    assert!(tied.a.is_same(&tied.b) && tied.a.dtype() == ScalarType::F64 && tied.a.requires_grad());
    assert_eq!(tied.a.to_vec::<f64>().unwrap(), [1.0, 2.0]);
}

#[test]
fn sequential_is_named_by_numbers_and_walks_in_order() {
    let net =
        Sequential::new().then(Linear::new(2, 3).unwrap()).then(Relu).then(Sequential::new().then(Tanh));
    let mut names = vec![];
    net.for_each_module(&mut |name, _| names.push(name.to_string()));
    assert_eq!(names, ["0", "1", "2", "2.0"]);
    let keys: Vec<String> = net.state_dict().unwrap().into_keys().collect();
    assert_eq!(keys, ["0.bias", "0.weight"]);
}
