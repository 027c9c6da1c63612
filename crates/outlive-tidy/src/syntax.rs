//! The parts of Rust's grammar that the rules need: what is code, where a block ends, which paths are named.

/// Returns the code alone. Comments and literals become spaces; everything else stays at its line and column.
#[must_use]
pub fn code_of(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut code = String::with_capacity(text.len());
    let mut at = 0;
    while at < chars.len() {
        let end = at + opaque_length(&chars, at);
        if end == at {
            code.push(chars[at]);
            at += 1;
        }
        while at < end.min(chars.len()) {
            code.push(if chars[at] == '\n' { '\n' } else { ' ' });
            at += 1;
        }
    }
    code
}

/// Returns the length of the comment or literal that begins here; 0 if none does.
fn opaque_length(chars: &[char], at: usize) -> usize {
    let rest = &chars[at..];
    match rest {
        ['/', '/', ..] => rest.iter().position(|c| *c == '\n').unwrap_or(rest.len()),
        ['/', '*', ..] => block_comment_length(rest),
        ['"', ..] => text_length(rest),
        ['\'', '\\', _, ..] => 3 + rest[3..].iter().position(|c| *c == '\'').map_or(0, |end| end + 1),
        ['\'', _, '\'', ..] => 3,
        ['r', '"' | '#', ..] if !continues_a_word(chars, at) => raw_text_length(rest),
        _ => 0,
    }
}

/// Whether an `r` belongs to the word before it. The `b` and `c` of `br""` and `cr""` are not such a word.
fn continues_a_word(chars: &[char], at: usize) -> bool {
    let is_word = |index: Option<usize>| index.is_some_and(|index| is_word_char(chars[index]));
    match at.checked_sub(1) {
        Some(before) if matches!(chars[before], 'b' | 'c') => is_word(before.checked_sub(1)),
        before => is_word(before),
    }
}

fn block_comment_length(rest: &[char]) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        match rest[at..] {
            ['/', '*', ..] => (depth, at) = (depth + 1, at + 2),
            ['*', '/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

fn text_length(rest: &[char]) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            '\\' => at += 2,
            '"' => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

fn raw_text_length(rest: &[char]) -> usize {
    let hashes = rest[1..].iter().take_while(|c| **c == '#').count();
    if rest.get(1 + hashes) != Some(&'"') {
        return 0; // A raw identifier.
    }
    let closes = |at: &usize| rest[*at] == '"' && rest[at + 1..].iter().take_while(|c| **c == '#').count() >= hashes;
    (2 + hashes..rest.len()).find(closes).map_or(rest.len(), |end| end + 1 + hashes)
}

/// Returns the code without tests: items under `#[cfg(test)]` become spaces.
#[must_use]
pub fn without_tests(code: &str) -> String {
    let mut kept = code.to_owned();
    let mut from = 0;
    while let Some(begin) = kept[from..].find("#[cfg(test)]").map(|found| from + found) {
        let end = item_end(&kept, begin);
        let blank: String = kept[begin..end].bytes().map(|byte| if byte == b'\n' { '\n' } else { ' ' }).collect();
        kept.replace_range(begin..end, &blank);
        from = begin;
    }
    kept
}

/// Returns where an item ends that begins with its attributes: after its block, or after its semicolon.
fn item_end(code: &str, begin: usize) -> usize {
    match head_end(code, begin) {
        Some(open) if code.as_bytes()[open] == b'{' => block_end(code, open),
        Some(semicolon) => semicolon + 1,
        None => code.len(),
    }
}

/// Returns the first `{` or `;` outside of parentheses and brackets.
fn head_end(code: &str, begin: usize) -> Option<usize> {
    let mut depth = 0_i32;
    let found = code.bytes().enumerate().skip(begin).find(|(_, byte)| {
        match byte {
            b'(' | b'[' => depth += 1,
            b')' | b']' => depth -= 1,
            _ => {}
        }
        depth == 0 && matches!(byte, b'{' | b';')
    });
    found.map(|(at, _)| at)
}

/// Returns where the block ends whose `{` is at `open`: after its `}`.
#[must_use]
pub fn block_end(code: &str, open: usize) -> usize {
    let mut depth = 0_i32;
    let found = code.bytes().enumerate().skip(open).find(|(_, byte)| {
        match byte {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            _ => {}
        }
        depth == 0
    });
    found.map_or(code.len(), |(at, _)| at + 1)
}

/// Returns the line number of a byte, from 1.
#[must_use]
pub fn line_of(code: &str, at: usize) -> usize {
    code.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count() + 1
}

fn is_word_char(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// A token.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Token<'a> {
    /// A word, a `::`, or any other single character that is not whitespace.
    pub text: &'a str,
    /// Offset of its first byte.
    pub at: usize,
}

/// Returns the tokens of the code.
#[must_use]
pub fn tokens(code: &str) -> Vec<Token<'_>> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(first) = code[at..].chars().next() {
        let rest = &code[at..];
        let length = if is_word_char(first) {
            rest.find(|c| !is_word_char(c)).unwrap_or(rest.len())
        } else if rest.starts_with("::") {
            2
        } else {
            first.len_utf8()
        };
        if !first.is_whitespace() {
            tokens.push(Token { text: &rest[..length], at });
        }
        at += length;
    }
    tokens
}

