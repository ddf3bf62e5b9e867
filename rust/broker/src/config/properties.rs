//! `server.properties`: Java's properties format.
//!
//! ```text
//! # a comment, as is !
//! key=value     key: value     key value      the blanks around the separator do not count
//! key = a long \
//!       value                                  a backslash at the end goes on in the next line
//! ```
//! Source: the format of `java.util.Properties.load`.

/// One entry: the line it begins in, from 1, its key and its value.
pub type Entry = (usize, String, String);

/// The entries of `text`, in order.
///
/// # Errors
/// The line of an escape that cannot be read, and what is wrong with it.
pub fn entries(text: &str) -> Result<Vec<Entry>, (usize, String)> {
    let mut entries = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((index, line)) = lines.next() {
        let mut logical = line.trim_start().to_owned();
        if logical.is_empty() || logical.starts_with(['#', '!']) {
            continue;
        }
        while goes_on(&logical) {
            logical.pop();
            let Some((_, next)) = lines.next() else { break };
            logical.push_str(next.trim_start());
        }
        let (key, value) = split(&logical);
        let unescaped = |part: &str| unescape(part).map_err(|why| (index + 1, why));
        entries.push((index + 1, unescaped(key)?, unescaped(value)?));
    }
    Ok(entries)
}

/// A line goes on if it ends in an odd number of backslashes.
fn goes_on(line: &str) -> bool {
    line.bytes().rev().take_while(|byte| *byte == b'\\').count() % 2 == 1
}

/// The key ends at the first `=`, `:` or blank that no backslash precedes.
fn split(line: &str) -> (&str, &str) {
    let mut escaped = false;
    let end = line.char_indices().find(|(_, letter)| {
        let ends = !escaped && matches!(letter, '=' | ':' | ' ' | '\t');
        escaped = *letter == '\\' && !escaped;
        ends
    });
    let Some((end, _)) = end else { return (line, "") };
    let (key, rest) = line.split_at(end);
    let rest = rest.trim_start();
    let value = rest.strip_prefix(['=', ':']).unwrap_or(rest);
    (key, value.trim_start())
}

fn unescape(text: &str) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        if letter != '\\' {
            out.push(letter);
            continue;
        }
        match letters.next() {
            Some('t') => out.push('\t'),
            Some('n') => out.push('\n'),
            Some('r') => out.push('\r'),
            Some('f') => out.push('\u{c}'),
            Some('u') => {
                let digits: String = letters.by_ref().take(4).collect();
                let number = u32::from_str_radix(&digits, 16).ok().filter(|_| digits.len() == 4);
                let letter = number.and_then(char::from_u32);
                out.push(letter.ok_or_else(|| format!("\\u{digits} is not a character"))?);
            }
            Some(other) => out.push(other),
            None => {}
        }
    }
    Ok(out)
}
