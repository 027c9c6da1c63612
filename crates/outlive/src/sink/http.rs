//! The sink that posts batches of lifecycle events as JSON to an endpoint.

use std::fmt;
use std::io::Read;
use std::time::Duration;

use outlive_core::duration::IntoDuration;
use outlive_core::id::Name;
use outlive_core::retry::Retry;
use serde::Serialize;
use tokio::sync::oneshot;
use ureq::http::{HeaderValue, Uri};

use super::SinkPlan;
use crate::error::Error;
use crate::events::LifecycleEvent;

/// Default maximum number of events in a post.
const BATCH: usize = 500;
/// Default time a batch that is not full waits for more.
const EVERY: Duration = Duration::from_secs(2);
/// Default time an endpoint may take to respond.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How many bytes of a response to show if it refused a batch.
const SHOWN: u64 = 200;
const WAY_OUT: &str = "use an address like https://host/path";

/// A sink that posts lifecycle events to an endpoint. Pass it to [`Builder::sink`](crate::Builder::sink).
///
/// Each post is `{"env": .., "service": .., "events": [..]}` with at least one event, in the format that
/// `docs/lifecycle-events.schema.json` describes. Any status from 200 to 299 accepts it; after any other, or none, the
/// same batch is posted again, forever. So each event arrives at least once, in order. A repeated event has the same
/// `id`, and a post that is repeated whole has the same `idempotency-key` header.
///
/// The store keeps the sink's position, under the sink's [name](Self::name). At its first start, a sink begins with the
/// events from then on. It holds one batch in memory, and a run never waits for it.
///
/// ```no_run
/// use outlive::HttpSink;
/// # use outlive::prelude::*;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// let sink = HttpSink::new("https://events.example.com/v1/batch").env("production").service_key("shop").bearer("s3cret");
/// let engine = Engine::open("shop.db").sink(sink.batch(200).every("1 second")).start().await?;
/// # Ok(()) }
/// ```
#[must_use = "a sink does nothing until it is given to an engine"]
pub struct HttpSink {
    pub(super) plan: SinkPlan,
    endpoint: String,
    env: Option<String>,
    service: Option<String>,
    bearer: Option<String>,
    timeout: Duration,
    agent: ureq::Agent,
    /// The first configuration error.
    problem: Option<Error>,
}

impl HttpSink {
    /// Creates a sink to an `http` or `https` URL.
    ///
    /// ```
    /// # use outlive::prelude::*;
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// let sink = outlive::HttpSink::new("ftp://example.com");
    /// let error = Engine::open("memory:").sink(sink).start().await.unwrap_err();
    /// assert!(error.to_string().contains("ftp://example.com"));
    /// # Ok(()) }
    /// ```
    pub fn new(endpoint: &str) -> Self {
        let plan = SinkPlan {
            name: Name::recorded("sink"),
            from_start: false,
            batch: BATCH,
            every: EVERY,
            retry: Retry::forever().exponential("1 second").max_delay("1 minute"),
        };
        let agent = ureq::Agent::new_with_defaults();
        let endpoint = endpoint.to_owned();
        Self { plan, endpoint, env: None, service: None, bearer: None, timeout: TIMEOUT, agent, problem: None }
    }

    /// Sets the environment that each post names, such as `production`.
    ///
    /// ```
    /// let sink = outlive::HttpSink::new("https://example.com").env("staging");
    /// ```
    pub fn env(mut self, env: &str) -> Self {
        self.env = Some(env.to_owned());
        self
    }

    /// Sets the service that each post names.
    ///
    /// ```
    /// let sink = outlive::HttpSink::new("https://example.com").service_key("shop");
    /// ```
    pub fn service_key(mut self, service: &str) -> Self {
        self.service = Some(service.to_owned());
        self
    }

    /// Sets the token for the `authorization: Bearer ..` header. It is never logged.
    ///
    /// ```
    /// let sink = outlive::HttpSink::new("https://example.com").bearer("s3cret");
    /// assert!(!format!("{sink:?}").contains("s3cret"));
    /// ```
    pub fn bearer(mut self, token: &str) -> Self {
        self.bearer = Some(token.to_owned());
        self
    }

    /// Sets the maximum number of events in a post; 500 by default.
    ///
    /// ```
    /// let sink = outlive::HttpSink::new("https://example.com").batch(100);
    /// ```
    pub fn batch(mut self, max_events: usize) -> Self {
        if max_events == 0 {
            self.refuse(Error::Setup("a sink's batch of 0 events is too small; use at least 1".into()));
        }
        self.plan.batch = max_events;
        self
    }

    /// Sets how long a batch that is not full waits for more; 2 seconds by default.
    ///
    /// ```
    /// let sink = outlive::HttpSink::new("https://example.com").every("500 ms");
    /// ```
    pub fn every(mut self, duration: impl IntoDuration) -> Self {
        match duration.into_duration() {
            Ok(every) => self.plan.every = every,
            Err(error) => self.refuse(error.into()),
        }
        self
    }

    /// Sets how long the endpoint may take to respond; 10 seconds by default.
    ///
    /// ```
    /// let sink = outlive::HttpSink::new("https://example.com").timeout("30 seconds");
    /// ```
    pub fn timeout(mut self, duration: impl IntoDuration) -> Self {
        match duration.into_duration() {
            Ok(timeout) => self.timeout = timeout,
            Err(error) => self.refuse(error.into()),
        }
        self
    }

