//! Workflows as data that can be changed the way people change code, and the kinds of change.

/// A line of a workflow.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Line {
    Op(Op),
    /// Both branches, concurrently.
    Join(Vec<Line>, Vec<Line>),
    /// Whichever branch finishes first.
    Race(Vec<Line>, Vec<Line>),
    /// The first begins, and is not polled again until the second is done.
    Carry(Vec<Line>, Vec<Line>),
    /// Two iterations. Operations with a key have one for each.
    Loop(Vec<Line>),
    /// The workflow ends here.
    Return,
}

/// An operation.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Op {
    /// What it does, whatever its name: stays when the operation is renamed.
    pub(super) what: u32,
    pub(super) kind: Kind,
    pub(super) name: String,
    pub(super) scope: Option<String>,
    pub(super) key: Option<String>,
    /// Whether its value is a number rather than a string.
    pub(super) is_number: bool,
    /// Whether a step fails at first, and a wait has a timeout.
    pub(super) is_flaky: bool,
    /// The former names it declares.
    pub(super) was: Vec<String>,
}

/// The kind of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Step,
    Sleep,
    Wait,
}

/// A workflow, and how its first version is run.
#[derive(Clone, Debug)]
pub(super) struct Base {
    pub(super) name: &'static str,
    pub(super) lines: Vec<Line>,
    /// Whether signals are sent before they are awaited.
    pub(super) is_early: bool,
    /// Whether its workflow is registered as strict.
    pub(super) is_strict: bool,
}

/// A way to change code at one operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Change {
    Rename,
    /// A new name that declares the old one.
    RenameAndSay,
    /// A second new name that declares only the first one.
    RenameAgain,
    /// A second new name that declares both.
    RenameAgainAndSay,
    InsertStep,
    InsertNumber,
    InsertSleep,
    InsertWait,
    Remove,
    /// Swaps it with the following line.
    Swap,
    Retype,
    Rescope,
    Rekey,
    ReturnBefore,
}

impl Change {
    pub(super) const ALL: [Self; 14] = [
        Self::Rename,
        Self::RenameAndSay,
        Self::RenameAgain,
        Self::RenameAgainAndSay,
        Self::InsertStep,
        Self::InsertNumber,
        Self::InsertSleep,
        Self::InsertWait,
        Self::Remove,
        Self::Swap,
        Self::Retype,
        Self::Rescope,
        Self::Rekey,
        Self::ReturnBefore,
    ];

    /// Applies this change at the operation with that number, if possible. A new operation does `what`.
    pub(super) fn at(self, place: usize, lines: &[Line], what: u32) -> Option<Vec<Line>> {
        let mut lines = lines.to_vec();
        let mut is_made = false;
        let mut left = place;
        at_nth(&mut lines, &mut left, &mut |block, index| is_made = self.make(block, index, what));
        is_made.then_some(lines)
    }

    fn make(self, block: &mut Vec<Line>, index: usize, what: u32) -> bool {
        let fresh = |kind, is_number| {
            let key = (kind == Kind::Sleep).then(|| format!("new{what}"));
            Line::Op(Op { key, is_number, ..Op::new(what, kind, &format!("new{what}")) })
        };
        let inserted = match self {
            Self::InsertStep => Some(fresh(Kind::Step, false)),
            Self::InsertNumber => Some(fresh(Kind::Step, true)),
            Self::InsertSleep => Some(fresh(Kind::Sleep, false)),
            Self::InsertWait => Some(fresh(Kind::Wait, false)),
            Self::ReturnBefore => Some(Line::Return),
            _ => None,
        };
        if let Some(line) = inserted {
            block.insert(index, line);
            return true;
        }
        match self {
            Self::Remove => {
                block.remove(index);
                true
            }
            Self::Swap => {
                let is_possible = index + 1 < block.len();
                if is_possible {
                    block.swap(index, index + 1);
                }
                is_possible
            }
            _ => match &mut block[index] {
                Line::Op(op) => self.change(op, what),
                _ => false,
            },
        }
    }

