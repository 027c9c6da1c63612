//! Counts the polls that a live run gets and its replay does not, so that they can be made up for.
//!
//! The number of polls can change what a workflow does. `tokio::join!` starts each poll with another branch than the
//! one before, so if one delivery makes several branches ready, the polls before it decide which branch continues
//! first. A replay polls a run once per delivery. A live run is also polled when the body of a step can continue. So
//! before a delivery, polls are added until the number of extra polls is a multiple of [`ROUND`]. Then every join of up
//! to six branches starts with the branch it starts with in a replay.
//!
//! Extra polls are counted for the run, and for each part of its future that is woken apart from the run. Such a part
//! is a *region*: an item of a `FuturesUnordered`, or what is behind a `Shared`. Waking a region may poll others: a
//! `Shared` wakes every item that holds a clone of it, and an item of an inner set wakes the item the set lives in.
//! Which regions one *carries* is learned by watching what is polled when it is woken alone.
//!
//! Regions that are woken while nothing polls their set are polled later, together and once each, however often they
//! were woken. The extra polls of such a *mix* follow from which region carries which. A `Shared` and an item it
//! carries need one wake-up of the `Shared`; if a replay polls the item anyway, they need one of the `Shared` and one
//! less of the item. Each region of a mix is first woken alone once, to learn what it carries.
//!
//! Regions are never woken together to save polls: a future between two of them and the run, such as an item that
//! consists of two inner sets, would be polled once for both, and nobody counts its polls.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::task::Waker;

/// Whenever something is delivered, the number of extra polls is a multiple of this.
pub(crate) const ROUND: u8 = 60;

/// The regions of one run. Most runs have none.
#[derive(Default)]
pub(crate) struct Regions {
    /// The address of the run's own waker, which is not a region.
    run: usize,
    known: Option<Box<KnownRegions>>,
}

/// Regions by the address of their wakers.
#[derive(Default)]
struct KnownRegions {
    all: HashMap<usize, Region, BuildHasherDefault<AddressHasher>>,
    /// The regions polled in the current poll of the run.
    polled: Vec<usize>,
    /// The only region woken for the current poll of the run, other than by a delivery.
    woken: Option<usize>,
    /// The regions that may owe polls.
    debtors: Vec<usize>,
    /// Polls that are not resolved yet.
    mixes: Vec<Mix>,
}

struct Region {
    waker: Waker,
    /// The number of operations last polled with that waker.
    operations: usize,
    /// The region was woken other than by a delivery, and has not been polled since.
    is_expected: bool,
    /// The region was woken by a delivery, and has not been polled since. A replay polls it then too.
    is_due: bool,
    is_polled: bool,
    /// How many times it was woken when a replay does not wake it, modulo [`ROUND`].
    wakes: u8,
    is_debtor: bool,
    /// The region was woken alone, so it is known what it carries.
    is_known: bool,
    /// Other regions that are polled when this one is woken.
    carries: Vec<usize>,
    is_carried: bool,
    /// The number of mixes it is in.
    mixes: usize,
}

/// Regions that were polled together.
struct Mix {
    /// Those that a replay does not poll.
    extra: Vec<usize>,
    /// Those that a replay polls too.
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

    /// Notes that an operation is polled with a waker for the first time.
    pub(crate) fn enter(&mut self, waker: &Waker) {
        if !self.is_run(waker) {
            self.known.get_or_insert_default().enter(waker);
        }
    }

    /// Notes that an operation is no longer polled with this waker.
    pub(crate) fn leave(&mut self, waker: &Waker) {
        self.known.iter_mut().for_each(|known| known.leave(waker));
    }

    /// Notes that an operation in the region is polled.
    pub(crate) fn polled(&mut self, waker: &Waker) {
        self.known.iter_mut().for_each(|known| known.polled(waker));
    }

    /// Notes that the region is about to be woken, other than by a delivery.
    pub(crate) fn expect_poll(&mut self, waker: &Waker) {
        self.known.iter_mut().for_each(|known| known.expect_poll(waker));
    }

    /// Notes that the region is about to be woken by a delivery, as it will be in a replay.
    pub(crate) fn expect_delivery(&mut self, waker: &Waker) {
        self.known.iter_mut().for_each(|known| known.expect_delivery(waker));
    }

