//! Schemas as people write them, with the spaces that the parser expects.

/// The text with one space after each comma, around `->` and between words, and no other; the text of quoted defaults stays as it is.
pub(super) fn normalized(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut quote = None;
    let mut brackets = 0;
    let mut chars = text.trim().chars().peekable();
    while let Some(c) = chars.next() {
        if let Some(open) = quote {
            out.push(c);
            if c == '\\' {
                out.extend(chars.next());
            } else if c == open {
                quote = None;
            }
            continue;
        }
        match c {
            '"' | '\'' => {
                quote = Some(c);
                out.push(c);
            }
            '-' if chars.peek() == Some(&'>') => {
                chars.next();
                trim_end(&mut out);
                out.push_str(" -> ");
            }
            ',' => {
                trim_end(&mut out);
                out.push_str(if brackets == 0 { ", " } else { "," });
            }
            c if c.is_whitespace() => {
                let after_open = out.ends_with(['(', '[', '=', ' ', ',', '|']);
                out.push_str(if after_open { "" } else { " " });
            }
            c => {
                if matches!(c, '(' | ')' | '[' | ']' | '=' | '?' | '!' | '|')
                    && !out.ends_with("> ")
                    && !out.ends_with(", ")
                {
                    trim_end(&mut out);
                }
                brackets += i32::from(c == '[') - i32::from(c == ']');
                out.push(c);
            }
        }
    }
    trim_end(&mut out);
    out
}

fn trim_end(text: &mut String) {
    text.truncate(text.trim_end().len());
}

#[cfg(test)]
mod tests {
    use super::normalized;

    #[test]
    fn spaces_are_put_where_the_parser_expects_them() {
        for (given, expected) in [
            ("f(Tensor x,Tensor  y)->Tensor", "f(Tensor x, Tensor y) -> Tensor"),
            (
                "  f ( Tensor(a!) x , int[2] s = [ 1 , 2 ] )  -> ( Tensor , Tensor )\n",
                "f(Tensor(a!) x, int[2] s=[1,2]) -> (Tensor, Tensor)",
            ),
            ("f(str s=\"a,  b\") -> ()", "f(str s=\"a,  b\") -> ()"),
            ("f(Tensor x, *, float eps=1e-05) -> Tensor", "f(Tensor x, *, float eps=1e-05) -> Tensor"),
            ("f(Tensor(a -> *) x) -> Tensor(a)", "f(Tensor(a -> *) x) -> Tensor(a)"),
        ] {
            assert_eq!(normalized(given), expected);
        }
    }
}
