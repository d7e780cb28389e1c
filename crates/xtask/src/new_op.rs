//! `cargo xtask new-op`: adds the four stubs of a new operator to their files.

use std::fs;
use std::io::{BufRead, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use flambeau_codegen::{FunctionSchema, Stub, kernel_name, kernel_stub};

use crate::codegen::{DERIVATIVES, FUNCTIONS, read};
use crate::new_op::texts::{derivative, entry, row};
use crate::{Outcome, root};

mod texts;

const KERNELS: &str = "crates/ops/src/native";
const ROWS: &str = "tests/op_db";
const FAMILIES: &str = "tests/op_db.rs";

#[derive(Args)]
pub(crate) struct Options {
    /// The schema, as in PyTorch's file: `deg2rad(Tensor self) -> Tensor`. If it is missing, the command prompts for it.
    schema: Option<String>,

    /// The file of its kernel, relative to crates/ops/src/native: `pointwise/unary`. It is created if it does not exist.
    #[arg(long)]
    module: Option<String>,

    /// What it computes, in a sentence.
    #[arg(long)]
    doc: Option<String>,

    /// The formula of a pointwise operator, in the lanes `x`, or `x` and `y`.
    #[arg(long)]
    formula: Option<String>,

    /// The operator only calls others.
    #[arg(long, conflicts_with = "formula")]
    composite: bool,

    /// A line of its derivative: `self: grad * 2`. May be given several times; without any, the derivative is `not_implemented`.
    #[arg(long)]
    derivative: Vec<String>,

    /// The expected result of a pointwise operator in f64, as an expression in `x`, or `x` and `y`.
    #[arg(long, requires = "formula")]
    reference: Option<String>,

    /// The root of another source tree, for tests.
    #[arg(long, hide = true)]
    root: Option<PathBuf>,
}

/// The operator to add.
struct NewOperator<'a> {
    schema: FunctionSchema,
    module: String,
    doc: String,
    options: &'a Options,
}

pub(crate) fn run(options: &Options) -> Outcome {
    let text = given_or_prompted(options.schema.as_ref(), "schema, as `name(Tensor self) -> Tensor`")?;
    let schema = FunctionSchema::parse(&text).map_err(|error| format!("{text}: {}", error.message))?;
    let module = given_or_prompted(options.module.as_ref(), "file of the kernel in crates/ops/src/native")?;
    let doc = given_or_prompted(options.doc.as_ref(), "what it computes, in a sentence")?;
    let new = NewOperator { schema, module: module.trim_end_matches(".rs").to_owned(), doc, options };
    for (path, text) in new.edits()? {
        let lines = text.lines().count() - read(&new.path(&path)).map_or(0, |old| old.lines().count());
        fs::write(new.path(&path), text).map_err(|error| format!("{path}: {error}"))?;
        println!("{path}: {lines} lines");
    }
    println!("fill them in, then: cargo xtask codegen && cargo xtask types && cargo test -p flambeau-tests");
    Ok(ExitCode::SUCCESS)
}

fn given_or_prompted(given: Option<&String>, what: &str) -> Result<String, String> {
    if let Some(given) = given {
        return Ok(given.clone());
    }
    print!("{what}: ");
    let mut line = String::new();
    std::io::stdout().flush().map_err(|error| error.to_string())?;
    std::io::stdin().lock().read_line(&mut line).map_err(|error| error.to_string())?;
    let line = line.trim();
    if line.is_empty() { Err(format!("expected a {what}")) } else { Ok(line.to_owned()) }
}

impl NewOperator<'_> {
    fn path(&self, path: &str) -> PathBuf {
        self.options.root.clone().unwrap_or_else(root).join(path)
    }

    fn stub(&self) -> Stub<'_> {
        match &self.options.formula {
            Some(formula) => Stub::Pointwise(formula),
            None if self.options.composite => Stub::Composite,
            None => Stub::Structured,
        }
    }

    /// The new texts of the files, by path. All are computed before the first is written.
    fn edits(&self) -> Result<Vec<(String, String)>, String> {
        let functions = read(&self.path(FUNCTIONS))?;
        let name = self.schema.name.to_string();
        if functions.contains(&format!("- func: {name}(")) {
            return Err(format!("`{name}` exists"));
        }
        let kernel = kernel_stub(&self.schema, self.stub(), &self.doc)?;
        let path = format!("{}::{}", self.module.replace('/', "::"), kernel_name(&self.schema));
        let entry = entry(&self.schema, self.stub(), &path, &self.doc);
        let mut edits = vec![(FUNCTIONS.to_owned(), appended(&functions, &entry))];
        edits.extend(self.kernel_edits(&kernel)?);
        if self.stub() != Stub::Composite {
            let formulas = read(&self.path(DERIVATIVES))?;
            let derivative = derivative(&self.schema, &self.options.derivative);
            edits.push((DERIVATIVES.to_owned(), appended(&formulas, &derivative)));
        }
        edits.extend(self.row_edits()?);
        Ok(edits)
    }

    fn kernel_edits(&self, kernel: &str) -> Result<Vec<(String, String)>, String> {
        let path = format!("{KERNELS}/{}.rs", self.module);
        if let Ok(text) = read(&self.path(&path)) {
            return Ok(vec![(path, appended(&text, kernel))]);
        }
        let (parent, module) = match self.module.rsplit_once('/') {
            Some((folder, module)) => (format!("{KERNELS}/{folder}.rs"), module),
            None => (format!("{KERNELS}.rs"), self.module.as_str()),
        };
        let with = declared(&read(&self.path(&parent))?, &format!("pub mod {module};"))?;
        Ok(vec![(path, format!("//! {}\n\n{kernel}", self.doc)), (parent, with)])
    }

    fn row_edits(&self) -> Result<Vec<(String, String)>, String> {
        let module = kernel_name(&self.schema).trim_matches('_').to_owned();
        let path = format!("{ROWS}/{module}.rs");
        if self.path(&path).exists() {
            return Err(format!(
                "{path} exists: write the row there, and the other three by this command's example"
            ));
        }
        let families = declared(&read(&self.path(FAMILIES))?, &format!("mod {module};"))?;
        let end = families
            .rfind("    ];\n    families")
            .ok_or(format!("{FAMILIES}: expected a list of families"))?;
        let families = format!("{}        {module}::rows,\n{}", &families[..end], &families[end..]);
        let text = row(&self.schema, self.stub(), self.options.reference.as_deref());
        Ok(vec![(path, text), (FAMILIES.to_owned(), families)])
    }
}

/// Appends a text after an empty line.
fn appended(text: &str, more: &str) -> String {
    format!("{}\n\n{more}", text.trim_end())
}

/// Inserts a line among those that declare modules, in alphabetical order.
fn declared(text: &str, line: &str) -> Result<String, String> {
    let keyword = &line[..=line.rfind(' ').unwrap_or(0)];
    let mut lines: Vec<&str> = text.lines().collect();
    let is_one = |other: &&str| other.starts_with(keyword);
    let after = lines.iter().position(|other| is_one(other) && *other > line);
    let last = lines.iter().rposition(is_one).map(|last| last + 1);
    let index = after.or(last).ok_or(format!("expected a line that begins with `{keyword}`"))?;
    lines.insert(index, line);
    Ok(lines.join("\n") + "\n")
}
