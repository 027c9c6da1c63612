//! Every state a power cut may leave a disk in, at each moment of its log.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::chance::Chance;
use crate::log::{self, FileNum, Image, Op};

/// A moment of a log: what is durable, what is pending, and what was promised.
pub(crate) struct Moment<'a> {
    log: &'a [Op],
    /// Number of operations of the log that have happened.
    pub(crate) position: usize,
    files: Vec<File>,
    names: BTreeMap<Arc<str>, FileNum>,
    /// Files that names were made to point to since they were last synced, in order.
    names_pending: BTreeMap<Arc<str>, Vec<Option<FileNum>>>,
    /// The last step that the store has acknowledged.
    pub(crate) acked: usize,
    /// The last step that the store was asked for.
    pub(crate) begun: usize,
}

#[derive(Clone, Default)]
struct File {
    synced: Vec<u8>,
    /// Positions of later writes and truncations in the log, with what is known about them.
    later: Vec<(usize, Fate)>,
}

/// The known state of a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    /// No sync has followed yet.
    Pending,
    /// A later sync has failed: it may be there or not, and no later sync changes that.
    Doubtful,
    /// It is there, but comes after one that may not be.
    Certain,
}

/// The part of the unsynced writes that survives a cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Survival {
    Nothing,
    Everything,
    /// The first few survive, the last of those possibly in part.
    Prefix,
    /// Any of them survive, each whole.
    Some,
    /// Any sectors of any of them survive.
    Torn {
        sector: usize,
    },
    /// Only the new length of the file survives; the new part is filled with this byte.
    Length {
        junk: u8,
    },
}

impl Survival {
    const ALL: [Self; 8] = [
        Self::Nothing,
        Self::Everything,
        Self::Prefix,
        Self::Some,
        Self::Torn { sector: 512 },
        Self::Torn { sector: 4_096 },
        Self::Length { junk: 0 },
        Self::Length { junk: 0xa5 },
    ];
}

impl<'a> Moment<'a> {
    /// Creates the moment before anything in the log has happened, on a disk that holds `base` after step `step`.
    pub(crate) fn first(base: &Image, step: usize, log: &'a [Op]) -> Self {
        let names = base.keys().cloned().zip(0..).collect();
        let files = base.values().map(|content| File { synced: content.clone(), later: Vec::new() }).collect();
        Self { log, position: 0, files, names, names_pending: BTreeMap::new(), acked: step, begun: step }
    }

    /// Advances by one operation. Returns `false` at the end.
    pub(crate) fn advance(&mut self) -> bool {
        let log = self.log;
        let Some(op) = log.get(self.position) else { return false };
        match op {
            Op::Create { name, file } => {
                self.files.resize(self.files.len().max(file + 1), File::default());
                self.names_pending.entry(name.clone()).or_default().push(Some(*file));
            }
            Op::Delete { name } => self.names_pending.entry(name.clone()).or_default().push(None),
            Op::SyncFolder => {
                for (name, leads) in std::mem::take(&mut self.names_pending) {
                    lead(&mut self.names, name, leads.last().copied());
                }
            }
            Op::Write { file, .. } | Op::Truncate { file, .. } => {
                let position = self.position;
                self.file(*file).later.push((position, Fate::Pending));
            }
            Op::Sync { file } => self.file(*file).sync(log),
            Op::SyncFailed { file } => self.file(*file).turn(Fate::Doubtful),
            Op::Begun(step) => self.begun = *step,
            Op::Acked(step) => self.acked = *step,
        }
        self.position += 1;
        true
    }

    /// Returns what is left with the same survival for everything.
    pub(crate) fn image(&self, survival: Survival) -> Image {
        self.left(&mut Chance::of([0]), |_| survival)
    }

    /// Returns what is left if chance decides for each file and each name.
    pub(crate) fn random_image(&self, chance: &mut Chance) -> Image {
        self.left(chance, |chance| chance.pick(&Survival::ALL))
    }

    fn left(&self, chance: &mut Chance, mut decide: impl FnMut(&mut Chance) -> Survival) -> Image {
        let mut names = self.names.clone();
        for (name, leads) in &self.names_pending {
            let count = match decide(chance) {
                Survival::Nothing => 0,
                Survival::Everything => leads.len(),
                _ => chance.below(leads.len() + 1),
            };
            lead(&mut names, name.clone(), leads[..count].last().copied());
        }
        let mut image = Image::new();
        for (name, file) in names {
            let survival = decide(chance);
            image.insert(name, self.survive(&self.files[file], survival, chance));
        }
        image
    }

    fn survive(&self, file: &File, survival: Survival, chance: &mut Chance) -> Vec<u8> {
        let mut content = file.synced.clone();
        let often = chance.pick(&[2, 3, 5]);
        let count = chance.below(file.later.len() + 1);
        for (number, (position, fate)) in file.later.iter().enumerate() {
            let op = &self.log[*position];
            match (survival, op) {
                _ if *fate == Fate::Certain => apply(&mut content, op),
                (Survival::Everything, _) => apply(&mut content, op),
                (Survival::Prefix, _) if number < count => apply(&mut content, op),
                (Survival::Prefix, Op::Write { at, bytes, .. }) if number == count => {
                    log::write(&mut content, *at, &bytes[..chance.below(bytes.len())]);
                }
                (Survival::Some, _) if !chance.is(often) => apply(&mut content, op),
                (Survival::Torn { sector }, _) => tear(&mut content, op, sector, chance),
                _ => {}
            }
        }
        if let Survival::Length { junk } = survival {
            content.resize(self.survive(file, Survival::Everything, chance).len(), junk);
        }
        content
    }

