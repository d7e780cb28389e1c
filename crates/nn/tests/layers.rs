//! Tests of layers against PyTorch's numbers, and of their training and evaluation modes.
//!
//! The literals are PyTorch 2.15's in f64, with weights that are the functions written beside them.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use flambeau_core::ScalarType;
use flambeau_nn::{BatchNorm2d, Dropout, Forward, LayerNorm, Module, MultiheadAttention, RmsNorm, StateDict};
use flambeau_ops::Tensor;

/// `f(0), f(1), ..` in these sizes.
fn made(sizes: &[i64], f: impl Fn(f64) -> f64) -> Tensor {
    let count: i64 = sizes.iter().product();
    Tensor::from_vec((0..count).map(|i| f(i as f64)).collect(), sizes).unwrap()
}

/// `module` in f64, without gradients, with these values.
fn with<M: Module>(mut module: M, values: &[(&str, Tensor)]) -> M {
    module.to_dtype(ScalarType::F64).unwrap();
    module.requires_grad_(false).unwrap();
    let state: StateDict = values.iter().map(|(name, tensor)| (name.to_string(), tensor.clone())).collect();
    assert!(module.load_state_dict_partial(&state).unwrap().unexpected.is_empty());
    module
}

fn assert_output(module: &dyn Forward, input: &Tensor, expected: &[f64]) {
    let got = module.forward(input).unwrap();
    assert_eq!(got.sizes(), input.sizes());
    for (g, e) in got.to_vec::<f64>().unwrap().iter().zip(expected) {
        assert!((g - e).abs() < 1e-12, "expected {expected:?} but got {got}");
    }
}

#[test]
fn layer_and_rms_norm() {
    let (weight, bias) = (made(&[6], |i| i * 0.1 + 0.5), made(&[6], |i| i * 0.2 - 0.3));
    let input = made(&[2, 6], f64::sin);
    assert_output(
        &with(LayerNorm::new(&[6]).unwrap(), &[("weight", weight.clone()), ("bias", bias)]),
        &input,
        &[
            -0.32061708710070486,
            0.5843269935393396,
            0.9650612879011785,
            0.42556613480940436,
            -0.4936928521155594,
            -0.6879671543841168,
            -0.5273632858292541,
            0.4290898925685487,
            1.0493514399095656,
            0.7258495637584682,
            -0.24916250357540312,
            -0.7832154316313282,
        ],
    );
    let mut norm = RmsNorm::new(&[6]).unwrap();
    norm.eps = Some(1e-6);
    assert_output(
        &with(norm, &[("weight", weight)]),
        &input,
        &[
            0.0,
            0.7084717447239866,
            0.8931741404058525,
            0.15842025869885776,
            -0.9557783820401369,
            -1.3456014649629182,
            -0.1990981693220812,
            0.5617648122621761,
            0.9869573583661985,
            0.46984959093146417,
            -0.6977583359114425,
            -1.4250907394013712,
        ],
    );
    assert!(LayerNorm::new(&[]).is_err() && RmsNorm::new(&[0]).is_err());
}

#[test]
fn batch_norm_trains_and_remembers() {
    let norm = with(BatchNorm2d::new(2).unwrap(), &[]);
    let input = made(&[2, 2, 2, 2], f64::cos);
    assert_output(
        &norm,
        &input,
        &[
            1.8144228955195119,
            1.130543548765636,
            -0.2923389739616726,
            -1.1460330432258774,
            -1.4842971816476742,
            -0.03915108028325336,
            1.003894890810555,
            0.6858690760630497,
            0.11029467206388013,
            -1.0287119118618804,
            -0.9215121591768793,
            0.33333497187728195,
            0.8245573825172088,
            0.9226053399766796,
            -0.26568125025446887,
            -1.6477971771820974,
        ],
    );
    let close = |tensor: &Tensor, expected: [f64; 2]| {
        let got = tensor.to_vec::<f64>().unwrap();
        assert!(got.iter().zip(expected).all(|(g, e)| (g - e).abs() < 1e-12), "{got:?}");
    };
    close(norm.running_mean.as_ref().unwrap(), [-0.021963914425764255, 0.030905514389062323]);
    close(norm.running_var.as_ref().unwrap(), [0.9516378330966814, 0.948075158684649]);
    norm.eval();
    assert_output(
        &norm,
        &input,
        &[
            1.0476046792721296,
            0.576373309333062,
            -0.4040728521569671,
            -0.9923161258831577,
            -0.7030414841968523,
            0.25958461711743375,
            0.9543678474756859,
            0.7425277090435569,
            -0.12663560317324124,
            -0.9114752616022327,
            -0.8376085970295085,
            0.02705171979034561,
            0.8349093607075656,
            0.900220074234681,
            0.1086906319739449,
            -0.8119504471851672,
        ],
    );
    assert_eq!(norm.num_batches_tracked.as_ref().unwrap().item::<i64>().unwrap(), 1);
    let names: Vec<String> = norm.named_buffers().into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["running_mean", "running_var", "num_batches_tracked"]);
}

