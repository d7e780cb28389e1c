//! `cargo xtask miri`: runs tests of code with pointers under Miri: a half that a seed selects, or `--all`.

use std::collections::HashSet;
use std::process::ExitCode;
use std::thread;
use std::time::Instant;

use clap::Args;

use super::{cargo, count_passed, has};
use crate::Outcome;
use crate::seed::{self, Seed};

#[derive(Args)]
pub(crate) struct Options {
    /// Runs all tests instead of half of them, including those that take minutes.
    #[arg(long)]
    all: bool,
    /// The seed that selects the half; by default that of the commit.
    #[arg(long)]
    seed: Option<u64>,
}

/// A test program, and the prefixes of the names of tests that use pointers; if there are none, all tests run.
struct Program {
    package: &'static str,
    target: &'static [&'static str],
    tests: &'static [&'static str],
}

const PROGRAMS: &[Program] = &[
    Program { package: "core", target: &["--lib"], tests: &[] },
    Program {
        package: "ops",
        target: &["--test", "operators"],
        tests: &[
            "accessor::",
            "memory::",
            "private::",
            "accumulate::few_and_many",
            "accumulate::shared_memory",
            "view_in_place::",
            "sparse::forged",
        ],
    },
    Program {
        package: "autograd",
        target: &["--test", "contract"],
        tests: &["functions::saved", "functions::outputs"],
    },
];

/// Tests that take minutes under Miri, each with the reason.
const SLOW: &[(&str, &str)] = &[
    ("allocator::reserve::tests::blocks_are_apart_and_all_of_it_comes_back", "compares megabytes one by one"),
    ("error::tests::long_messages_are_cut_between_characters", "formats four million numbers"),
    ("sizes_and_strides::tests::contiguous_strides_are_exact_or_saturate", "tries twenty thousand shapes"),
];

/// Tests that Miri cannot run, each with the reason.
const UNABLE: &[(&str, &str)] = &[(
    "fallible::tests::what_cannot_be_had_is_an_error_that_says_how_much",
    "a request for more memory than there is ends Miri",
)];

/// The result of some tests of a program.
struct Ended {
    passed: usize,
    failed: bool,
}

pub(crate) fn run(options: &Options) -> Outcome {
    let install = "rustup toolchain install nightly --component miri,rust-src";
    if !has("miri", &["+nightly", "miri", "--version"], install)? {
        return Ok(ExitCode::SUCCESS);
    }
    let (start, seed) = (Instant::now(), seed::given_or_of_the_commit(options.seed));
    let (mut counts, mut failed) = (vec![], false);
    for program in PROGRAMS {
        let all = program.list()?;
        let chosen = if options.all {
            all.clone()
        } else {
            all.iter().filter(|name| drawn(name, seed)).cloned().collect()
        };
        let ended = program.run(&chosen)?;
        failed |= ended.failed;
        counts.push(format!("{} of {} tests of {}", ended.passed, all.len(), program.package));
    }
    let which = if options.all { "all".to_owned() } else { format!("seed {seed}") };
    println!("miri: {which}: {} passed, in {:.0} s", counts.join(", "), start.elapsed().as_secs_f64());
    for (name, reason) in SLOW.iter().filter(|_| !options.all) {
        println!("  left to --all: {name}: {reason}");
    }
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Whether the half that the seed selects has this test.
fn drawn(name: &str, seed: Seed) -> bool {
    !SLOW.iter().any(|(slow, _)| *slow == name) && seed.draws(name)
}

impl Program {
    fn command(&self, rest: &[&str]) -> std::process::Command {
        let mut command = cargo(&["+nightly", "miri", "test", "--quiet", "--package"]);
        command.arg(format!("flambeau-{}", self.package)).args(self.target).arg("--").args(rest);
        // The scalar code: Miri does not support most vector instructions.
        command.env("FLAMBEAU_CPU_CAPABILITY", "default").env("FLAMBEAU_NUM_THREADS", "1");
        command.env("MIRIFLAGS", "-Zmiri-disable-isolation -Zmiri-ignore-leaks -Zmiri-permissive-provenance");
        command
    }

    /// The names of the tests that Miri can run.
    fn list(&self) -> Result<Vec<String>, String> {
        let ignored: HashSet<String> = self.names(&["--ignored"])?.into_iter().collect();
        let is_meant =
            |name: &String| self.tests.is_empty() || self.tests.iter().any(|of| name.starts_with(of));
        let names = self.names(&[])?.into_iter();
        let is_able =
            |name: &String| !ignored.contains(name) && UNABLE.iter().all(|(unable, _)| unable != name);
        Ok(names.filter(|name| is_meant(name) && is_able(name)).collect())
    }

    fn names(&self, which: &[&str]) -> Result<Vec<String>, String> {
        let output = self.command(&[&["--list", "--format", "terse"], which].concat()).output();
        let output = output.map_err(|error| format!("cargo: {error}"))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Err(format!("miri: the tests of {} cannot be listed\n{said}", self.package));
        }
        let text = String::from_utf8_lossy(&output.stdout);
        Ok(text.lines().filter_map(|line| line.strip_suffix(": test")).map(String::from).collect())
    }

    /// Runs tests in as many processes as there are cores, since Miri uses one.
    fn run(&self, names: &[String]) -> Result<Ended, String> {
        let cores = thread::available_parallelism().map_or(1, usize::from).min(names.len());
        let part =
            |core: usize| names.iter().skip(core).step_by(cores).map(String::as_str).collect::<Vec<_>>();
        let outputs: Vec<_> = thread::scope(|scope| {
            let start =
                |core| scope.spawn(move || self.command(&[&["--exact"][..], &part(core)].concat()).output());
            let running: Vec<_> = (0..cores).map(start).collect();
            running.into_iter().map(thread::ScopedJoinHandle::join).collect()
        });
        let mut all = Ended { passed: 0, failed: false };
        for output in outputs {
            let output = output
                .map_err(|_| "a thread of xtask panicked")?
                .map_err(|error| format!("cargo: {error}"))?;
            let passed = count_passed(&String::from_utf8_lossy(&output.stdout));
            all = Ended { passed: all.passed + passed, failed: all.failed || !output.status.success() };
            if !output.status.success() {
                print!(
                    "{}{}",
                    String::from_utf8_lossy(&output.stdout),
                    String::from_utf8_lossy(&output.stderr)
                );
            }
        }
        // A name that no test has would otherwise count as success.
        all.failed |= all.passed < names.len();
        Ok(all)
    }
}