    fn change(self, op: &mut Op, what: u32) -> bool {
        let (old, new) = (op.name.clone(), format!("{}-{what}", op.name));
        let is_step = op.kind == Kind::Step;
        match self {
            Self::Retype => op.is_number = !op.is_number,
            Self::Rescope => op.scope = Some(format!("scope{what}")),
            Self::Rekey => op.key = Some(format!("key{what}")),
            Self::Rename => op.name = new,
            Self::RenameAndSay => (op.name, op.was) = (new, [op.was.clone(), vec![old]].concat()),
            Self::RenameAgain => (op.name, op.was) = (format!("{new}b"), vec![new]),
            Self::RenameAgainAndSay => {
                (op.name, op.was) = (format!("{new}b"), [vec![new, old], op.was.clone()].concat())
            }
            _ => return false,
        }
        match self {
            Self::Retype | Self::Rename => op.kind != Kind::Sleep,
            Self::RenameAndSay | Self::RenameAgain | Self::RenameAgainAndSay => is_step,
            _ => true,
        }
    }
}

fn at_nth(lines: &mut Vec<Line>, left: &mut usize, act: &mut dyn FnMut(&mut Vec<Line>, usize)) -> bool {
    for index in 0..lines.len() {
        match &mut lines[index] {
            Line::Op(_) if *left == 0 => {
                act(lines, index);
                return true;
            }
            Line::Op(_) => *left -= 1,
            Line::Join(one, other) | Line::Race(one, other) | Line::Carry(one, other) => {
                if at_nth(one, left, act) || at_nth(other, left, act) {
                    return true;
                }
            }
            Line::Loop(body) => {
                if at_nth(body, left, act) {
                    return true;
                }
            }
            Line::Return => {}
        }
    }
    false
}

/// Returns all operations, with whether they are in a loop.
pub(super) fn ops(lines: &[Line]) -> Vec<(&Op, bool)> {
    lines
        .iter()
        .flat_map(|line| match line {
            Line::Op(op) => vec![(op, false)],
            Line::Join(one, other) | Line::Race(one, other) | Line::Carry(one, other) => {
                [ops(one), ops(other)].concat()
            }
            Line::Loop(body) => ops(body).into_iter().map(|(op, _)| (op, true)).collect(),
            Line::Return => Vec::new(),
        })
        .collect()
}

/// Makes the operation that does `what` declare a former name.
pub(super) fn saying(lines: &[Line], what: Option<u32>, was: &str) -> Vec<Line> {
    let say = |lines: &[Line]| saying(lines, what, was);
    lines
        .iter()
        .map(|line| match line {
            Line::Op(op) if Some(op.what) == what => {
                Line::Op(Op { was: [op.was.clone(), vec![was.to_owned()]].concat(), ..op.clone() })
            }
            Line::Join(one, other) => Line::Join(say(one), say(other)),
            Line::Race(one, other) => Line::Race(say(one), say(other)),
            Line::Carry(one, other) => Line::Carry(say(one), say(other)),
            Line::Loop(body) => Line::Loop(say(body)),
            other => other.clone(),
        })
        .collect()
}

/// Whether some operations are identified by their count alone: what happens to those is documented, not predicted.
pub(super) fn has_unkeyed_loop(lines: &[Line]) -> bool {
    ops(lines).iter().any(|(op, is_looped)| *is_looped && op.key.is_none())
}

/// Formats lines as a short sketch.
pub(super) fn sketch(lines: &[Line]) -> String {
    let lines = lines.iter().map(|line| match line {
        Line::Op(op) => op.sketch(),
        Line::Join(one, other) => format!("join({} | {})", sketch(one), sketch(other)),
        Line::Race(one, other) => format!("race({} | {})", sketch(one), sketch(other)),
        Line::Carry(one, other) => format!("carry({} | {})", sketch(one), sketch(other)),
        Line::Loop(body) => format!("loop({})", sketch(body)),
        Line::Return => "return".to_owned(),
    });
    lines.collect::<Vec<_>>().join("; ")
}

impl Op {
    fn sketch(&self) -> String {
        let scope = self.scope.as_ref().map(|scope| format!("{scope}/")).unwrap_or_default();
        let key = self.key.as_ref().map(|key| format!("[{key}]")).unwrap_or_default();
        let was: String = self.was.iter().map(|was| format!(".was({was})")).collect();
        let kind = match (self.kind, self.is_number) {
            (Kind::Step, false) => "",
            (Kind::Step, true) => "number ",
            (Kind::Sleep, _) => "sleep",
            (Kind::Wait, false) => "wait ",
            (Kind::Wait, true) => "wait number ",
        };
        format!("{scope}{kind}{}{key}{was}", self.name)
    }

