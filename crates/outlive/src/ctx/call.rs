//! CallSite sites of operations: what all calls from one place share, cached per thread.

use std::cell::RefCell;
use std::panic::Location;
use std::sync::Arc;

use outlive_core::workflow::{self, OpKind};

use crate::ctx::check;
use crate::error::Error;

/// The number of call sites a thread remembers. Two that share a slot evict each other, which only costs time.
const PLACES: usize = 256;

/// A call of an operation: its name, and the place it is called from.
pub(crate) struct CallSite {
    pub(crate) kind: OpKind,
    pub(crate) name: Box<str>,
    /// The operation's identity outside any scope, without a key.
    pub(crate) base: Arc<str>,
    /// The place in the source, as text.
    pub(crate) site: Arc<str>,
    pub(crate) location: &'static Location<'static>,
    /// The error in the name, if there is one.
    pub(crate) problem: Option<Error>,
}

thread_local! {
    static CALLS: RefCell<Vec<Option<Arc<CallSite>>>> = const { RefCell::new(Vec::new()) };
}

impl CallSite {
    /// Returns the call of `name` at `location`.
    pub(crate) fn at(location: &'static Location<'static>, kind: OpKind, name: &str) -> Arc<Self> {
        let place = std::ptr::from_ref(location).addr() / align_of::<Location<'_>>() % PLACES;
        CALLS.with_borrow_mut(|calls| {
            if calls.is_empty() {
                calls.resize(PLACES, None);
            }
            match &calls[place] {
                Some(call) if call.is(location, kind, name) => call.clone(),
                _ => calls[place].insert(Arc::new(Self::new(location, kind, name))).clone(),
            }
        })
    }

    /// Returns a call that no line of the code makes.
    #[track_caller]
    pub(crate) fn nowhere(kind: OpKind) -> Self {
        Self { site: Arc::from(""), ..Self::new(Location::caller(), kind, "") }
    }

    fn is(&self, location: &'static Location<'static>, kind: OpKind, name: &str) -> bool {
        std::ptr::eq(self.location, location) && self.kind == kind && &*self.name == name
    }

    fn new(location: &'static Location<'static>, kind: OpKind, name: &str) -> Self {
        let problem = match kind {
            OpKind::Step => check("step name", name).err(),
            OpKind::Wait => check("signal name", name).err(),
            OpKind::Sleep => None,
            // Names of workflows and jobs and ids of runs are checked where they are looked up.
            OpKind::Signal => check("signal name", name).err(),
            OpKind::Patch => check("patch name", name).err(),
            OpKind::Publish => check("value name", name).err(),
            OpKind::Append => check("stream name", name).err(),
            OpKind::Question => check("question name", name).err(),
            _ => None,
        };
        let base = workflow::base("", kind, name, None);
        let site = format!("{}:{}", location.file(), location.line()).into();
        Self { kind, name: name.into(), base, site, location, problem }
    }
}
