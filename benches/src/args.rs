//! Command lines of the form `--name value`: all the benchmark programs need.

use std::collections::BTreeMap;
use std::str::FromStr;

/// The parsed command line. A value is looked up by its name without the dashes.
#[derive(Debug, Default)]
pub struct Args(BTreeMap<String, String>);

impl Args {
    /// Reads `--name value` pairs.
    ///
    /// # Errors
    /// A word without dashes, a name without a value, and a name that `known` does not list: a
    /// misspelt flag must not silently measure something else.
    pub fn parse(words: impl Iterator<Item = String>, known: &[&str]) -> Result<Self, String> {
        let mut args = Self::default();
        let mut words = words;
        while let Some(word) = words.next() {
            let name = word.strip_prefix("--").ok_or(format!("expected --name, got {word}"))?;
            if !known.contains(&name) {
                return Err(format!("unknown --{name}; known: --{}", known.join(" --")));
            }
            let value = words.next().ok_or(format!("--{name} needs a value"))?;
            args.0.insert(name.to_owned(), value);
        }
        Ok(args)
    }

    /// The value of `name`, or `default` when it was not given.
    ///
    /// # Errors
    /// The value does not parse as a `T`.
    pub fn get<T: FromStr>(&self, name: &str, default: T) -> Result<T, String> {
        match self.0.get(name) {
            None => Ok(default),
            Some(text) => text.parse().map_err(|_| format!("--{name} {text}: not understood")),
        }
    }
}

#[cfg(test)]
mod tests;
