//! Counts the polls that a replay does not make, for each part of a run's future that has a waker of its own.
//!
//! `tokio::join!` starts each poll with another branch than the one before. A live run is also polled when the body of a
//! step can go on; its replay is not. So before a delivery, polls are added until every join of up to six branches starts
//! with the branch it starts with in a replay: to a multiple of [`ROUND`].
//!
//! A *region* is a part of the future that is woken apart from the run: an item of a `FuturesUnordered`, or what is behind
//! a `Shared`. Waking one may poll others: a `Shared` wakes every item that holds a clone of it, and an item of an inner
//! set wakes the item the set lives in. Which ones it *carries* is learned by watching what is polled when it is woken
//! alone.
//!
//! Regions that are woken while nobody polls their set are polled later, together and once each, however often they were
//! woken. The extra polls of such a *mix* follow from which region carries which. A `Shared` and an item it carries need
//! one wake-up of the `Shared`; if a replay polls the item anyway, one of the `Shared` and one less of the item. Each region
//! of a mix is first woken alone once, to learn what it carries.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::task::Waker;

/// What the number of extra polls is a multiple of whenever something is delivered.
pub(crate) const ROUND: u8 = 60;

/// The regions of one run, by the address of what wakes them.
#[derive(Default)]
pub(crate) struct Regions {
    /// The address of the waker of the run itself, which is no region.
    run: usize,
    all: BTreeMap<usize, Region>,
    /// Those polled in the current poll of the run.
    polled: Vec<usize>,
    /// The only one woken for the current poll of the run, by other than a delivery.
    woken: Option<usize>,
    /// Those that may owe polls.
    debtors: Vec<usize>,
    /// Polls that are not worked out yet.
    mixes: Vec<Mix>,
}

struct Region {
    waker: Waker,
    /// How many operations in it were last polled with that waker.
    operations: usize,
    /// It was woken by other than a delivery, and has not been polled since.
    is_expected: bool,
    /// It was woken by a delivery, and has not been polled since: a replay polls it then, too.
    is_due: bool,
    is_polled: bool,
    /// How often it was woken when a replay does not, modulo [`ROUND`].
    wakes: u8,
    is_debtor: bool,
    /// It was woken alone, so what it carries is known.
    is_known: bool,
    /// Others that are polled when this one is woken.
    carries: Vec<usize>,
    is_carried: bool,
    /// How many mixes it is in.
    mixes: usize,
}

/// Regions that were polled together.
struct Mix {
    /// Those that a replay does not poll.
    extra: Vec<usize>,
    /// Those that it polls as well.
    due: Vec<usize>,
}

impl Mix {
    fn members(&self) -> impl Iterator<Item = usize> {
        self.extra.iter().chain(&self.due).copied()
    }
}

impl Regions {
    pub(crate) fn set_run(&mut self, waker: &Waker) {
        self.run = address(waker);
    }

    pub(crate) fn is_run(&self, waker: &Waker) -> bool {
        address(waker) == self.run
    }

    /// An operation is polled with a waker it was not polled with before.
    pub(crate) fn enter(&mut self, waker: &Waker) {
        if self.is_run(waker) {
            return;
        }
        let make = || Region {
            waker: waker.clone(),
            operations: 0,
            is_expected: false,
            is_due: false,
            is_polled: false,
            wakes: 0,
            is_debtor: false,
            is_known: false,
            carries: Vec::new(),
            is_carried: false,
            mixes: 0,
        };
        self.all.entry(address(waker)).or_insert_with(make).operations += 1;
    }

    /// An operation is not polled with this waker any more.
    pub(crate) fn leave(&mut self, waker: &Waker) {
        let Some(region) = self.all.get_mut(&address(waker)) else { return };
        region.operations -= 1;
        // One that was polled is looked at when the poll ends: its next operation may be polled in it.
        if !region.is_polled {
            self.remove_unused(address(waker));
        }
    }