    fn new(what: u32, kind: Kind, name: &str) -> Self {
        let (name, was) = (name.to_owned(), Vec::new());
        Self { what, kind, name, scope: None, key: None, is_number: false, is_flaky: false, was }
    }
}

fn step(what: u32, name: &str) -> Line {
    Line::Op(Op::new(what, Kind::Step, name))
}

fn number(what: u32, name: &str) -> Line {
    Line::Op(Op { is_number: true, ..Op::new(what, Kind::Step, name) })
}

fn keyed(line: Line, key: &str) -> Line {
    match line {
        Line::Op(op) => Line::Op(Op { key: Some(key.to_owned()), ..op }),
        other => other,
    }
}

fn flaky(line: Line) -> Line {
    match line {
        Line::Op(op) => Line::Op(Op { is_flaky: true, ..op }),
        other => other,
    }
}

fn scoped(line: Line, scope: &str) -> Line {
    match line {
        Line::Op(op) => Line::Op(Op { scope: Some(scope.to_owned()), ..op }),
        other => other,
    }
}

fn sleep(what: u32) -> Line {
    Line::Op(Op::new(what, Kind::Sleep, ""))
}

fn wait(what: u32, name: &str) -> Line {
    Line::Op(Op::new(what, Kind::Wait, name))
}

/// The workflows that are changed.
pub(super) fn bases() -> Vec<Base> {
    let late = |(name, lines)| Base { name, lines, is_early: false, is_strict: false };
    let early = Base {
        name: "signals that come early",
        lines: vec![step(1, "charge"), sleep(2), wait(3, "go"), step(4, "ship"), wait(5, "thanks")],
        is_early: true,
        is_strict: false,
    };
    let strict = Base {
        name: "a strict sequence",
        lines: vec![step(1, "charge"), wait(2, "go"), step(3, "label"), sleep(4), step(5, "ship")],
        is_early: false,
        is_strict: true,
    };
    straight().into_iter().chain(branched()).map(late).chain([early, strict]).collect()
}

/// Sequential workflows.
fn straight() -> Vec<(&'static str, Vec<Line>)> {
    let keys = vec![
        keyed(step(1, "charge"), "card"),
        scoped(step(2, "label"), "left"),
        keyed(sleep(3), "nap"),
        scoped(wait(4, "go"), "left"),
        step(5, "ship"),
    ];
    vec![
        ("a sequence", vec![step(1, "charge"), step(2, "label"), sleep(3), step(4, "ship")]),
        ("a wait", vec![step(1, "charge"), wait(2, "go"), step(3, "ship"), sleep(4)]),
        ("types", vec![number(1, "price"), step(2, "charge"), number(3, "count"), sleep(4), step(5, "ship")]),
        ("keys and scopes", keys),
        (
            "retries and limits",
            vec![flaky(step(1, "charge")), flaky(wait(2, "go")), flaky(number(3, "count")), step(4, "ship")],
        ),
    ]
}

/// Workflows with joins, races and loops.
fn branched() -> Vec<(&'static str, Vec<Line>)> {
    let join = Line::Join(
        vec![step(1, "charge"), keyed(sleep(2), "nap"), step(3, "label")],
        vec![step(4, "reserve"), wait(5, "go"), number(6, "count")],
    );
    let race = Line::Race(vec![wait(2, "go"), step(3, "ship")], vec![sleep(4), step(5, "refund")]);
    let carried = vec![step(1, "charge"), step(2, "label")];
    let carry = Line::Carry(carried, vec![sleep(3), step(4, "reserve"), wait(5, "go")]);
    let keyed_loop = Line::Loop(vec![keyed(step(1, "ship"), "item"), keyed(sleep(2), "nap")]);
    let unkeyed_loop = Line::Loop(vec![step(2, "ship"), sleep(3)]);
    vec![
        ("a join", vec![join, step(7, "ship")]),
        ("a race", vec![step(1, "charge"), race, step(6, "mail")]),
        ("a step that is carried", vec![carry, step(6, "ship")]),
        ("a loop with keys", vec![keyed_loop, step(3, "mail")]),
        ("a loop without keys", vec![step(1, "charge"), unkeyed_loop, step(4, "mail")]),
    ]
}