    /// Ends a poll of the run.
    pub(crate) fn end_poll(&mut self) {
        self.known.iter_mut().for_each(|known| known.end_poll());
    }

    pub(crate) fn has_debts(&self) -> bool {
        self.known.as_ref().is_some_and(|known| known.has_debts())
    }

    /// Returns what to wake next to make up for extra polls.
    pub(crate) fn next_owed(&mut self) -> Option<Waker> {
        self.known.as_mut()?.next_owed()
    }

    /// Forgets everything that is owed.
    pub(crate) fn forgive(&mut self) {
        self.known.iter_mut().for_each(|known| known.forgive());
    }

    pub(crate) fn clear(&mut self) {
        self.known = None;
    }
}

impl KnownRegions {
    fn enter(&mut self, waker: &Waker) {
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

    fn leave(&mut self, waker: &Waker) {
        let Some(region) = self.all.get_mut(&address(waker)) else { return };
        region.operations -= 1;
        // A region that was polled is checked when the poll ends, as its next operation may be polled in the same poll.
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

    fn polled(&mut self, waker: &Waker) {
        if let Some(region) = self.all.get_mut(&address(waker))
            && !std::mem::replace(&mut region.is_polled, true)
        {
            self.polled.push(address(waker));
        }
    }

    fn expect_poll(&mut self, waker: &Waker) {
        self.woken = Some(address(waker));
        if let Some(region) = self.all.get_mut(&address(waker)) {
            region.is_expected = !region.is_due;
        }
    }

    fn expect_delivery(&mut self, waker: &Waker) {
        if let Some(region) = self.all.get_mut(&address(waker)) {
            (region.is_due, region.is_expected) = (true, false);
        }
    }

    fn end_poll(&mut self) {
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

    /// Learns what a region carries: it alone was woken, so it carries whatever else was polled for no other reason.
    fn learn(&mut self, woken: usize, polled: &[usize]) {
        let Some(region) = self.all.get_mut(&woken).filter(|region| region.is_polled || region.operations == 0) else {
            return;
        };
        let (is_empty, mut carries) = (region.operations == 0, std::mem::take(&mut region.carries));
        (region.is_known, region.is_expected) = (true, region.is_expected && !is_empty);
        // The polls of a region without operations cannot be seen.
        carries.retain(|other| self.all.get(other).is_some_and(|other| other.operations == 0 || other.is_polled));
        for other in polled.iter().filter(|other| **other != woken) {
            let Some(region) = self.all.get_mut(other).filter(|other| !other.is_expected && !other.is_due) else {
                continue;
            };
            region.is_carried = true;
            if is_empty && !region.carries.contains(&woken) {
                // The other way round, it could not be seen.
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

    /// Counts the extra polls among those that were made.
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

    /// Works out which wake-ups amount to the extra polls of a mix.
    fn resolve(&mut self, mix: &Mix) {
        // What a replay polls too.
        let with_carried = |address: &usize| self.carried(*address).into_iter().chain([*address]).collect::<Vec<_>>();
        let mut covered: Vec<usize> = mix.due.iter().flat_map(with_carried).collect();
        // Regions that carry others come first, so that what they carry need not be woken.
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

    /// Returns what is polled once when this region is. A `Shared` that carries this region and others is not among
    /// them, as each of them polls it.
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

    fn has_debts(&self) -> bool {
        !self.debtors.is_empty() || !self.mixes.is_empty()
    }

    /// A region that was woken and not polled is out of reach: nothing polls it now.
    fn next_owed(&mut self) -> Option<Waker> {
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

    fn forgive(&mut self) {
        self.mixes.clear();
        self.debtors.clear();
        for region in self.all.values_mut() {
            (region.wakes, region.is_debtor, region.mixes) = (0, false, 0);
        }
        self.all.retain(|_, region| region.operations > 0 || region.is_carried);
    }
}

/// Hashes addresses, which one multiplication spreads well enough: each poll of each item looks one up.
#[derive(Default)]
struct AddressHasher(u64);

impl Hasher for AddressHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_usize(usize::from(*byte)));
    }

    fn write_usize(&mut self, address: usize) {
        self.0 = (self.0 ^ address as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// Returns what distinguishes the wakers of one region from all others, while one of them is held.
fn address(waker: &Waker) -> usize {
    waker.data().addr()
}
