//! Replaces comments and literals of Rust by spaces, for rules that concern code only.

/// The text with every character of a comment, string or character literal replaced by a space; line numbers do not change.
pub(super) fn code(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let blank = blank_length(rest, &kept);
        if blank == 0 {
            kept.push(c);
            rest = &rest[c.len_utf8()..];
            continue;
        }
        let (skipped, after) = rest.split_at(blank);
        kept.extend(skipped.chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
        rest = after;
    }
    kept
}

/// How many bytes at the start of the text are not code.
fn blank_length(rest: &str, before: &str) -> usize {
    let in_word = before.ends_with(|c: char| c.is_alphanumeric() || c == '_');
    if rest.starts_with("//") {
        return rest.find('\n').unwrap_or(rest.len());
    }
    if rest.starts_with("/*") {
        return rest.find("*/").map_or(rest.len(), |end| end + 2);
    }
    if rest.starts_with('"') {
        return quoted(rest, '"');
    }
    if rest.starts_with('\'') {
        return character(rest);
    }
    if !in_word && (rest.starts_with("r\"") || rest.starts_with("r#")) {
        return raw(rest);
    }
    0
}

/// The length of a literal, including its closing quote.
fn quoted(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// The length of `'c'` or `'\n'`; zero for a lifetime.
fn character(rest: &str) -> usize {
    let mut chars = rest.char_indices().skip(1);
    match chars.next() {
        Some((_, '\\')) => quoted(rest, '\''),
        Some(_) => chars.next().filter(|(_, c)| *c == '\'').map_or(0, |(at, _)| at + 1),
        None => 0,
    }
}

/// The length of `r"..."` or `r#"..."#`; zero for a raw identifier.
fn raw(rest: &str) -> usize {
    let hashes = rest[1..].chars().take_while(|c| *c == '#').count();
    if !rest[1 + hashes..].starts_with('"') {
        return 0;
    }
    let close = format!("\"{}", "#".repeat(hashes));
    let body = hashes + 2;
    rest[body..].find(&close).map_or(rest.len(), |end| body + end + close.len())
}

/// Whether a line of code contains the identifier.
pub(super) fn has_word(line: &str, word: &str) -> bool {
    line.split(|c: char| !c.is_alphanumeric() && c != '_').any(|found| found == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_blank() {
        let text =
            "let a = \"un\\\"safe\"; // unsafe\nlet b = 'x'; /* unsafe\n */ fn f<'a>() {} r#\"unsafe\"#";
        let code = code(text);
        assert_eq!(code.lines().count(), text.lines().count());
        assert_eq!(code.len(), text.len());
        assert!(!code.contains("safe"));
        assert!(code.contains("fn f<'a>() {}") && code.contains("let b ="));
    }

    #[test]
    fn quotes_in_characters_open_nothing() {
        assert!(code("match c { '\"' => 1, '\\'' => 2, _ => unsafe_ }").contains("unsafe_"));
        assert!(has_word("unsafe { x }", "unsafe") && !has_word("unsafe_code", "unsafe"));
    }
}
