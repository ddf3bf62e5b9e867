//! The schema language: its values, and the parser of one file.

/// Versions `from..=to`; `to` is `i16::MAX` for an open end, `from > to` for none.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Versions {
    pub from: i16,
    pub to: i16,
}

impl Versions {
    pub const NONE: Self = Self { from: i16::MAX, to: -1 };

    fn parse(text: &str) -> Result<Self, String> {
        let number = |text: &str| text.parse::<i16>().map_err(|_| format!("bad version {text}"));
        if text == "none" {
            Ok(Self::NONE)
        } else if let Some(from) = text.strip_suffix('+') {
            Ok(Self { from: number(from)?, to: i16::MAX })
        } else if let Some((from, to)) = text.split_once('-') {
            Ok(Self { from: number(from)?, to: number(to)? })
        } else {
            Ok(Self { from: number(text)?, to: number(text)? })
        }
    }

    pub fn is_none(self) -> bool {
        self.from > self.to
    }

    /// Whether every version of `other` is in here.
    pub fn covers(self, other: Self) -> bool {
        self.from <= other.from && other.to <= self.to
    }

    pub fn meets(self, other: Self) -> bool {
        self.from <= other.to && other.from <= self.to
    }
}

/// The type of one value.
#[derive(Clone, PartialEq, Eq)]
pub enum Kind {
    Primitive(&'static str),
    String,
    Bytes,
    Records,
    Struct(String),
    Array(Box<Kind>),
}

const PRIMITIVES: [&str; 10] =
    ["bool", "i8", "i16", "u16", "i32", "u32", "i64", "f64", "uuid", "varint"];

impl Kind {
    fn parse(text: &str) -> Self {
        if let Some(element) = text.strip_prefix("[]") {
            return Self::Array(Box::new(Self::parse(element)));
        }
        match text {
            "string" => Self::String,
            "bytes" => Self::Bytes,
            "records" => Self::Records,
            _ => match PRIMITIVES.iter().find(|name| **name == text) {
                Some(name) => Self::Primitive(name),
                None => Self::Struct(text.to_owned()),
            },
        }
    }
}

pub struct Field {
    pub name: String,
    pub kind: Kind,
    pub versions: Versions,
    pub nullable: Versions,
    pub default: Option<String>,
    pub tag: Option<u32>,
}

pub struct Struct {
    pub name: String,
    pub fields: Vec<Field>,
}

#[derive(Clone, PartialEq, Eq)]
pub enum Role {
    Request,
    Response,
    Record,
}

/// A request, a response or a record of its own, with every struct it is made of (itself first).
pub struct Root {
    pub role: Role,
    pub versions: Versions,
    pub flexible: Versions,
    pub structs: Vec<Struct>,
}

#[derive(Clone)]
pub struct Api {
    pub key: i16,
    pub name: String,
    pub versions: Versions,
    pub advertised: Versions,
    pub flexible: Versions,
}

pub struct File {
    pub doc: Vec<String>,
    pub api: Option<Api>,
    pub roots: Vec<Root>,
}

/// Parses one schema file; the error names the line.
pub fn parse(text: &str) -> Result<File, String> {
    let mut parser =
        Parser { file: File { doc: Vec::new(), api: None, roots: Vec::new() }, open: Vec::new() };
    for (number, line) in text.lines().enumerate() {
        parser.line(line).map_err(|error| format!("line {}: {error}", number + 1))?;
    }
    Ok(parser.file)
}

struct Parser {
    file: File,
    /// Indices, in the last root, of the structs that enclose the next field, by indentation.
    open: Vec<usize>,
}

impl Parser {
    fn line(&mut self, line: &str) -> Result<(), String> {
        if let Some(comment) = line.strip_prefix('#') {
            if self.file.api.is_none() && self.file.roots.is_empty() {
                self.file.doc.push(comment.trim().to_owned());
            }
            return Ok(());
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        let indent = line.len() - line.trim_start().len();
        match (indent, words.as_slice()) {
            (_, []) => Ok(()),
            (0, words) => self.directive(words),
            (_, [name, kind, versions, attributes @ ..]) if indent.is_multiple_of(2) => {
                self.field(indent / 2, name, kind, versions, attributes)
            }
            _ => Err(format!("expected `name type versions [attributes]`, got `{line}`")),
        }
    }

    fn directive(&mut self, words: &[&str]) -> Result<(), String> {
        match words {
            ["api", key, name] => {
                let key = key.parse().map_err(|_| format!("bad api key {key}"))?;
                let none = Versions::NONE;
                self.file.api = Some(Api {
                    key,
                    name: (*name).to_owned(),
                    versions: none,
                    advertised: none,
                    flexible: none,
                });
            }
            ["versions", range] => {
                let versions = Versions::parse(range)?;
                match (self.file.roots.last_mut(), &mut self.file.api) {
                    (Some(root), _) => root.versions = versions,
                    (None, Some(api)) => (api.versions, api.advertised) = (versions, versions),
                    (None, None) => return Err("`versions` of what?".to_owned()),
                }
            }
            ["advertised", range] => {
                self.file.api.as_mut().ok_or("`advertised` of what?")?.advertised =
                    Versions::parse(range)?;
            }
            ["flexible", range] => {
                let versions = Versions::parse(range)?;
                match (self.file.roots.last_mut(), &mut self.file.api) {
                    (Some(root), _) => root.flexible = versions,
                    (None, Some(api)) => api.flexible = versions,
                    (None, None) => return Err("`flexible` of what?".to_owned()),
                }
            }
            ["request"] => self.message(Role::Request, "Request")?,
            ["response"] => self.message(Role::Response, "Response")?,
            ["record", name] => self.root(Role::Record, name, Versions::NONE, Versions::NONE),
            ["struct", name] => {
                let root = self.file.roots.last_mut().ok_or("a struct belongs to a message")?;
                root.structs.push(Struct { name: (*name).to_owned(), fields: Vec::new() });
                self.open = vec![root.structs.len() - 1];
            }
            _ => return Err(format!("unknown directive `{}`", words.join(" "))),
        }
        Ok(())
    }

    fn message(&mut self, role: Role, suffix: &str) -> Result<(), String> {
        let api = self.file.api.clone().ok_or("a message belongs to an api")?;
        self.root(role, &format!("{}{suffix}", api.name), api.versions, api.flexible);
        Ok(())
    }

    fn root(&mut self, role: Role, name: &str, versions: Versions, flexible: Versions) {
        let first = Struct { name: name.to_owned(), fields: Vec::new() };
        self.file.roots.push(Root { role, versions, flexible, structs: vec![first] });
        self.open = vec![0];
    }

    fn field(
        &mut self,
        depth: usize,
        name: &str,
        kind: &str,
        versions: &str,
        attributes: &[&str],
    ) -> Result<(), String> {
        let root = self.file.roots.last_mut().ok_or("a field belongs to a message")?;
        self.open.truncate(depth);
        if self.open.len() < depth {
            // One level deeper: the field before this one is the struct that is being described.
            let parent = *self.open.last().ok_or("indented under nothing")?;
            let owner = root.structs[parent].fields.last().ok_or("indented under nothing")?;
            let described = match &owner.kind {
                Kind::Struct(name) => name.clone(),
                Kind::Array(element) => match element.as_ref() {
                    Kind::Struct(name) => name.clone(),
                    _ => return Err(format!("`{}` has no fields", owner.name)),
                },
                _ => return Err(format!("`{}` has no fields", owner.name)),
            };
            root.structs.push(Struct { name: described, fields: Vec::new() });
            self.open.push(root.structs.len() - 1);
        }
        if self.open.len() != depth {
            return Err("indented too far".to_owned());
        }
        let mut field = Field {
            name: name.to_owned(),
            kind: Kind::parse(kind),
            versions: Versions::parse(versions)?,
            nullable: Versions::NONE,
            default: None,
            tag: None,
        };
        for attribute in attributes {
            match attribute.split_once('=') {
                Some(("nullable", range)) => field.nullable = Versions::parse(range)?,
                Some(("default", value)) => field.default = Some(value.to_owned()),
                Some(("tag", number)) => {
                    field.tag = Some(number.parse().map_err(|_| format!("bad tag {number}"))?);
                }
                _ => return Err(format!("unknown attribute `{attribute}`")),
            }
        }
        if field.tag.is_some() && field.kind == Kind::Records {
            // The writer shares records instead of copying them, which a tag's size before it
            // forbids.
            return Err(format!("`{name}`: records cannot be tagged"));
        }
        let owner = *self.open.last().expect("depth is at least one");
        root.structs[owner].fields.push(field);
        Ok(())
    }
}
