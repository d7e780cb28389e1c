//! Tests that a run which was stopped resumes to the same bits, on any number of threads, and that damaged checkpoints are errors.
//!
//! The generator, the number of threads and the count of nodes belong to the process, so a lock keeps tests apart.

use super::args::Args;
use super::text::Text;
use super::train::Training;
use clap::Parser;
use flambeau::Result;
use flambeau::autograd::live_nodes;
use flambeau::distributed::launch;
use flambeau::nn::serialization::Checkpoint;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A folder of its own for a test, with a text in it, while no other test runs.
struct Sandbox {
    folder: PathBuf,
    _alone: MutexGuard<'static, ()>,
}

impl Sandbox {
    fn new(name: &str) -> Self {
        static ALONE: Mutex<()> = Mutex::new(());
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = std::env::temp_dir().join(format!("flambeau-gpt-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let text: String = (0..60).map(|i| format!("{i} times {i} makes {}.\n", i * i)).collect();
        fs::write(folder.join("text.txt"), text).unwrap();
        Sandbox { folder, _alone: alone }
    }

    /// A tiny model that drops out, trained on the text in the folder; results go to `out` in it.
    fn arguments(&self, out: &str, more: &str) -> Vec<String> {
        let (text, out) = (self.folder.join("text.txt"), self.folder.join(out));
        let sizes = "--batch 2 --context 8 --layers 1 --width 8 --heads 2 --dropout 0.2 --sample 20";
        let line = format!("char_gpt --text {} --out {} {sizes} {more}", text.display(), out.display());
        line.split_whitespace().map(String::from).collect()
    }

    fn training(&self, out: &str, more: &str) -> Result<Training> {
        let args = Args::try_parse_from(self.arguments(out, more)).unwrap();
        let text = Text::read(&args.text, args.context)?;
        Training::new(args, text)
    }

    /// Trains to the end.
    fn train(&self, out: &str, more: &str) -> Training {
        let mut training = self.training(out, more).unwrap();
        training.run(&AtomicBool::new(false)).unwrap();
        training
    }

    fn checkpoint(&self, out: &str) -> PathBuf {
        self.folder.join(out).join("checkpoint.safetensors")
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// All that a checkpoint holds, each tensor as its bits.
#[derive(Debug, PartialEq)]
struct Bits {
    tensors: BTreeMap<String, Vec<u64>>,
    rest: String,
}

fn bits(path: &Path) -> Bits {
    let Checkpoint { model, optimizer, step, generator, data, metadata } = Checkpoint::load(path).unwrap();
    let exactly = |tensor: &flambeau::Tensor| {
        let wide = tensor.to(flambeau::ScalarType::F64).unwrap().to_vec::<f64>().unwrap();
        wide.into_iter().map(f64::to_bits).collect()
    };
    let tensors: BTreeMap<String, Vec<u64>> =
        model.iter().chain(&optimizer).map(|(name, tensor)| (name.clone(), exactly(tensor))).collect();
    assert_eq!(tensors.len(), model.len() + optimizer.len());
    Bits { tensors, rest: format!("{step} {generator:?} {data:?} {metadata:?}") }
}

#[test]
fn a_run_that_was_stopped_goes_on_to_the_same_bits() {
    let sandbox = Sandbox::new("resume");
    let whole = sandbox.train("whole", "--steps 12 --every 5");
    // Stopped after 1, 2, .. steps, which fall before, between and on measurements.
    for _ in 0..7 {
        let resume = if sandbox.checkpoint("parts").exists() { "--resume" } else { "" };
        let mut part = sandbox.training("parts", &format!("--steps 12 --every 5 {resume}")).unwrap();
        part.run(&AtomicBool::new(true)).unwrap();
    }
    let parts = sandbox.train("parts", "--steps 12 --every 5 --resume");
    assert_eq!(bits(&sandbox.checkpoint("parts")), bits(&sandbox.checkpoint("whole")));
    assert_eq!((parts.step(), parts.points()), (12, whole.points()));
    assert_eq!(whole.points().iter().map(|p| p.step).collect::<Vec<_>>(), [5, 10, 12]);
    let go = AtomicBool::new(false);
    assert_eq!(parts.sample(&go).unwrap(), whole.sample(&go).unwrap());
    for file in ["loss.csv", "loss.svg"] {
        let [one, other] =
            ["parts", "whole"].map(|out| fs::read(sandbox.folder.join(out).join(file)).unwrap());
        assert!(one == other && !one.is_empty(), "{file}");
    }
    // Another seed is another run: the comparison can fail.
    sandbox.train("other", "--steps 12 --every 5 --seed 2");
    assert_ne!(bits(&sandbox.checkpoint("other")).tensors, bits(&sandbox.checkpoint("whole")).tensors);
}

#[test]
fn one_thread_and_two_give_the_same_bits() {
    let sandbox = Sandbox::new("threads");
    // Wide enough for products to be shared out.
    let wide = "--steps 2 --batch 8 --context 32 --width 64 --heads 2";
    let before = flambeau::num_threads();
    for (threads, out) in [(1, "one"), (2, "two")] {
        flambeau::set_num_threads(threads);
        sandbox.train(out, wide);
    }
    flambeau::set_num_threads(before);
    assert_eq!(bits(&sandbox.checkpoint("one")), bits(&sandbox.checkpoint("two")));
}

/// The arguments of a rank, which this test program starts itself as.
const ARGUMENTS: &str = "CHAR_GPT_ARGUMENTS";

#[test]
fn one_two_and_four_ranks_write_the_same_bytes() {
    if let Ok(arguments) = std::env::var(ARGUMENTS) {
        let args = Args::try_parse_from(arguments.split_whitespace()).unwrap();
        let text = Text::read(&args.text, args.context).unwrap();
        return Training::new(args, text).unwrap().run(&AtomicBool::new(false)).unwrap();
    }
    let sandbox = Sandbox::new("ranks");
    let more = "--steps 6 --every 3 --batch 8 --micro-batches 4";
    let train = |ranks: usize, out: &str| {
        let arguments = sandbox.arguments(out, &format!("{more} --ranks {ranks}")).join(" ");
        let rank = || {
            let mut command = Command::new(std::env::current_exe().unwrap());
            command.args(["tests::one_two_and_four_ranks_write_the_same_bytes", "--exact"]);
            command.env(ARGUMENTS, &arguments).stdout(Stdio::null());
            command
        };
        launch(ranks, 0, &rank).unwrap();
        fs::read(sandbox.checkpoint(out)).unwrap()
    };
    let whole = train(1, "one");
    assert!(train(2, "two") == whole && train(4, "four") == whole && !whole.is_empty());
    // Other parts of a step are another sum: the comparison can fail.
    sandbox.train("plain", "--steps 6 --every 3 --batch 8");
    assert!(fs::read(sandbox.checkpoint("plain")).unwrap() != whole);
}

#[test]
fn no_history_outlives_training() {
    let sandbox = Sandbox::new("nodes");
    let before = live_nodes();
    let training = sandbox.train("out", "--steps 3 --every 2");
    training.sample(&AtomicBool::new(false)).unwrap();
    drop(training);
    assert_eq!(live_nodes(), before);
}

#[test]
fn it_learns() {
    let sandbox = Sandbox::new("learns");
    let training = sandbox.train("out", "--steps 150 --every 75 --dropout 0 --lr 0.02");
    let [first, last] = training.points() else { unreachable!("two measurements") };
    assert!(last.held_out < first.held_out && last.held_out < training.bigram, "{first:?} {last:?}");
}

#[test]
fn damaged_and_foreign_checkpoints_are_refused() {
    let sandbox = Sandbox::new("damage");
    let path = sandbox.checkpoint("out");
    let refused = |more: &str, what: &str| {
        let before = fs::read(&path).ok();
        let Err(error) = sandbox.training("out", &format!("--steps 4 --resume {more}")) else {
            unreachable!("{what} was taken")
        };
        assert!(error.message().contains(what), "{what}: {error}");
        assert!(error.message().contains("checkpoint.safetensors"), "{error}");
        assert_eq!(fs::read(&path).ok(), before, "and left as it was");
    };
    refused("", "No such file");
    sandbox.train("out", "--steps 2");
    let whole = fs::read(&path).unwrap();
    refused("--seed 2", "made with --seed 1");
    for cut in [0, 5, 100, whole.len() / 2, whole.len() - 1] {
        fs::write(&path, &whole[..cut]).unwrap();
        refused("", "expected");
    }
    for at in [whole.len() - 1, whole.len() - 30] {
        let mut flipped = whole.clone();
        flipped[at] ^= 1;
        fs::write(&path, flipped).unwrap();
        refused("", "checksum");
    }
    fs::write(&path, &whole).unwrap();
    let text = sandbox.folder.join("text.txt");
    let words = fs::read_to_string(&text).unwrap();
    fs::write(&text, words.replacen("0 times 0", "0 times 1", 1)).unwrap();
    refused("", "another text");
    fs::write(&text, words).unwrap();
    assert_eq!(sandbox.training("out", "--steps 4 --resume").unwrap().step(), 2);
}

#[test]
fn models_of_other_shapes_are_refused() {
    let sandbox = Sandbox::new("shapes");
    sandbox.train("out", "--steps 1");
    for (name, other) in [("width", "16"), ("heads", "4"), ("layers", "2"), ("context", "9")] {
        let Err(error) = sandbox.training("out", &format!("--steps 1 --resume --{name} {other}")) else {
            unreachable!("{name} was taken")
        };
        assert!(error.message().contains(&format!("made with --{name}")), "{error}");
    }
}

#[test]
fn texts_that_cannot_be_trained_on_are_named() {
    let sandbox = Sandbox::new("texts");
    let refused = |name: &str, what: &str| {
        let Err(error) = Text::read(&sandbox.folder.join(name), 8) else { unreachable!("{name} was taken") };
        assert!(error.message().contains(name) && error.message().contains(what), "{name}: {error}");
    };
    fs::create_dir_all(sandbox.folder.join("empty/inside")).unwrap();
    fs::write(sandbox.folder.join("short.txt"), "too short").unwrap();
    fs::write(sandbox.folder.join("latin1.txt"), b"caf\xe9 and so on").unwrap();
    fs::write(sandbox.folder.join("nothing.md"), "").unwrap();
    refused("missing.txt", "No such file");
    refused("empty", "\"md\"");
    refused("short.txt", "more than 8 characters");
    refused("latin1.txt", "byte 3");
    refused("nothing.md", "got 0 and 0");
    // In a folder the bad file is named.
    let Err(error) = Text::read(&sandbox.folder, 8) else { unreachable!("taken") };
    assert!(error.message().contains("latin1.txt"), "{error}");
    let Err(error) = sandbox.training("out", "--prompt %").unwrap().prompt() else { unreachable!("taken") };
    assert!(error.message().contains("--prompt") && error.message().contains("'%'"), "{error}");
    for option in ["--steps 0", "--every 0", "--batch 0", "--width 9999999999"] {
        let (name, _) = option.split_once(' ').unwrap();
        let args = Args::try_parse_from(["char_gpt"].into_iter().chain(option.split(' '))).unwrap();
        assert!(args.check().unwrap_err().message().contains(name));
    }
}

#[test]
fn training_that_blows_up_keeps_the_checkpoint_of_before() {
    let sandbox = Sandbox::new("nan");
    // The rate is 0 in the first step of the warm-up.
    let mut training = sandbox.training("out", "--steps 40 --every 1 --lr 1e30").unwrap();
    let error = training.run(&AtomicBool::new(false)).unwrap_err();
    assert!(error.message().contains("--lr"), "{error}");
    assert_eq!(Checkpoint::load(sandbox.checkpoint("out")).unwrap().step, 1);
}

/// All losses are 0 from the first step.
#[test]
fn a_text_of_one_character_has_a_picture_too() {
    let sandbox = Sandbox::new("one");
    fs::write(sandbox.folder.join("text.txt"), "a".repeat(200)).unwrap();
    let training = sandbox.train("out", "--steps 1");
    assert_eq!((training.points()[0].held_out, training.bigram), (0.0, 0.0));
    assert!(fs::read_to_string(sandbox.folder.join("out/loss.svg")).unwrap().contains("bigram model"));
}

/// A path that cannot be written to is an error before the first step, and what is there is not replaced.
#[test]
fn a_folder_that_cannot_be_made_is_named() {
    let sandbox = Sandbox::new("folder");
    fs::write(sandbox.folder.join("taken"), "a file").unwrap();
    let mut training = sandbox.training("taken", "--steps 1").unwrap();
    let error = training.run(&AtomicBool::new(false)).unwrap_err();
    assert!(error.message().contains("--out") && training.step() == 0, "{error}");
    assert_eq!(fs::read_to_string(sandbox.folder.join("taken")).unwrap(), "a file");
}

/// That a failed save leaves the checkpoint of before is tested where checkpoints are made.
#[test]
fn a_curve_that_cannot_be_written_costs_no_checkpoint() {
    let sandbox = Sandbox::new("curve");
    fs::create_dir_all(sandbox.folder.join("out/loss.csv")).unwrap();
    let mut training = sandbox.training("out", "--steps 4 --every 2").unwrap();
    let error = training.run(&AtomicBool::new(false)).unwrap_err();
    assert!(error.message().contains("loss.csv"), "{error}");
    assert_eq!(sandbox.training("out", "--steps 4 --resume").unwrap().step(), 2);
}

#[cfg(unix)]
mod ctrl_c {
    use super::*;
    use std::process::{Child, Command, Output, Stdio};
    use std::time::{Duration, Instant};

    const LINE: &str = "CHAR_GPT_LINE";

    /// What the process runs whose signals are tested.
    #[test]
    #[ignore = "only the test below starts it, with a command line in the environment"]
    fn the_program() {
        let line = std::env::var(LINE).unwrap();
        super::super::run(Args::try_parse_from(line.split('\n')).unwrap()).unwrap();
    }

    fn start(line: &[String]) -> Child {
        Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "tests::ctrl_c::the_program", "--ignored", "--nocapture"])
            .env(LINE, line.join("\n"))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
    }

    fn finish(program: Child) -> String {
        let Output { status, stdout, .. } = program.wait_with_output().unwrap();
        let said = String::from_utf8(stdout).unwrap();
        assert!(status.success(), "{said}");
        said
    }

    #[test]
    fn ctrl_c_saves_and_the_run_goes_on_to_the_same_bits() {
        let sandbox = Sandbox::new("ctrl-c");
        let options = format!("--steps {STEPS} --every 10");
        let program = start(&sandbox.arguments("stopped", &options));
        let begin = Instant::now();
        while !sandbox.checkpoint("stopped").exists() && begin.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(1));
        }
        let interrupted = Command::new("kill").args(["-INT", &program.id().to_string()]).status().unwrap();
        assert!(interrupted.success());
        let said = finish(program);
        assert!(said.contains("go on with --resume"), "stopped before the end: {said}");
        let step = Checkpoint::load(sandbox.checkpoint("stopped")).unwrap().step;
        assert!(said.contains(&format!("saved at step {step};")) && step < STEPS, "{step}: {said}");

        let said = finish(start(&sandbox.arguments("stopped", &format!("{options} --resume"))));
        assert!(said.contains("held-out loss"), "{said}");
        finish(start(&sandbox.arguments("whole", &options)));
        assert_eq!(bits(&sandbox.checkpoint("stopped")), bits(&sandbox.checkpoint("whole")));
    }

    /// Enough that the signal comes before the end.
    const STEPS: u64 = 200;
}
