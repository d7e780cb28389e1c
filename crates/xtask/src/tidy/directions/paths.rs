//! Finds the paths in a file's code: those of its imports, and those that begin with `crate`, `super`, `self` or a submodule.

/// A path in the code. A path into the own crate is given from the root of the crate.
pub(super) struct Mention {
    pub(super) line: usize,
    pub(super) path: Vec<String>,
    pub(super) is_own: bool,
    /// The name that an import gives it in the file's own module, or `*`.
    pub(super) bound: Option<String>,
}

/// An identifier or a punctuation mark, and its line.
struct Token<'a> {
    text: &'a str,
    line: usize,
}

fn tokens(code: &str) -> Vec<Token<'_>> {
    let mut found = vec![];
    for (index, text) in code.lines().enumerate() {
        let mut rest = text.trim_start();
        while let Some(first) = rest.chars().next() {
            let word = rest.find(|c: char| !is_of_word(c)).unwrap_or(rest.len());
            let length = match word {
                0 if rest.starts_with("::") => 2,
                0 => first.len_utf8(),
                _ => word,
            };
            found.push(Token { text: &rest[..length], line: index + 1 });
            rest = rest[length..].trim_start();
        }
    }
    found
}

fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn is_word(text: &str) -> bool {
    text.chars().all(is_of_word)
}

/// The names that the code defines in its own module.
pub(super) fn definitions(code: &str) -> Vec<String> {
    const WORDS: &[&str] =
        &["fn", "struct", "enum", "union", "trait", "type", "const", "static", "macro_rules"];
    let tokens = tokens(code);
    let text = |at: usize| tokens.get(at).map_or("", |token| token.text);
    let (mut found, mut depth) = (vec![], 0);
    for at in 0..tokens.len() {
        match text(at) {
            "{" => depth += 1,
            "}" => depth -= 1,
            word if depth == 0 && WORDS.contains(&word) => {
                found.push(text(at + 1 + usize::from(word == "macro_rules")).to_string());
            }
            _ => {}
        }
    }
    found
}

/// The macros with `#[macro_export]`, which are at the root of the crate.
pub(super) fn exported_macros(code: &str) -> Vec<String> {
    let tokens = tokens(code);
    let text = |at: usize| tokens.get(at).map_or("", |token| token.text);
    let is_exported = |at: &usize| {
        // Other attributes may be between the attribute and the macro.
        let attributes = (0..*at).rev().take_while(|before| !matches!(text(*before), "}" | ";"));
        text(*at) == "macro_rules" && attributes.into_iter().any(|before| text(before) == "macro_export")
    };
    (0..tokens.len()).filter(is_exported).map(|at| text(at + 2).to_string()).collect()
}

/// The modules with `#[path = ".."]`, each with its file. Takes the original text, since literals are blanked in the code.
pub(super) fn moved(text: &str) -> Vec<(String, String)> {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let named = |pair: &[&str]| {
        let file = pair[0].strip_prefix("#[path = \"")?.strip_suffix("\"]")?;
        let name = pair[1].rsplit("mod ").next()?.strip_suffix(';')?;
        Some((name.to_string(), file.to_string()))
    };
    lines.windows(2).filter_map(named).collect()
}

/// The paths in the code of `module`; `is_module` tells whether the crate has a module.
pub(super) fn mentions(code: &str, module: &[String], is_module: impl Fn(&[String]) -> bool) -> Vec<Mention> {
    let tokens = tokens(code);
    let mut reader = Reader {
        tokens: &tokens,
        module,
        is_module: &is_module,
        at: 0,
        inside: module.to_vec(),
        open: vec![],
        found: vec![],
    };
    reader.read();
    reader.found
}

struct Reader<'a> {
    tokens: &'a [Token<'a>],
    module: &'a [String],
    is_module: &'a dyn Fn(&[String]) -> bool,
    at: usize,
    /// The current module: that of the file, or an inline module.
    inside: Vec<String>,
    /// For each open brace whether it is that of an inline module.
    open: Vec<bool>,
    found: Vec<Mention>,
}