#[test]
fn attention_looks_everywhere_or_only_back() {
    let values = [
        ("in_proj_weight", made(&[12, 4], |i| (i * 0.7).sin())),
        ("in_proj_bias", made(&[12], |i| (i * 0.3).cos() * 0.1)),
        ("out_proj.weight", made(&[4, 4], |i| (i * 1.1).cos())),
        ("out_proj.bias", made(&[4], |i| i * 0.05)),
    ];
    let input = made(&[2, 3, 4], |i| (i * 0.37).sin());
    let attention = || with(MultiheadAttention::new(4, 2).unwrap(), &values);
    assert_output(
        &attention(),
        &input,
        &[
            -0.08464457704941775,
            1.7681279807587116,
            -0.8714298295841857,
            -0.9710233457412015,
            -0.44507108865751754,
            0.4184027973989792,
            0.318626510592105,
            -0.35278502330625683,
            -1.0491185049235545,
            0.49390013779249226,
            0.8762682982603903,
            -0.7710456657477505,
            -1.6561854718439435,
            1.4716377224828643,
            0.8823534692034586,
            -1.752523596538608,
            0.98559844281427,
            -0.26787372203577836,
            -0.6902123562463146,
            0.9535901847109561,
            1.1582954007928556,
            -1.23909611797975,
            -0.26593218155934417,
            1.6640220931319445,
        ],
    );
    assert_output(
        &attention().causal(true),
        &input,
        &[
            -1.1386571583699832,
            0.212104662396501,
            1.1390169761075855,
            -0.650752800843387,
            -0.86228054557074,
            0.28758321166404216,
            0.8162462849719399,
            -0.5278352644076562,
            -1.0491185049235545,
            0.49390013779249226,
            0.8762682982603903,
            -0.7710456657477505,
            1.451834045079532,
            -1.0402738638297795,
            -0.6816800538129993,
            1.7207458125162485,
            1.0213133901678646,
            -0.3203349066620234,
            -0.6936812107326061,
            1.00818355534682,
            1.1582954007928556,
            -1.23909611797975,
            -0.26593218155934417,
            1.6640220931319445,
        ],
    );
    assert!(MultiheadAttention::new(5, 2).is_err());
}

#[test]
fn dropout_follows_the_mode_of_its_model() {
    let dropout = Dropout::new(0.25).unwrap();
    let input = Tensor::ones(&[1000], ScalarType::F32).unwrap();
    let output = dropout.forward(&input).unwrap().to_vec::<f32>().unwrap();
    let kept = output.iter().filter(|x| **x != 0.0).count();
    assert!(output.iter().all(|x| *x == 0.0 || (*x - 4.0 / 3.0).abs() < 1e-6));
    // 750 ± 14; five standard deviations.
    assert!((680..=820).contains(&kept), "{kept}");
    dropout.eval();
    assert!(dropout.forward(&input).unwrap().equal(&input).unwrap());
    assert!(Dropout::new(1.5).is_err() && Dropout::new(f64::NAN).is_err());
}

#[test]
fn orthogonal_weights_have_orthonormal_rows_or_columns() {
    for sizes in [&[4i64, 7][..], &[7, 4], &[5, 2, 3], &[3, 0]] {
        let weight = made(sizes, f64::sin);
        flambeau_nn::init::orthogonal_(&weight, 2.0).unwrap();
        let flat = weight.reshape(&[sizes[0], sizes[1..].iter().product()]).unwrap();
        let transposed = flat.t().unwrap();
        let gram =
            if flat.sizes()[0] <= flat.sizes()[1] { flat.mm(&transposed) } else { transposed.mm(&flat) }
                .unwrap();
        let n = gram.sizes()[0] as usize;
        for (at, value) in gram.to_vec::<f64>().unwrap().into_iter().enumerate() {
            let expected = if at / n == at % n { 4.0 } else { 0.0 };
            assert!((value - expected).abs() < 1e-13, "{sizes:?}: {value} is not {expected}");
        }
    }
    assert!(flambeau_nn::init::orthogonal_(&made(&[3], f64::sin), 1.0).is_err());
}
