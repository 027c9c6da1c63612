//! The HTTP sink against a real server that fails, hangs, disconnects and recovers.

use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use outlive::prelude::*;
use outlive::{Builder, HttpSink, LifecycleEvent};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Number of checks for an expected event before it counts as lost.
const LOOKS_MAX: u32 = 24_000;

/// What a server does with a post.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Does {
    Answer(u16),
    /// Accepts the post and never replies.
    Hang,
    /// Accepts the post and disconnects.
    Disconnect,
}

struct Post {
    head: String,
    body: serde_json::Value,
    is_taken: bool,
}

impl Post {
    fn ids(&self) -> Vec<String> {
        let events = self.body["events"].as_array().unwrap();
        events.iter().map(|event| event["id"].as_str().unwrap().to_owned()).collect()
    }
}

/// A server that follows a plan, and then replies with 200.
#[derive(Clone)]
struct Server {
    url: String,
    plan: Arc<Mutex<VecDeque<Does>>>,
    then: Arc<Mutex<Does>>,
    posts: Arc<Mutex<Vec<Post>>>,
    open: Arc<AtomicUsize>,
    open_max: Arc<AtomicUsize>,
}

impl Server {
    async fn new(plan: &[Does]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = Self {
            url: format!("http://{}/events", listener.local_addr().unwrap()),
            plan: Arc::new(Mutex::new(plan.iter().copied().collect())),
            then: Arc::new(Mutex::new(Does::Answer(200))),
            posts: Arc::default(),
            open: Arc::default(),
            open_max: Arc::default(),
        };
        let this = server.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let this = this.clone();
                tokio::spawn(async move {
                    let open = this.open.fetch_add(1, Ordering::SeqCst) + 1;
                    this.open_max.fetch_max(open, Ordering::SeqCst);
                    this.serve(stream).await;
                    this.open.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        server
    }

    async fn serve(&self, mut stream: TcpStream) {
        let Some((head, body)) = request(&mut stream).await else { return };
        if !head.starts_with("post ") {
            // Like any ordinary page.
            return drop(stream.write_all(b"HTTP/1.1 200 So\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").await);
        }
        let does = self.plan.lock().unwrap().pop_front().unwrap_or(*self.then.lock().unwrap());
        let is_taken = matches!(does, Does::Answer(200..300));
        let body = serde_json::from_slice(&body).unwrap();
        self.posts.lock().unwrap().push(Post { head, body, is_taken });
        match does {
            Does::Answer(status) => {
                // The target of a redirect; other replies ignore it.
                let answer = format!(
                    "HTTP/1.1 {status} So\r\ncontent-length: 4\r\nconnection: close\r\nlocation: {}\r\n\r\nwhy?",
                    self.url
                );
                let _ = stream.write_all(answer.as_bytes()).await;
            }
            Does::Disconnect => {}
            // Until the other side disconnects.
            Does::Hang => while matches!(stream.read(&mut [0; 64]).await, Ok(1..)) {},
        }
    }

    /// Returns the ids of all accepted events, in order, with repetitions.
    fn taken(&self) -> Vec<String> {
        self.posts.lock().unwrap().iter().filter(|post| post.is_taken).flat_map(Post::ids).collect()
    }

    /// Waits until all these events were accepted, in order.
    async fn has_all(&self, events: &[LifecycleEvent]) {
        let wanted: Vec<String> = events.iter().map(|event| event.id.clone()).collect();
        let mut taken_last = 0;
        for _ in 0..LOOKS_MAX {
            let (mut known, mut taken) = (BTreeSet::new(), self.taken());
            taken.retain(|id| known.insert(id.clone()));
            if taken == wanted {
                return;
            }
            taken_last = taken.len();
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("{taken_last} of {} were accepted", wanted.len());
    }
}

async fn request(stream: &mut TcpStream) -> Option<(String, Vec<u8>)> {
    let (mut bytes, mut part) = (Vec::new(), [0; 4096]);
    loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            let length = length.map_or(Ok(0), str::parse::<usize>).ok()?;
            if bytes.len() >= end + 4 + length {
                return Some((head, bytes[end + 4..].to_vec()));
            }
        }
        let count = stream.read(&mut part).await.ok().filter(|count| *count > 0)?;
        bytes.extend_from_slice(&part[..count]);
    }
}

async fn work() -> Result<u32> {
    Ok(42)
}

async fn double(ctx: Ctx, n: u32) -> Result<u32> {
    ctx.step("work", work).await?;
    Ok(n * 2)
}

fn quick(url: &str) -> HttpSink {
    HttpSink::new(url).batch(7).every("5 ms").timeout("300 ms").retry(Retry::forever().constant("5 ms"))
}

fn engine(place: impl AsRef<std::path::Path>) -> Builder {
    Engine::open(place).workflow("double", double)
}

async fn run(engine: &Engine, count: u32) {
    let mut runs = Vec::new();
    for n in 0..count {
        runs.push(engine.start(double, &n).await.unwrap());
    }
    for run in runs {
        run.result().await.unwrap();
    }
}

/// Starts the next life, once the remains of the last one are gone.
async fn again(path: &std::path::Path, url: &str) -> Engine {
    loop {
        match engine(path).sink(quick(url)).start().await {
            Ok(engine) => return engine,
            Err(error) => assert!(error.is_locked(), "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn all(engine: &Engine) -> Vec<LifecycleEvent> {
    engine.events().from_start().await.unwrap().read(usize::MAX).await.unwrap()
}

#[tokio::test]
async fn endpoint_that_fails_and_recovers_gets_every_event_in_order() {
    let plan = [500, 302, 404, 200, 429].map(Does::Answer);
    let plan = [&plan[..2], &[Does::Disconnect, Does::Hang], &plan[2..]].concat();
    let server = Server::new(&plan).await;
    let engine = engine("memory:").sink(quick(&server.url)).start().await.unwrap();
    run(&engine, 30).await;
    server.has_all(&all(&engine).await).await;
    let taken = server.taken();
    assert_eq!(taken.iter().collect::<BTreeSet<_>>().len(), taken.len(), "accepted events are not posted again");
    assert_eq!(server.open_max.load(Ordering::SeqCst), 1, "one post at a time");
}

#[tokio::test]
async fn post_names_its_sender_and_is_repeated_unchanged() {
    let server = Server::new(&[Does::Answer(500), Does::Answer(500)]).await;
    let sink = quick(&server.url).every("200 ms").batch(1000).env("test").service_key("shop").bearer("s3cret");
    let engine = engine("memory:").sink(sink).start().await.unwrap();
    run(&engine, 2).await;
    server.has_all(&all(&engine).await).await;
    let posts = server.posts.lock().unwrap();
    let body = &posts[0].body;
    assert_eq!((body["env"].as_str(), body["service"].as_str()), (Some("test"), Some("shop")));
    let first = &body["events"][0];
    assert_eq!((first["type"].as_str(), first["number"].as_u64()), (Some("run.queued"), Some(1)));
    for post in &posts[..3] {
        let headers = ["authorization: bearer s3cret", "content-type: application/json", "idempotency-key: 1-1..2-4"];
        for header in headers {
            assert!(post.head.lines().any(|line| line == header), "{}", post.head);
        }
        assert_eq!(post.body, *body);
    }
}

/// The first life ends while a post that the endpoint has seen hangs: it may be repeated, and nothing is lost.
#[tokio::test]
async fn no_event_is_lost_when_the_process_dies_during_a_post() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("shop.db");
    let server = Server::new(&[Does::Answer(200), Does::Answer(200)]).await;
    *server.then.lock().unwrap() = Does::Hang;
    let first = engine(&path).sink(quick(&server.url).timeout("20 seconds")).start().await.unwrap();
    run(&first, 10).await;
    while server.posts.lock().unwrap().len() < 3 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    drop(first);
    *server.then.lock().unwrap() = Does::Answer(200);
    let second = again(&path, &server.url).await;
    run(&second, 5).await;
    server.has_all(&all(&second).await).await;
    let taken = server.taken();
    assert_eq!(taken.iter().collect::<BTreeSet<_>>().len(), taken.len(), "the sink resumed where it left off");
}

/// What would break: a run that waits for the sink, or events that pile up in memory.
#[tokio::test]
async fn endpoint_that_never_replies_holds_up_no_run() {
    let server = Server::new(&[]).await;
    *server.then.lock().unwrap() = Does::Hang;
    let engine = engine("memory:").sink(quick(&server.url).timeout("1 minute")).start().await.unwrap();
    tokio::time::timeout(Duration::from_secs(60), run(&engine, 1000)).await.unwrap();
    assert_eq!(engine.count(Filter::runs().status(StatusKind::Completed)).await.unwrap().total(), 1000);
    let posts = server.posts.lock().unwrap();
    assert!(posts.len() <= 1 && posts.iter().all(|post| post.ids().len() <= 7), "only one batch is in memory");
}

#[tokio::test]
async fn shutdown_posts_the_remaining_events() {
    let server = Server::new(&[]).await;
    let engine = engine("memory:").sink(quick(&server.url).every("1 hour").batch(1000)).start().await.unwrap();
    run(&engine, 10).await;
    let events = all(&engine).await;
    engine.shutdown().await.unwrap();
    assert_eq!(server.taken(), events.iter().map(|event| event.id.clone()).collect::<Vec<_>>());
}

#[tokio::test]
async fn shutdown_waits_for_a_dead_endpoint_only_for_the_grace_time() {
    let server = Server::new(&[]).await;
    *server.then.lock().unwrap() = Does::Hang;
    // Waiting for the endpoint would take a year.
    let sink = quick(&server.url).timeout("365 days");
    let engine = engine("memory:").sink(sink).grace("100 ms").start().await.unwrap();
    run(&engine, 3).await;
    engine.shutdown().await.unwrap();
}

#[tokio::test]
async fn new_sink_begins_with_new_events_unless_from_start() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("shop.db");
    let (late, whole) = (Server::new(&[]).await, Server::new(&[]).await);
    let first = engine(&path).start().await.unwrap();
    run(&first, 3).await;
    let before = all(&first).await.len();
    first.shutdown().await.unwrap();
    let sinks = engine(&path).sink(quick(&late.url).name("late")).sink(quick(&whole.url).name("whole").from_start());
    let second = sinks.start().await.unwrap();
    run(&second, 2).await;
    let events = all(&second).await;
    whole.has_all(&events).await;
    late.has_all(&events[before..]).await;
}

#[tokio::test]
async fn invalid_sink_is_refused_with_the_value_and_the_way_out() {
    for (endpoint, why) in [
        ("example.com/events", "https://host/path"),
        ("ftp://example.com", "https://host/path"),
        ("http://", "https://host/path"),
        ("", "https://host/path"),
    ] {
        let error = engine("memory:").sink(HttpSink::new(endpoint)).start().await.unwrap_err();
        assert_eq!(error.code(), "sink", "{endpoint}");
        let text = error.to_string();
        assert!(text.contains(&format!("{endpoint:?}")) && text.contains(why), "{text}");
    }
    let url = "http://127.0.0.1:9";
    let twice = engine("memory:").sink(HttpSink::new(url)).sink(HttpSink::new(url)).start().await.unwrap_err();
    assert!(twice.to_string().contains("`.name(..)`"), "{twice}");
    let never = engine("memory:").sink(HttpSink::new(url).batch(0)).start().await.unwrap_err();
    assert!(never.to_string().contains("batch of 0"), "{never}");
    assert!(engine("memory:").sink(HttpSink::new(url).every("soon")).start().await.is_err());
    assert!(engine("memory:").sink(HttpSink::new(url).timeout(0)).start().await.is_err());
}

#[tokio::test]
async fn token_that_no_header_can_hold_is_refused() {
    let sink = HttpSink::new("http://127.0.0.1:9/events").bearer("s3cret\n");
    let error = Engine::open("memory:").sink(sink).start().await.unwrap_err().to_string();
    assert!(error.contains("bearer") && !error.contains("s3cret"), "{error}");
}

#[tokio::test]
async fn displayed_address_contains_no_credentials() {
    let sink = HttpSink::new("ftp://ada:s3cret@example.com/events?token=s3cret");
    assert_eq!(format!("{sink:?}"), "HttpSink(sink to ftp://example.com/events)");
    let error = Engine::open("memory:").sink(sink).start().await.unwrap_err().to_string();
    assert!(error.contains("ftp://example.com") && !error.contains("s3cret"), "{error}");
}
