//! `server.properties`: Java's properties format.
//!
//! ```text
//! # a comment, as is !
//! key=value     key: value     key value      the blanks around the separator do not count
//! key = a long \
//!       value                                  a backslash at the end goes on in the next line
//! ```
//! Lines end in LF, CR or both. Java reads the bytes as Latin-1; here they are UTF-8 if they can
//! be, with or without a byte order mark, and Latin-1 otherwise.
//! Source: the format of `java.util.Properties.load`.

/// One entry: the line it begins in, from 1, its key and its value.
pub type Entry = (usize, String, String);

/// What Java counts as a blank; a no-break space is none.
const BLANKS: [char; 3] = [' ', '\t', '\u{c}'];

/// The text of a file.
#[must_use]
pub fn decode(bytes: &[u8]) -> String {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    match std::str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => bytes.iter().copied().map(char::from).collect(),
    }
}

/// The entries of `text`, in order.
///
/// # Errors
/// The line of an escape that cannot be read, and what is wrong with it.
pub fn entries(text: &str) -> Result<Vec<Entry>, (usize, String)> {
    let mut entries = Vec::new();
    let mut lines = lines(text).enumerate();
    while let Some((index, line)) = lines.next() {
        let mut logical = line.trim_start_matches(BLANKS).to_owned();
        if logical.is_empty() || logical.starts_with(['#', '!']) {
            continue;
        }
        while goes_on(&logical) {
            logical.pop();
            let Some((_, next)) = lines.next() else { break };
            logical.push_str(next.trim_start_matches(BLANKS));
        }
        let (key, value) = split(&logical);
        let unescaped = |part: &str| unescape(part).map_err(|why| (index + 1, why));
        entries.push((index + 1, unescaped(key)?, unescaped(value)?));
    }
    Ok(entries)
}

/// The lines of `text`; CR LF ends one, not two.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    let whole = text.split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line));
    whole.flat_map(|line| line.split('\r'))
}

/// A line goes on if it ends in an odd number of backslashes.
fn goes_on(line: &str) -> bool {
    line.bytes().rev().take_while(|byte| *byte == b'\\').count() % 2 == 1
}

/// The key ends at the first `=`, `:` or blank that no backslash precedes.
fn split(line: &str) -> (&str, &str) {
    let mut escaped = false;
    let end = line.char_indices().find(|(_, letter)| {
        let ends = !escaped && (matches!(letter, '=' | ':') || BLANKS.contains(letter));
        escaped = *letter == '\\' && !escaped;
        ends
    });
    let Some((end, _)) = end else { return (line, "") };
    let (key, rest) = line.split_at(end);
    let rest = rest.trim_start_matches(BLANKS);
    let value = rest.strip_prefix(['=', ':']).unwrap_or(rest);
    (key, value.trim_start_matches(BLANKS))
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
            Some('u') => out.push(unicode(&mut letters)?),
            Some(other) => out.push(other),
            None => {}
        }
    }
    Ok(out)
}

/// The letter after `\u`; one beyond 16 bits takes two escapes, as in Java.
fn unicode(letters: &mut std::str::Chars<'_>) -> Result<char, String> {
    let (first, digits) = utf16(letters)?;
    let mut units = vec![first];
    let mut after = letters.clone();
    if (0xd800..0xdc00).contains(&first) && after.next() == Some('\\') && after.next() == Some('u')
    {
        units.push(utf16(&mut after)?.0);
        *letters = after;
    }
    let decoded = String::from_utf16(&units).ok();
    let letter = decoded.and_then(|text| text.chars().next());
    letter.ok_or_else(|| format!("\\u{digits} is not a character"))
}

fn utf16(letters: &mut std::str::Chars<'_>) -> Result<(u16, String), String> {
    let digits: String = letters.by_ref().take(4).collect();
    let hexadecimal = digits.len() == 4 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let unit = u16::from_str_radix(&digits, 16).ok().filter(|_| hexadecimal);
    unit.map(|unit| (unit, digits.clone())).ok_or_else(|| format!("\\u{digits} is not a character"))
}