/// A function that has a body.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Function {
    /// The function's name.
    pub name: String,
    /// Line of its `fn`, from 1.
    pub line: usize,
    /// Number of lines, from its `fn` to its `}`.
    pub length: usize,
}

/// Returns the functions of the code.
#[must_use]
pub fn functions(code: &str) -> Vec<Function> {
    let tokens = tokens(code);
    let named = tokens.windows(2).filter(|pair| pair[0].text == "fn" && pair[1].text.starts_with(is_word_char));
    let with_body = named.filter_map(|pair| {
        let open = head_end(code, pair[1].at).filter(|open| code.as_bytes()[*open] == b'{')?;
        let line = line_of(code, pair[0].at);
        let length = line_of(code, block_end(code, open) - 1) - line + 1;
        Some(Function { name: pair[1].text.to_owned(), line, length })
    });
    with_body.collect()
}

/// A module inside a file: `mod name { .. }`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InlineModule {
    /// The module's name.
    pub name: String,
    /// Offset of its first byte, at `mod`.
    pub begin: usize,
    /// Offset of the first byte after it.
    pub end: usize,
}

/// Returns the modules inside a file, outer ones first.
#[must_use]
pub fn inline_modules(code: &str) -> Vec<InlineModule> {
    let tokens = tokens(code);
    let blocks = tokens.windows(3).filter(|three| three[0].text == "mod" && three[2].text == "{");
    let module = |three: &[Token<'_>]| InlineModule {
        name: three[1].text.to_owned(),
        begin: three[0].at,
        end: block_end(code, three[2].at),
    };
    blocks.map(module).collect()
}

/// Returns the modules that a file declares, inline or in their own files.
#[must_use]
pub fn module_names(code: &str) -> Vec<String> {
    let tokens = tokens(code);
    let declared = tokens.windows(3).filter(|three| three[0].text == "mod" && matches!(three[2].text, "{" | ";"));
    declared.map(|three| three[1].text.to_owned()).collect()
}

/// A path of names, in code or in a `use`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Path {
    /// The names, in order; the last may be `*`.
    pub names: Vec<String>,
    /// The name a `use` gives it: its last name, or what follows `as`. `None` for a path outside a `use`.
    pub alias: Option<String>,
    /// Offset of its first byte.
    pub at: usize,
}

/// Returns all paths of two or more names, and everything that a `use` names, written out in full.
#[must_use]
pub fn paths(code: &str) -> Vec<Path> {
    let tokens = tokens(code);
    let mut reader = Reader { tokens: &tokens, next: 0, paths: Vec::new() };
    while let Some(token) = reader.take() {
        if token.text == "use" && reader.peek() != Some("<") {
            reader.use_tree(Vec::new());
        } else if token.text.starts_with(is_word_char) && reader.peek() == Some("::") {
            reader.path(token);
        }
    }
    reader.paths
}

struct Reader<'a> {
    tokens: &'a [Token<'a>],
    next: usize,
    paths: Vec<Path>,
}

impl<'a> Reader<'a> {
    fn take(&mut self) -> Option<Token<'a>> {
        let token = self.tokens.get(self.next).copied();
        self.next += 1;
        token
    }

    fn peek(&self) -> Option<&'a str> {
        self.tokens.get(self.next).map(|token| token.text)
    }

    /// Reads the rest of a path in code.
    fn path(&mut self, first: Token<'_>) {
        let mut names = vec![first.text.to_owned()];
        while self.peek() == Some("::") {
            self.next += 1;
            match self.peek() {
                Some(name) if name.starts_with(is_word_char) => names.push(name.to_owned()),
                _ => break,
            }
            self.next += 1;
        }
        self.paths.push(Path { names, alias: None, at: first.at });
    }

    /// Reads one branch of a `use`, up to the token that ends it.
    fn use_tree(&mut self, mut names: Vec<String>) {
        let mut alias = None;
        let mut last_at = None;
        while let Some(token) = self.take() {
            match token.text {
                "::" => {}
                "{" => return self.use_group(&names),
                "," | ";" | "}" => {
                    self.next -= 1;
                    break;
                }
                "as" => alias = self.take().map(|token| token.text.to_owned()),
                name => {
                    names.push(name.to_owned());
                    last_at = Some(token.at);
                }
            }
        }
        if names.len() > 1 && names.last().is_some_and(|name| name == "self") {
            names.pop();
        }
        if let Some(at) = last_at {
            let alias = alias.or_else(|| names.last().cloned());
            self.paths.push(Path { names, alias, at });
        }
    }

    /// Reads the branches between braces.
    fn use_group(&mut self, names: &[String]) {
        while let Some(text) = self.peek() {
            match text {
                "}" => {
                    self.next += 1;
                    return;
                }
                "," => self.next += 1,
                ";" => return,
                _ => self.use_tree(names.to_vec()),
            }
        }
    }
}