    /// Sets how long to wait before a post is repeated. It is repeated forever: only the delays of the policy count.
    ///
    /// ```
    /// use outlive::Retry;
    /// let slow = Retry::forever().exponential("5 seconds").max_delay("10 minutes");
    /// let sink = outlive::HttpSink::new("https://example.com").retry(slow);
    /// ```
    pub fn retry(mut self, retry: Retry) -> Self {
        if let Err(error) = retry.check() {
            self.refuse(error.into());
        }
        self.plan.retry = retry;
        self
    }

    /// Sets the name under which the store keeps the sink's position. Each sink of a store needs its own.
    ///
    /// ```
    /// let audit = outlive::HttpSink::new("https://audit.example.com").name("audit");
    /// ```
    pub fn name(mut self, name: &str) -> Self {
        match Name::new("sink name", name) {
            Ok(_) => self.plan.name = Name::recorded(&format!("sink:{name}")),
            Err(error) => self.refuse(error.into()),
        }
        self
    }

    /// Begins, at the first start, with the oldest event that the store still has, instead of with the events from then
    /// on.
    ///
    /// ```
    /// let sink = outlive::HttpSink::new("https://example.com").from_start();
    /// ```
    pub fn from_start(mut self) -> Self {
        self.plan.from_start = true;
        self
    }

    fn refuse(&mut self, error: Error) {
        self.problem.get_or_insert(error);
    }

    /// Checks that the sink can work, with its settings and next to the sinks there are.
    pub(crate) fn ready(mut self, others: &[Self]) -> Result<Self, Error> {
        if let Some(problem) = self.problem.take() {
            return Err(problem);
        }
        let refused = |problem: String| Error::Sink { endpoint: shown(&self.endpoint), problem };
        let uri: Uri =
            self.endpoint.parse().map_err(|error| refused(format!("has an invalid URL ({error}); {WAY_OUT}")))?;
        if !matches!(uri.scheme_str(), Some("http" | "https")) || uri.host().is_none_or(str::is_empty) {
            return Err(refused(format!("does not have an http or https URL; {WAY_OUT}")));
        }
        if self.bearer.as_ref().is_some_and(|token| HeaderValue::from_str(token).is_err()) {
            let problem =
                "has a `.bearer(..)` that is not a valid header; trim it: a line break at its end is the usual cause";
            return Err(refused(problem.into()));
        }
        if self.timeout.is_zero() {
            return Err(refused("has a timeout of zero; `.timeout(..)` must be greater than zero".into()));
        }
        if others.iter().any(|other| other.plan.name == self.plan.name) {
            return Err(refused("has the name of another sink; give each its own `.name(..)`".into()));
        }
        let config = ureq::Agent::config_builder().timeout_global(Some(self.timeout)).http_status_as_error(false);
        // A redirect is followed with a GET, and the response to that would be taken for an accepted post.
        self.agent = config.max_redirects(0).build().into();
        Ok(self)
    }

    /// Posts a batch. If it was not accepted, returns why.
    pub(super) async fn post(&self, batch: &[LifecycleEvent]) -> Result<(), String> {
        let post = self.prepare(batch)?;
        let (answer, answered) = oneshot::channel();
        // A thread that nobody waits for: the process may exit while an endpoint does not respond.
        let thread = std::thread::Builder::new().name("outlive-sink".into()).spawn(move || {
            let _ = answer.send(post.send());
        });
        thread.map_err(|error| format!("could not spawn a thread: {error}"))?;
        answered.await.unwrap_or_else(|_| Err("the post was interrupted".into()))
    }

    fn prepare(&self, batch: &[LifecycleEvent]) -> Result<Post, String> {
        let body = Body { env: self.env.as_deref(), service: self.service.as_deref(), events: batch };
        let ids = batch.first().zip(batch.last());
        Ok(Post {
            agent: self.agent.clone(),
            endpoint: self.endpoint.clone(),
            bearer: self.bearer.as_ref().map(|token| format!("Bearer {token}")),
            key: ids.map(|(first, last)| format!("{}..{}", first.id, last.id)).unwrap_or_default(),
            body: serde_json::to_vec(&body).map_err(|error| error.to_string())?,
        })
    }
}

impl fmt::Debug for HttpSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HttpSink({} to {})", self.plan.name, shown(&self.endpoint))
    }
}

/// Returns an address without its secrets: user, password and query.
fn shown(endpoint: &str) -> String {
    let (scheme, rest) = endpoint.split_once("://").unwrap_or(("", endpoint));
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let path = path.split(['?', '#']).next().unwrap_or_default();
    let scheme = if scheme.is_empty() { String::new() } else { format!("{scheme}://") };
    format!("{scheme}{host}{path}")
}

/// The body of a post.
#[derive(Serialize)]
struct Body<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    env: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    service: Option<&'a str>,
    events: &'a [LifecycleEvent],
}

/// A request, ready to send.
struct Post {
    agent: ureq::Agent,
    endpoint: String,
    bearer: Option<String>,
    key: String,
    body: Vec<u8>,
}

impl Post {
    fn send(self) -> Result<(), String> {
        let mut request = self.agent.post(&self.endpoint).header("content-type", "application/json");
        request = request.header("idempotency-key", &self.key);
        if let Some(bearer) = &self.bearer {
            request = request.header("authorization", bearer);
        }
        let mut answer = request.send(&self.body[..]).map_err(|error| error.to_string())?;
        let status = answer.status();
        let mut shown = Vec::new();
        // The response is read so that the connection can be reused; its content matters only if it refuses.
        let read = answer.body_mut().as_reader().take(SHOWN).read_to_end(&mut shown);
        if status.is_success() {
            return Ok(());
        }
        let text = read.map(|_| String::from_utf8_lossy(&shown).into_owned()).unwrap_or_default();
        Err(format!("status {status}: {:?}", text.trim()))
    }
}
