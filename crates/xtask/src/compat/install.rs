//! Installs the packages of `tests/compat/requirements.txt`, with retries, and tells whether their index can be reached at all.

use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

use crate::python::{is_prepared, prepare, succeed, tool};
use crate::root;

/// The packages with their versions, one a line. All dependencies are among them, so that pip resolves nothing.
const REQUIREMENTS: &str = "tests/compat/requirements.txt";
/// What marks the lines of the packages that `--quick` installs.
const QUICK: &str = "# quick";
/// Packages that require PyTorch find the metadata of this version, and no module.
const STAND_IN: &str = "2.15.0";
/// How often the installation is tried, and how many seconds pass before the second time; pip itself retries each download too.
const ATTEMPTS: u64 = 3;
const PAUSE: u64 = 5;
const DOWNLOADS: &[&str] = &["--disable-pip-version-check", "--retries", "5", "--timeout", "30"];

/// The requirements to install, as the lines of a file of pip's.
pub(super) struct Packages {
    all: String,
    chosen: String,
}

impl Packages {
    /// All of them, or those that are marked as quick.
    pub(super) fn read(quick: bool) -> Result<Self, String> {
        let all = fs::read_to_string(root().join(REQUIREMENTS))
            .map_err(|error| format!("{REQUIREMENTS}: {error}"))?;
        let is_chosen = |line: &&str| !quick || line.trim_end().ends_with(QUICK);
        let chosen: Vec<&str> = all.lines().filter(is_chosen).collect();
        let chosen = chosen.join("\n") + "\n";
        Ok(Packages { all, chosen })
    }

    /// Whether an environment has all packages.
    pub(super) fn are_in(&self, environment: &Path) -> bool {
        is_prepared(environment, &self.all)
    }

    /// Creates the environment, unless it exists with all packages or with those that are chosen. False, with a line that says so, where
    /// the index of packages cannot be reached.
    pub(super) fn install(&self, environment: &Path) -> Result<bool, String> {
        if self.are_in(environment) {
            return Ok(true);
        }
        let mut reached = true;
        let installed = prepare(environment, &self.chosen, || {
            self.download(environment).inspect_err(|_| reached = self.reaches_index(environment))
        });
        match installed {
            Err(why) if !reached => {
                println!("compat: SKIPPED, since the index of Python packages cannot be reached ({why})");
                Ok(false)
            }
            other => other.map(|()| true),
        }
    }

    fn download(&self, environment: &Path) -> Result<(), String> {
        stand_in(environment)?;
        let list = environment.join("requirements.txt");
        fs::write(&list, &self.chosen).map_err(|error| format!("{}: {error}", list.display()))?;
        let mut outcome = Ok(());
        for attempt in 1..=ATTEMPTS {
            let count = self.chosen.lines().count();
            println!(
                "compat: installing {count} packages into {} (attempt {attempt} of {ATTEMPTS})",
                environment.display()
            );
            let mut pip = tool(environment, "python");
            pip.args(["-m", "pip", "install", "--no-deps", "--progress-bar", "off"]).args(DOWNLOADS);
            outcome = succeed(pip.arg("--requirement").arg(&list));
            if outcome.is_ok() {
                break;
            }
            if attempt < ATTEMPTS {
                sleep(Duration::from_secs(PAUSE * attempt));
            }
        }
        outcome
    }

    /// Whether pip can download the first of the packages, past its own cache.
    fn reaches_index(&self, environment: &Path) -> bool {
        let Some(first) = self.chosen.lines().find_map(|line| line.split_whitespace().next()) else {
            return true;
        };
        let mut pip = tool(environment, "python");
        pip.args(["-m", "pip", "download", "--quiet", "--no-deps", "--no-cache-dir", "--retries", "1"]);
        pip.args(["--timeout", "15", "--dest"]).arg(environment.join("probe")).arg(first);
        pip.stderr(Stdio::null()).status().is_ok_and(|status| status.success())
    }
}

/// Writes the metadata of PyTorch's package, which `importlib.metadata` reads, without the package.
fn stand_in(environment: &Path) -> Result<(), String> {
    let mut python = tool(environment, "python");
    python.args(["-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]);
    let output = python.output().map_err(|error| format!("python: {error}"))?;
    let packages = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    let folder = Path::new(&packages).join(format!("torch-{STAND_IN}.dist-info"));
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let metadata = format!("Metadata-Version: 2.1\nName: torch\nVersion: {STAND_IN}\n");
    for (name, text) in [("METADATA", metadata.as_str()), ("INSTALLER", "pip\n"), ("RECORD", "")] {
        fs::write(folder.join(name), text).map_err(|error| format!("{name}: {error}"))?;
    }
    Ok(())
}