    fn remove_unused(&mut self, address: usize) {
        let is_unused =
            |region: &Region| region.operations == 0 && !region.is_carried && region.mixes == 0 && region.wakes == 0;
        if !self.all.get(&address).is_some_and(is_unused) {
            return;
        }
        for carried in self.all.remove(&address).map_or_else(Vec::new, |region| region.carries) {
            if !self.all.values().any(|other| other.carries.contains(&carried)) {
                self.all.get_mut(&carried).into_iter().for_each(|region| region.is_carried = false);
                self.remove_unused(carried);
            }
        }
    }

    /// An operation in the region is polled.
    pub(crate) fn polled(&mut self, waker: &Waker) {
        if let Some(region) = self.all.get_mut(&address(waker))
            && !std::mem::replace(&mut region.is_polled, true)
        {
            self.polled.push(address(waker));
        }
    }

    /// The region is about to be woken by other than a delivery.
    pub(crate) fn expect_poll(&mut self, waker: &Waker) {
        self.woken = Some(address(waker));
        if let Some(region) = self.all.get_mut(&address(waker)) {
            region.is_expected = !region.is_due;
        }
    }

    /// The region is about to be woken by a delivery, as it will be in a replay.
    pub(crate) fn expect_delivery(&mut self, waker: &Waker) {
        if let Some(region) = self.all.get_mut(&address(waker)) {
            (region.is_due, region.is_expected) = (true, false);
        }
    }

    /// The run has been polled once.
    pub(crate) fn end_poll(&mut self) {
        let woken = self.woken.take();
        if self.polled.is_empty() {
            return;
        }
        let mut polled = std::mem::take(&mut self.polled);
        if let Some(woken) = woken {
            self.learn(woken, &polled);
        }
        self.count(&polled);
        for address in polled.drain(..) {
            if let Some(region) = self.all.get_mut(&address) {
                (region.is_polled, region.is_expected, region.is_due) = (false, false, false);
            }
            self.remove_unused(address);
        }
        self.polled = polled;
    }

    /// Only this region was woken: what else was polled, and for no other reason, is carried by it.
    fn learn(&mut self, woken: usize, polled: &[usize]) {
        let Some(region) = self.all.get_mut(&woken).filter(|region| region.is_polled || region.operations == 0) else {
            return;
        };
        let (is_empty, mut carries) = (region.operations == 0, std::mem::take(&mut region.carries));
        (region.is_known, region.is_expected) = (true, region.is_expected && !is_empty);
        // One without operations cannot be seen to be polled.
        carries.retain(|other| self.all.get(other).is_some_and(|other| other.operations == 0 || other.is_polled));
        for other in polled.iter().filter(|other| **other != woken) {
            let Some(region) = self.all.get_mut(other).filter(|other| !other.is_expected && !other.is_due) else {
                continue;
            };
            region.is_carried = true;
            if is_empty && !region.carries.contains(&woken) {
                // The other way round it could not be seen.
                region.carries.push(woken);
            }
            if !carries.contains(other) {
                carries.push(*other);
            }
        }
        if let Some(region) = self.all.get_mut(&woken) {
            region.carries = carries;
            region.is_carried |= is_empty;
        }
        if is_empty {
            self.owe(woken, 1);
        }
    }

    /// Counts the extra polls of what was polled.
    fn count(&mut self, polled: &[usize]) {
        let (mut extra, mut due) = (Vec::new(), Vec::new());
        for (address, region) in polled.iter().filter_map(|address| Some((*address, self.all.get(address)?))) {
            match (region.is_due, region.is_expected) {
                (true, _) => due.push(address),
                (false, true) => extra.push(address),
                (false, false) => {}
            }
        }
        match (&extra[..], &due[..]) {
            ([], _) => {}
            (&[address], []) => self.owe(address, 1),
            _ => {
                let mix = Mix { extra, due };
                for member in mix.members() {
                    self.all.get_mut(&member).into_iter().for_each(|region| region.mixes += 1);
                }
                self.mixes.push(mix);
            }
        }
    }