impl Reader<'_> {
    fn text(&self, at: usize) -> &str {
        self.tokens.get(at).map_or("", |token| token.text)
    }

    /// Whether a path begins here: not in the middle of a path, nor in `pub(in ...)`.
    fn begins_path(&self) -> bool {
        let before = |count: usize| self.at.checked_sub(count).map_or("", |at| self.text(at));
        self.text(self.at + 1) == "::" && before(1) != "::" && !(before(1) == "in" && before(2) == "(")
    }

    /// Where the name after `mod` is, which in a macro may be a variable: `mod $name {`.
    fn module_name(&self) -> usize {
        self.at + 1 + usize::from(self.text(self.at + 1) == "$")
    }

    fn read(&mut self) {
        while self.at < self.tokens.len() {
            match self.text(self.at) {
                "mod" if self.text(self.module_name() + 1) == "{" => {
                    let name = self.module_name();
                    self.inside.push(self.text(name).to_string());
                    self.open.push(true);
                    self.at = name + 1;
                }
                "{" => self.open.push(false),
                "}" => {
                    let ends_module = self.open.pop() == Some(true);
                    self.inside.truncate(self.inside.len() - usize::from(ends_module));
                }
                "use" if self.text(self.at + 1) != "<" => {
                    self.at += 1;
                    self.import(&mut vec![]);
                }
                "crate" | "super" | "self" if self.begins_path() => {
                    let line = self.tokens[self.at].line;
                    let mut path = vec![];
                    self.words(&mut path);
                    self.mention(line, &path, None);
                }
                word if is_word(word) && is_word(self.text(self.at + 2)) && self.begins_path() => {
                    let child: Vec<String> = self.inside.iter().cloned().chain([word.to_string()]).collect();
                    let (line, mut path) = (self.tokens[self.at].line, vec![]);
                    self.words(&mut path);
                    if (self.is_module)(&child) {
                        self.mention(line, &path, None);
                    }
                }
                _ => {}
            }
            self.at += 1;
        }
    }

    /// Reads identifiers with `::` between them; ends at the last.
    fn words(&mut self, path: &mut Vec<String>) {
        path.push(self.text(self.at).to_string());
        while self.text(self.at + 1) == "::" && is_word(self.text(self.at + 2)) {
            self.at += 2;
            path.push(self.text(self.at).to_string());
        }
    }

    /// Reads the tree of an import below `path`; ends after it.
    fn import(&mut self, path: &mut Vec<String>) {
        let (trunk, line) = (path.len(), self.tokens.get(self.at).map_or(0, |token| token.line));
        while self.at < self.tokens.len() {
            match self.text(self.at) {
                "::" => self.at += 1,
                "{" => {
                    self.at += 1;
                    while !matches!(self.text(self.at), "}" | "") {
                        let start = self.at;
                        self.import(path);
                        // Tokens that cannot be part of an import, as in a macro, are skipped.
                        self.at += usize::from(self.text(self.at) == "," || self.at == start);
                    }
                    self.at += 1;
                    break;
                }
                "*" => {
                    self.bind(line, path, "*");
                    self.at += 1;
                    break;
                }
                word if is_word(word) => {
                    path.push(word.to_string());
                    self.at += 1;
                    if self.text(self.at) != "::" {
                        self.leaf(line, path);
                        break;
                    }
                }
                _ => break,
            }
        }
        path.truncate(trunk);
    }

    fn leaf(&mut self, line: usize, path: &mut Vec<String>) {
        if path.len() > 1 && path.last().is_some_and(|last| last == "self") {
            path.pop();
        }
        let mut name = path.last().cloned().unwrap_or_default();
        if self.text(self.at) == "as" {
            name = self.text(self.at + 1).to_string();
            self.at += 2;
        }
        self.bind(line, path, &name);
    }

    /// Records an import. One inside an inline module does not add a name to the file's own module.
    fn bind(&mut self, line: usize, path: &[String], name: &str) {
        let bound = (self.inside == self.module).then(|| name.to_string());
        self.mention(line, path, bound);
    }

    fn mention(&mut self, line: usize, written: &[String], bound: Option<String>) {
        let mut path = self.inside.clone();
        for (at, part) in written.iter().enumerate() {
            match part.as_str() {
                "crate" => path.clear(),
                "self" => {}
                "super" => {
                    path.pop();
                }
                word => {
                    path.push(word.to_string());
                    // A path that begins with the name of another crate or of an enum is not recorded.
                    if at == 0 && !(self.is_module)(&path) {
                        self.found.push(Mention { line, path: vec![], is_own: false, bound });
                        return;
                    }
                }
            }
        }
        self.found.push(Mention { line, path, is_own: true, bound });
    }
}
