//! `cargo xtask new-op`: adds the four stubs of a new operator to their files.

use std::fs;
use std::io::{BufRead, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use flambeau_codegen::{FunctionSchema, Stub, kernel_name, kernel_stub};

use crate::codegen::{DERIVATIVES, FUNCTIONS, read};
use crate::new_op::texts::{derivative, entry, rows};
use crate::{Outcome, root};

mod backward;
mod texts;

const KERNELS: &str = "crates/ops/src/native";
const ROWS: &str = "tests/op_db";
const FAMILIES: &str = "tests/op_db.rs";

/// The kinds of operators that docs/adding_an_operator.md has an example of.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// A formula of one tensor.
    Unary,
    /// A fold along dimensions.
    Reduction,
    /// An operator that calls others, and a second one for its derivative.
    WithBackward,
}

#[derive(Args)]
pub(crate) struct Options {
    /// The schema, as in PyTorch's file: `deg2rad(Tensor self) -> Tensor`; for `--kind unary` and `reduction` a name is enough. If it
    /// is missing, the command prompts for it.
    schema: Option<String>,

    /// The kind of operator; without it a kernel is the pair of functions that describes its outputs and fills them.
    #[arg(long)]
    kind: Option<Kind>,

    /// The file of its kernel, in crates/ops/src/native: `pointwise/unary`; created if it does not exist.
    #[arg(long)]
    module: Option<String>,

    /// What it computes, in a sentence.
    #[arg(long)]
    doc: Option<String>,

    /// A call of its method and the result, for the documentation: `let x = Tensor::from([4.0]); x.sqrt()?.to_vec::<f64>()? => [2.0]`.
    /// May be given several times: once for each method.
    #[arg(long)]
    example: Vec<String>,

    /// The formula of a pointwise operator, in the vectors `x`, or `x` and `y`.
    #[arg(long)]
    formula: Option<String>,

    /// The fold of a reduction, from crates/ops/src/loops/reduce/folds.rs: `SumOfSquares`.
    #[arg(long)]
    fold: Option<String>,

    /// What is applied to the accumulator of the fold: `Divide(count as f64)`.
    #[arg(long, requires = "fold", default_value = "Identity")]
    epilogue: String,

    /// The operator only calls others, and needs no derivative.
    #[arg(long, conflicts_with_all = ["formula", "fold", "kind"])]
    composite: bool,

    /// A line of its derivative: `self: grad * 2`. May be given several times; without any, the derivative is `not_implemented`.
    #[arg(long)]
    derivative: Vec<String>,

    /// An argument or result that the backward operator of `--kind with-backward` reads; without any, all tensors among the arguments.
    #[arg(long)]
    saved: Vec<String>,

    /// The expected result in f64, as an expression in `x`, or `x` and `y`; for a reduction `x` is the slice of elements.
    #[arg(long)]
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
    let text = options.kind.map_or(text.clone(), |kind| kind.schema(text));
    let schema = FunctionSchema::parse(&text).map_err(|error| format!("{text}: {}", error.message))?;
    let usual = options.kind.map(|kind| kind.module(&kernel_name(&schema)));
    let what = "file of the kernel in crates/ops/src/native, as `pointwise/unary`";
    let module = given_or_prompted(options.module.clone().or(usual).as_ref(), what)?;
    let module = module.trim_end_matches(".rs").replace("::", "/");
    let doc = given_or_prompted(options.doc.as_ref(), "what it computes, in a sentence")?;
    let new = NewOperator { schema, module, doc, options };
    for (path, text) in new.edits()? {
        let lines = text.lines().count() - read(&new.path(&path)).map_or(0, |old| old.lines().count());
        fs::write(new.path(&path), text).map_err(|error| format!("{path}: {error}"))?;
        println!("{path}: {lines} lines");
    }
    println!("fill them in, then: cargo xtask codegen && cargo xtask types && cargo test -p flambeau-tests");
    Ok(ExitCode::SUCCESS)
}

impl Kind {
    /// The schema, if only a name is given.
    fn schema(self, text: String) -> String {
        match self {
            _ if text.contains('(') => text,
            Kind::Unary => format!("{text}(Tensor self) -> Tensor"),
            Kind::Reduction => format!("{text}(Tensor self, int[1]? dim=None, bool keepdim=False) -> Tensor"),
            Kind::WithBackward => text,
        }
    }

    /// The file of the kernel, if none is given.
    fn module(self, kernel: &str) -> String {
        match self {
            Kind::Unary => "pointwise/unary".to_owned(),
            Kind::Reduction => format!("reduce/{kernel}"),
            Kind::WithBackward => format!("nn/{kernel}"),
        }
    }
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