    /// Works out which wake-ups come to the extra polls of a mix.
    fn resolve(&mut self, mix: &Mix) {
        // What a replay polls too.
        let with_carried = |address: &usize| self.carried(*address).into_iter().chain([*address]).collect::<Vec<_>>();
        let mut covered: Vec<usize> = mix.due.iter().flat_map(with_carried).collect();
        // Those that carry others first: then what they carry need not be woken.
        let mut extra: Vec<_> = mix.extra.iter().map(|address| (*address, self.carried(*address))).collect();
        extra.sort_by_key(|(_, carried)| Reverse(carried.len()));
        for (address, carried) in extra {
            if covered.contains(&address) {
                continue;
            }
            self.owe(address, 1);
            for carried in carried.iter().filter(|carried| covered.contains(carried)) {
                self.owe(*carried, -1);
            }
            covered.push(address);
            covered.extend(carried);
        }
        for member in mix.members() {
            self.all.get_mut(&member).into_iter().for_each(|region| region.mixes -= 1);
            self.remove_unused(member);
        }
    }

    /// What is polled once when this region is. A `Shared` that carries this one and others is polled by each of them.
    fn carried(&self, address: usize) -> Vec<usize> {
        let carries = |address: usize| self.all.get(&address).map_or(&[][..], |region| &region.carries);
        let own = carries(address);
        let is_wider = |other: usize| carries(other).contains(&address) && carries(other).len() > own.len();
        own.iter().copied().filter(|other| !is_wider(*other)).collect()
    }

    fn owe(&mut self, address: usize, wakes: i8) {
        let Some(region) = self.all.get_mut(&address) else { return };
        region.wakes = (region.wakes + ROUND).saturating_add_signed(wakes) % ROUND;
        if region.wakes != 0 && !std::mem::replace(&mut region.is_debtor, true) {
            self.debtors.push(address);
        }
    }

    pub(crate) fn has_debts(&self) -> bool {
        !self.debtors.is_empty() || !self.mixes.is_empty()
    }

    /// What to wake next to make up for extra polls. A region that was woken and not polled is out of reach: nobody polls
    /// it now.
    pub(crate) fn next_owed(&mut self) -> Option<Waker> {
        while let Some(mix) = self.mixes.pop() {
            let is_unknown = |region: &Region| !region.is_known && !region.is_expected && !region.is_due;
            let unknown = mix.members().find(|member| self.all.get(member).is_some_and(is_unknown));
            if let Some(address) = unknown {
                self.mixes.push(mix);
                return self.wake(address);
            }
            self.resolve(&mix);
        }
        while let Some(&address) = self.debtors.last() {
            match self.all.get_mut(&address) {
                Some(region) if region.wakes != 0 && !region.is_expected && !region.is_due => {
                    return self.wake(address);
                }
                Some(region) => region.is_debtor = false,
                None => {}
            }
            self.debtors.pop();
        }
        None
    }

    fn wake(&mut self, address: usize) -> Option<Waker> {
        let region = self.all.get_mut(&address)?;
        region.is_expected = true;
        self.woken = Some(address);
        Some(region.waker.clone())
    }

    /// Forgets all that is owed.
    pub(crate) fn forgive(&mut self) {
        self.mixes.clear();
        self.debtors.clear();
        for region in self.all.values_mut() {
            (region.wakes, region.is_debtor, region.mixes) = (0, false, 0);
        }
        self.all.retain(|_, region| region.operations > 0 || region.is_carried);
    }

    pub(crate) fn clear(&mut self) {
        *self = Self { run: self.run, ..Self::default() };
    }
}

/// What tells wakers of one region from those of others, while one of them is held.
fn address(waker: &Waker) -> usize {
    waker.data().addr()
}
