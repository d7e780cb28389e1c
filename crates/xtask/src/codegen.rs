//! `cargo xtask codegen`: reads the two YAML files, writes what the generator makes of them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use flambeau_codegen::{Derivatives, Faults, NativeFunctions, Source};

use crate::Outcome;

#[derive(Args)]
pub(crate) struct Options {
    /// Reads two files in PyTorch's format, prints what they hold, and writes nothing.
    #[arg(long, num_args = 2, value_names = ["FUNCTIONS.yaml", "DERIVATIVES.yaml"])]
    parse_only: Option<Vec<PathBuf>>,
}

pub(crate) fn run(options: &Options) -> Outcome {
    match options.parse_only.as_deref() {
        Some([functions, derivatives]) => parse_only(functions, derivatives),
        _ => Ok(ExitCode::SUCCESS),
    }
}

fn read(path: &Path) -> Result<String, String> {
    fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))
}

fn parse_only(functions: &Path, derivatives: &Path) -> Outcome {
    let (names, texts) = (
        [functions.to_string_lossy(), derivatives.to_string_lossy()],
        [read(functions)?, read(derivatives)?],
    );
    let source = |index: usize| Source { name: &names[index], text: &texts[index] };
    match parse(source(0), source(1)) {
        Ok((functions, derivatives)) => {
            println!("{}: {} functions", names[0], functions.entries.len());
            println!("{}: {} derivatives", names[1], derivatives.entries.len());
            Ok(ExitCode::SUCCESS)
        }
        Err(faults) => {
            eprintln!("{faults}");
            Ok(ExitCode::FAILURE)
        }
    }
}

fn parse(functions: Source<'_>, derivatives: Source<'_>) -> Result<(NativeFunctions, Derivatives), Faults> {
    let functions = NativeFunctions::parse(functions)?;
    let derivatives = Derivatives::parse(derivatives, &functions)?;
    Ok((functions, derivatives))
}
