//! The fenced blocks of a guide that belong into files, each under a line that names the file and the position in it.

/// A block, and the file that it belongs into.
#[derive(Debug)]
pub(super) struct Block {
    /// The line of the guide that names the file.
    pub(super) line: usize,
    pub(super) path: String,
    position: Position,
    pub(super) text: String,
}

/// Where in its file a block is inserted.
#[derive(Debug, PartialEq, Eq)]
enum Position {
    /// It is the whole file.
    NewFile,
    /// At the end, after an empty line.
    End,
    /// After the only line that reads so.
    After(String),
}

/// The blocks, in order. One that no line assigns to a file is for reading only.
pub(super) fn blocks(guide: &str) -> Result<Vec<Block>, String> {
    let mut found = vec![];
    let mut lines = guide.lines().zip(1..).peekable();
    while let Some((line, number)) = lines.next() {
        let Some((path, position)) = heading(line) else { continue };
        lines.next_if(|(line, _)| line.is_empty());
        if lines.next().is_none_or(|(line, _)| !line.starts_with("```")) {
            return Err(format!("line {number}: expected a fenced block after a line that names its file"));
        }
        let inside = std::iter::from_fn(|| lines.next_if(|(line, _)| *line != "```"));
        let text = inside.map(|(line, _)| format!("{line}\n")).collect();
        found.push(Block { line: number, path: path.to_owned(), position, text });
    }
    Ok(found)
}

/// A line that assigns a block to a file: `path`, a new file: or at the end: or after `line`:
fn heading(line: &str) -> Option<(&str, Position)> {
    let (path, rest) = line.strip_prefix('`')?.split_once("`, ")?;
    let position = match rest.strip_suffix(':')? {
        "a new file" => Position::NewFile,
        "at the end" => Position::End,
        rest => Position::After(rest.strip_prefix("after `")?.strip_suffix('`')?.to_owned()),
    };
    Some((path, position))
}

impl Block {
    /// The text of the file with the block in it.
    pub(super) fn applied(&self, file: Option<&str>) -> Result<String, String> {
        let path = &self.path;
        match (&self.position, file) {
            (Position::NewFile, None) => Ok(self.text.clone()),
            (Position::NewFile, Some(_)) => Err(format!("{path}: expected no such file yet")),
            (_, None) => Err(format!("{path}: there is no such file")),
            (Position::End, Some(file)) => Ok(format!("{}\n\n{}", file.trim_end(), self.text)),
            (Position::After(line), Some(file)) => self.after(line, file),
        }
    }

    fn after(&self, line: &str, file: &str) -> Result<String, String> {
        let found: Vec<usize> =
            (0..).zip(file.lines()).filter(|(_, l)| l.trim() == line).map(|(n, _)| n).collect();
        let [only] = found[..] else {
            return Err(format!("{}: expected one line `{line}` but got {}", self.path, found.len()));
        };
        let lines: Vec<&str> = file.lines().collect();
        let (before, behind) = lines.split_at(only + 1);
        Ok([before, &self.text.lines().collect::<Vec<_>>(), behind].concat().join("\n") + "\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_inserted_where_its_heading_says() {
        let guide = "`a.rs`, after `mod b;`:\n\n```rust\n    mod c;\n```\n\n```text\nfor reading\n```\n`b.rs`, a new file:\n```rust\nfn b() {}\n```\n";
        let found = blocks(guide).unwrap();
        assert_eq!(found.len(), 2);
        assert_eq!(
            found[0].applied(Some("mod a;\n    mod b;\nmod d;\n")).unwrap(),
            "mod a;\n    mod b;\n    mod c;\nmod d;\n"
        );
        assert_eq!((found[1].line, found[1].applied(None).unwrap().as_str()), (10, "fn b() {}\n"));
    }

    #[test]
    fn what_cannot_be_applied_is_refused() {
        let refused = |guide: &str, file: Option<&str>| {
            blocks(guide).and_then(|found| found[0].applied(file)).unwrap_err()
        };
        assert!(refused("`a.rs`, at the end:\nno block\n", None).contains("expected a fenced block"));
        assert!(refused("`a.rs`, at the end:\n```\n```\n", None).contains("no such file"));
        assert!(refused("`a.rs`, a new file:\n```\n```\n", Some("")).contains("no such file yet"));
        assert!(refused("`a.rs`, after `x`:\n```\n```\n", Some("x\nx\n")).contains("but got 2"));
    }
}