    fn stub(&self) -> Result<Stub<'_>, String> {
        let Options { kind, formula, fold, composite, epilogue, .. } = self.options;
        match (kind, formula, fold) {
            (Some(Kind::Unary) | None, Some(formula), None) => Ok(Stub::Pointwise(formula)),
            (Some(Kind::Unary), None, _) => {
                Err("expected a formula: `--formula \"x.cosh().recip()\"`".to_owned())
            }
            (Some(Kind::Reduction), None, Some(fold)) => Ok(Stub::Reduction { fold, epilogue }),
            (Some(Kind::WithBackward), None, None) => Ok(Stub::CompositeExplicit),
            (Some(Kind::Reduction) | None, None, None) if !composite => Ok(Stub::Structured),
            (None, None, None) => Ok(Stub::Composite),
            _ => Err("a formula is for `--kind unary`, a fold for `--kind reduction`".to_owned()),
        }
    }

    /// The operators: that of the schema, and the one for its derivative.
    fn operators(&self) -> Result<Vec<(FunctionSchema, Stub<'_>)>, String> {
        let own = (self.schema.clone(), self.stub()?);
        let backward = self.backward()?.map(|schema| (schema, Stub::Composite));
        Ok([Some(own), backward].into_iter().flatten().collect())
    }

    fn backward(&self) -> Result<Option<FunctionSchema>, String> {
        if self.options.kind != Some(Kind::WithBackward) {
            return Ok(None);
        }
        backward::schema(&self.schema, &self.options.saved).map(Some)
    }

    /// The new texts of the files, by path. All are computed before the first is written.
    fn edits(&self) -> Result<Vec<(String, String)>, String> {
        let (mut functions, mut formulas) = (read(&self.path(FUNCTIONS))?, read(&self.path(DERIVATIVES))?);
        let (operators, mut kernels) = (self.operators()?, vec![]);
        for (schema, stub) in &operators {
            if functions.contains(&format!("- func: {}(", schema.name)) {
                return Err(format!("`{}` exists", schema.name));
            }
            let doc = self.doc_of(schema);
            kernels.push(kernel_stub(schema, *stub, &doc)?);
            let path = format!("{}::{}", self.module.replace('/', "::"), kernel_name(schema));
            functions = appended(&functions, &entry(schema, *stub, &path, &doc, self.examples_of(schema)));
            if stub.has_derivative() {
                formulas = appended(&formulas, &derivative(schema, &self.derivative()?));
            }
        }
        let mut edits = vec![(FUNCTIONS.to_owned(), functions), (DERIVATIVES.to_owned(), formulas)];
        edits.extend(self.kernel_edits(&kernels.join("\n"))?);
        edits.extend(self.row_edits(&operators)?);
        Ok(edits)
    }

    /// The given lines of the derivative, or the call of the backward operator.
    fn derivative(&self) -> Result<Vec<String>, String> {
        let call = self.backward()?.map(|backward| backward::call(&self.schema, &backward));
        let given = self.options.derivative.clone();
        Ok(if given.is_empty() { call.into_iter().collect() } else { given })
    }

    /// The documentation of the operator, or of the one for its derivative.
    fn doc_of(&self, schema: &FunctionSchema) -> String {
        if *schema == self.schema { self.doc.clone() } else { backward::doc(&self.schema, schema) }
    }

    /// The examples of the operator; the one for its derivative is no method.
    fn examples_of(&self, schema: &FunctionSchema) -> &[String] {
        if *schema == self.schema { &self.options.example } else { &[] }
    }

    fn kernel_edits(&self, kernel: &str) -> Result<Vec<(String, String)>, String> {
        let (folder, file) =
            self.module.split_once('/').ok_or("expected a folder and a file: `pointwise/unary`")?;
        let path = format!("{KERNELS}/{}.rs", self.module);
        if let Ok(text) = read(&self.path(&path)) {
            if kernel.starts_with("use ") {
                return Err(format!("{path} exists: expected the name of a new file"));
            }
            return Ok(vec![(path, appended(&text, kernel))]);
        }
        let parent = format!("{KERNELS}/{folder}.rs");
        let modules =
            read(&self.path(&parent)).map_err(|_| format!("there is no folder {KERNELS}/{folder}"))?;
        let with = declared(&modules, &format!("pub mod {file};"))?;
        Ok(vec![(path, format!("//! {}\n\n{kernel}", self.doc)), (parent, with)])
    }

    fn row_edits(&self, operators: &[(FunctionSchema, Stub<'_>)]) -> Result<Vec<(String, String)>, String> {
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
        let text = rows(operators, self.options.reference.as_deref());
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
