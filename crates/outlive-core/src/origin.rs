//! Where a run comes from: the version of the code that started it, and the trace that the start belongs to.

use std::fmt;
use std::sync::Arc;

use crate::id::Name;

/// Where a run comes from. Chosen by its start, and never changed. Runs without it share `None`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RunOrigin {
    /// The version of the code that accepted the start.
    pub version: Option<Name>,
    /// The trace that the start belongs to.
    pub trace: Option<TraceContext>,
}

impl RunOrigin {
    /// Returns an origin to store, or `None` if there is nothing to know about it.
    #[must_use]
    pub fn new(version: Option<Name>, trace: Option<TraceContext>) -> Option<Arc<Self>> {
        (version.is_some() || trace.is_some()).then(|| Arc::new(Self { version, trace }))
    }

    /// Returns the origin of a run that is started `here`, as part of a trace if there is one.
    #[must_use]
    pub fn traced(here: Option<&Arc<Self>>, trace: Option<TraceContext>) -> Option<Arc<Self>> {
        match trace {
            Some(trace) => Self::new(here.and_then(|here| here.version.clone()), Some(trace)),
            None => here.cloned(),
        }
    }

    /// Returns the origin of a run that another one starts: the version that executes now, `here`, and the trace of
    /// the run that starts it.
    #[must_use]
    pub fn inherited(here: Option<&Arc<Self>>, starter: Option<&Arc<Self>>) -> Option<Arc<Self>> {
        let version = here.and_then(|here| here.version.as_ref());
        match starter {
            Some(starter) if starter.version.as_ref() == version => Some(starter.clone()),
            Some(starter) if starter.trace.is_some() => Self::new(version.cloned(), starter.trace.clone()),
            _ => here.cloned(),
        }
    }
}

/// A trace and a span in it, in the form of the W3C headers: a `traceparent`, and a `tracestate` if there is one.
///
/// ```
/// use outlive_core::origin::TraceContext;
/// let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
/// let trace = TraceContext::new(parent, "vendor=1").unwrap();
/// assert_eq!((trace.parent(), trace.state()), (parent, "vendor=1"));
/// assert_eq!(TraceContext::new("00-0af7-b7ad-01", ""), None);
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct TraceContext(Box<str>);

/// The lengths of the fields of a `traceparent`: version, trace, span and flags.
const FIELDS: [usize; 4] = [2, 32, 16, 2];

/// The maximum length of a `tracestate` that is kept; a longer one is left out, as the standard allows.
const STATE_MAX: usize = 512;

impl TraceContext {
    /// Returns the context of the two headers; `None` if `parent` is not a `traceparent`.
    #[must_use]
    pub fn new(parent: &str, state: &str) -> Option<Self> {
        let is_hex = |field: &str| field.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let fields: Vec<&str> = parent.split('-').collect();
        let is_parent = fields.len() == FIELDS.len()
            && fields.iter().zip(FIELDS).all(|(field, length)| field.len() == length && is_hex(field))
            && fields[1..3].iter().all(|field| field.bytes().any(|byte| byte != b'0'));
        let is_kept = !state.is_empty() && state.len() <= STATE_MAX && !state.chars().any(char::is_control);
        is_parent.then(|| Self(if is_kept { format!("{parent} {state}") } else { parent.to_owned() }.into()))
    }

    /// Returns the `traceparent`.
    #[must_use]
    pub fn parent(&self) -> &str {
        self.0.split_once(' ').map_or(&*self.0, |(parent, _)| parent)
    }

    /// Returns the `tracestate`; empty if there is none.
    #[must_use]
    pub fn state(&self) -> &str {
        self.0.split_once(' ').map_or("", |(_, state)| state)
    }

    /// Returns the text to store.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Wraps a text read back from a store without validating it again.
    #[must_use]
    pub fn recorded(text: &str) -> Self {
        Self(text.into())
    }
}

impl fmt::Debug for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", &*self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn text_that_is_no_traceparent_is_not_one() {
        let wrong = [
            "",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-02",
            "00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319-b7ad6b7169203331-01",
            "00-00000000000000000000000000000000-b7ad6b7169203331-01",
            "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
        ];
        for text in wrong {
            assert_eq!(TraceContext::new(text, ""), None, "{text:?}");
        }
        assert_eq!(TraceContext::new(PARENT, "").map(|trace| trace.as_str().to_owned()).as_deref(), Some(PARENT));
    }

    #[test]
    fn state_that_is_too_long_or_odd_is_left_out() {
        for state in ["x".repeat(STATE_MAX + 1), "a=\n".to_owned()] {
            assert_eq!(TraceContext::new(PARENT, &state).map(|trace| trace.state().to_owned()).as_deref(), Some(""));
        }
    }

    #[test]
    fn child_has_the_version_that_runs_and_the_trace_of_its_parent() {
        let of = |version: Option<&str>, trace: Option<&str>| {
            RunOrigin::new(version.map(Name::recorded), trace.and_then(|parent| TraceContext::new(parent, "")))
        };
        let cases = [
            (of(Some("2"), None), of(Some("1"), Some(PARENT)), of(Some("2"), Some(PARENT))),
            (of(Some("1"), None), of(Some("1"), Some(PARENT)), of(Some("1"), Some(PARENT))),
            (of(Some("2"), None), of(Some("1"), None), of(Some("2"), None)),
            (None, of(Some("1"), Some(PARENT)), of(None, Some(PARENT))),
            (None, of(Some("1"), None), None),
            (of(Some("2"), None), None, of(Some("2"), None)),
            (None, None, None),
        ];
        for (here, starter, child) in cases {
            assert_eq!(RunOrigin::inherited(here.as_ref(), starter.as_ref()), child);
        }
    }
}
