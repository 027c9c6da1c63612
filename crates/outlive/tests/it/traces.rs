//! Traces: one trace spans a start, all executions of its run and its children, and a crash in between.

use std::sync::OnceLock;

use opentelemetry::trace::{Status as SpanStatus, TraceContextExt, Tracer};
use opentelemetry::{Context, KeyValue, global};
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};
use outlive::job::{Task, TaskCtx};
use outlive::layer::OpenTelemetry;
use outlive::prelude::*;
use outlive_testkit::TestEngine;

/// Returns the exporter of the whole process. Tests find their own spans by the ids of their runs.
fn exporter() -> &'static InMemorySpanExporter {
    static EXPORTER: OnceLock<InMemorySpanExporter> = OnceLock::new();
    EXPORTER.get_or_init(|| {
        let exporter = InMemorySpanExporter::default();
        let provider = SdkTracerProvider::builder().with_simple_exporter(exporter.clone()).build();
        global::set_tracer_provider(provider);
        exporter
    })
}

fn spans(is_wanted: impl Fn(&SpanData) -> bool) -> Vec<SpanData> {
    exporter().get_finished_spans().unwrap().into_iter().filter(|span| is_wanted(span)).collect()
}

fn of_run(id: &str) -> Vec<SpanData> {
    let wanted = KeyValue::new("outlive.run.id", id.to_owned());
    spans(|span| span.attributes.contains(&wanted))
}

fn names(spans: &[SpanData]) -> Vec<String> {
    spans.iter().map(|span| span.name.to_string()).collect()
}

async fn pay(ctx: Ctx, _: ()) -> Result<String> {
    ctx.step("charge", || async { outlive::Ok(()) }).await?;
    ctx.sleep("1 day").await?;
    let seen =
        ctx.step("ship", || async { outlive::Ok(Context::current().span().span_context().trace_id().to_string()) });
    Ok(seen.await?)
}

async fn parent(ctx: Ctx, _: ()) -> Result<()> {
    ctx.run(pay, &()).id("traced child").await?;
    Err(ctx.step("fail", || async { Err::<(), _>(BoxError::from("no stock")) }).await.unwrap_err().into())
}

fn setup(engine: outlive::Builder) -> outlive::Builder {
    engine.workflow("pay", pay).workflow("parent", parent).layer(OpenTelemetry::new())
}

#[tokio::test]
async fn one_trace_spans_a_crash() {
    exporter();
    let mut test = TestEngine::new(setup).await;
    let tracer = global::tracer("a web server");
    let request = Context::new().with_span(tracer.start("request"));
    let trace = request.span().span_context().trace_id();
    {
        let start = test.start(pay, &()).id("traced");
        opentelemetry::trace::FutureExt::with_context(start, request.clone()).await.unwrap();
    }
    test.settle().await;
    test.crash().await;
    test.clock().advance(std::time::Duration::from_secs(7 * 86_400));
    let run = test.get_run::<String>("traced").await.unwrap();
    assert_eq!(test.result(&run).await.unwrap(), trace.to_string(), "the body runs in its span");
    test.settle().await;
    let mut spans = of_run("traced");
    spans.sort_by_key(|span| (!span.name.starts_with("start"), span.name.to_string()));
    // The test engine drops what a crash stops, which ends its span.
    assert_eq!(names(&spans), ["start pay", "run pay", "run pay", "step charge", "step ship"]);
    let start = &spans[0];
    assert_eq!(start.parent_span_id, request.span().span_context().span_id());
    for span in &spans {
        assert_eq!(span.span_context.trace_id(), trace, "{}", span.name);
    }
    for span in &spans[1..] {
        assert_eq!(span.parent_span_id, start.span_context.span_id(), "{}", span.name);
    }
    let kept = run.info().await.unwrap().traceparent.unwrap();
    assert_eq!(kept, format!("00-{trace}-{}-01", start.span_context.span_id()));
}

#[tokio::test]
async fn children_are_in_the_trace_of_their_parent() {
    exporter();
    let test = TestEngine::new(setup).await;
    let run = test.start(parent, &()).id("traced parent").await.unwrap();
    assert!(test.result(&run).await.is_err());
    test.settle().await;
    let (parents, children) = (of_run("traced parent"), of_run("traced child"));
    assert!(names(&parents).contains(&"start parent".to_owned()), "{:?}", names(&parents));
    assert!(names(&children).contains(&"step ship".to_owned()), "{:?}", names(&children));
    for span in parents.iter().chain(&children) {
        assert_eq!(span.span_context.trace_id(), parents[0].span_context.trace_id(), "{}", span.name);
    }
    let failed: Vec<_> = parents.iter().filter(|span| matches!(span.status, SpanStatus::Error { .. })).collect();
    assert_eq!(failed.iter().map(|span| &*span.name).collect::<Vec<_>>(), ["step fail", "run parent"]);
    assert_eq!(failed[0].status, SpanStatus::error("no stock"));
}

const STARTER: Task<u32, ()> = Task::new("tracer");

async fn start_run(ctx: TaskCtx<u32, ()>, _: u32) -> Result<()> {
    Ok(ctx.start(pay, &(), "traced by a handler")?)
}

async fn nothing(_: TaskCtx<u32, ()>) -> Result<()> {
    Ok(())
}

#[tokio::test]
async fn run_started_by_a_handler_is_in_the_trace_of_the_call() {
    exporter();
    let test = TestEngine::new(|engine| setup(engine).job(STARTER.on_event(start_run).execute(nothing))).await;
    test.job(STARTER).send("one", &1).await.unwrap();
    test.settle().await;
    let calls = spans(|span| span.name == "on_event tracer");
    let steps = of_run("traced by a handler");
    assert_eq!(names(&steps), ["step charge"]);
    assert_eq!(steps[0].parent_span_id, calls[0].span_context.span_id());
}

#[tokio::test]
async fn trace_survives_in_the_file() {
    exporter();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shop.db");
    let engine = setup(Engine::open(&path)).start().await.unwrap();
    engine.start(pay, &()).id("traced in a file").await.unwrap();
    engine.shutdown().await.unwrap();
    let start = of_run("traced in a file").remove(0);
    let info = Client::open(&path).unwrap().get_run::<()>("traced in a file").await.unwrap().info().await.unwrap();
    assert!(info.traceparent.unwrap().contains(&start.span_context.trace_id().to_string()));
}