    fn file(&mut self, file: FileNum) -> &mut File {
        // A file without a name was not created in the log; nothing of it is left anyway.
        self.files.resize(self.files.len().max(file + 1), File::default());
        &mut self.files[file]
    }
}

impl File {
    /// Makes everything pending durable.
    fn sync(&mut self, log: &[Op]) {
        self.turn(Fate::Certain);
        if self.later.iter().all(|(_, fate)| *fate == Fate::Certain) {
            self.later.drain(..).for_each(|(position, _)| apply(&mut self.synced, &log[position]));
        }
    }

    /// Gives everything pending this fate.
    fn turn(&mut self, into: Fate) {
        self.later.iter_mut().filter(|(_, fate)| *fate == Fate::Pending).for_each(|(_, fate)| *fate = into);
    }
}

/// Makes a name point to a file, or to nothing.
fn lead(names: &mut BTreeMap<Arc<str>, FileNum>, name: Arc<str>, leads: Option<Option<FileNum>>) {
    match leads {
        None => {}
        Some(None) => drop(names.remove(&name)),
        Some(Some(file)) => drop(names.insert(name, file)),
    }
}

fn apply(content: &mut Vec<u8>, op: &Op) {
    match op {
        Op::Write { at, bytes, .. } => log::write(content, *at, bytes),
        Op::Truncate { len, .. } => content.resize(*len, 0),
        _ => {}
    }
}

/// Applies random sectors of a write; applies a truncation or not.
fn tear(content: &mut Vec<u8>, op: &Op, sector: usize, chance: &mut Chance) {
    let Op::Write { at, bytes, .. } = op else {
        if chance.is(2) {
            apply(content, op);
        }
        return;
    };
    let mut from = 0;
    while from < bytes.len() {
        let to = bytes.len().min(from + sector - (at + from) % sector);
        if chance.is(2) {
            log::write(content, at + from, &bytes[from..to]);
        }
        from = to;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(name: &str, content: &[u8]) -> Image {
        Image::from([(name.into(), content.to_vec())])
    }

    fn write(at: usize, bytes: &[u8]) -> Op {
        Op::Write { file: 0, at, bytes: bytes.to_vec() }
    }

    /// Returns what may be left at the end of a log, in many tries.
    fn left(base: &Image, log: &[Op]) -> Vec<Image> {
        let mut moment = Moment::first(base, 0, log);
        while moment.advance() {}
        (0..400).map(|seed| moment.random_image(&mut Chance::of([seed]))).collect()
    }

    #[test]
    fn synced_writes_are_in_every_image() {
        let log = [write(0, b"new"), Op::Sync { file: 0 }, write(1, b"E")];
        let images = left(&image("a", b"old"), &log);
        assert!(images.iter().all(|image| [&b"new"[..], b"nEw"].contains(&&image["a"][..])), "{images:?}");
        assert!(images.contains(&image("a", b"new")) && images.contains(&image("a", b"nEw")));
    }

    #[test]
    fn unsynced_writes_may_be_lost_in_any_order() {
        let images = left(&image("a", b"--"), &[write(0, b"1"), write(1, b"2")]);
        for content in [b"--", b"1-", b"-2", b"12"] {
            assert!(images.contains(&image("a", content)), "{content:?} never occurred");
        }
    }

    #[test]
    fn write_is_torn_between_sectors_and_within_the_last() {
        let images = left(&image("a", &[0; 1_024]), &[write(0, &[1; 1_024])]);
        assert!(images.iter().any(|image| image["a"][..512] == [0; 512] && image["a"][512..] == [1; 512]));
        assert!(images.iter().any(|image| image["a"].iter().filter(|byte| **byte == 1).count() % 512 != 0));
    }

    #[test]
    fn file_may_grow_without_its_content() {
        let images = left(&image("a", b""), &[write(0, b"new")]);
        assert!(images.contains(&image("a", &[0; 3])) && images.contains(&image("a", &[0xa5; 3])));
    }

    #[test]
    fn name_is_durable_once_the_folder_is_synced() {
        let made = [Op::Create { name: "b".into(), file: 0 }];
        let images = left(&Image::new(), &made);
        assert!(images.contains(&Image::new()) && images.contains(&image("b", b"")));
        let synced = [&made[..], &[Op::SyncFolder]].concat();
        assert!(left(&Image::new(), &synced).iter().all(|left| *left == image("b", b"")));
    }

    #[test]
    fn deleted_file_may_reappear() {
        let images = left(&image("a", b"old"), &[Op::Delete { name: "a".into() }]);
        assert!(images.contains(&image("a", b"old")) && images.contains(&Image::new()));
    }

    #[test]
    fn writes_before_a_failed_sync_may_be_lost_despite_later_syncs() {
        let log = [write(0, b"1"), Op::SyncFailed { file: 0 }, write(1, b"2"), Op::Sync { file: 0 }];
        let images = left(&image("a", b"--"), &log);
        assert!(images.contains(&image("a", b"-2")) && images.contains(&image("a", b"12")));
        assert!(images.iter().all(|image| image["a"][1] == b'2'));
        let again = [&log[..], &[write(0, b"3"), Op::Sync { file: 0 }]].concat();
        assert!(left(&image("a", b"--"), &again).iter().all(|left| *left == image("a", b"32")));
    }

    #[test]
    fn moment_tracks_begun_and_acknowledged_writes() {
        let log = [Op::Begun(4), Op::Acked(4), Op::Begun(5)];
        let base = Image::new();
        let mut moment = Moment::first(&base, 3, &log);
        let mut seen = vec![(moment.acked, moment.begun)];
        while moment.advance() {
            seen.push((moment.acked, moment.begun));
        }
        assert_eq!(seen, [(3, 3), (3, 4), (4, 4), (4, 5)]);
    }
}
