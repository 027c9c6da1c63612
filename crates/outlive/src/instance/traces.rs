//! OpenTelemetry: the trace of a start is stored with the run, and spans of it are reported wherever the run executes.
//! Without the feature `opentelemetry`, no run has a trace.

use outlive_core::id::Name;
use outlive_core::origin::TraceContext;

#[cfg(feature = "opentelemetry")]
pub use layer::OpenTelemetry;

/// The span of the call that starts a run. It ends when it is dropped.
pub(crate) struct StartSpan {
    #[cfg(feature = "opentelemetry")]
    context: opentelemetry::Context,
}

impl StartSpan {
    /// Begins the span, as part of the caller's trace if there is one.
    #[cfg_attr(not(feature = "opentelemetry"), expect(unused_variables, reason = "there are no spans"))]
    pub(crate) fn begin(workflow: &Name, id: &Name) -> Self {
        Self {
            #[cfg(feature = "opentelemetry")]
            context: layer::start(workflow, id),
        }
    }

    /// Ends the span.
    #[cfg_attr(not(feature = "opentelemetry"), expect(clippy::unused_self, reason = "there are no spans"))]
    pub(crate) fn end(self) {
        #[cfg(feature = "opentelemetry")]
        drop(self);
    }

    /// Returns the trace to store with the run.
    #[cfg_attr(not(feature = "opentelemetry"), expect(clippy::unused_self, reason = "there are no spans"))]
    pub(crate) fn trace(&self) -> Option<TraceContext> {
        #[cfg(feature = "opentelemetry")]
        return layer::stored(&self.context);
        #[cfg(not(feature = "opentelemetry"))]
        None
    }
}

/// Returns the trace that the current code is part of.
pub(crate) fn current() -> Option<TraceContext> {
    #[cfg(feature = "opentelemetry")]
    return layer::stored(&opentelemetry::Context::current());
    #[cfg(not(feature = "opentelemetry"))]
    None
}

#[cfg(feature = "opentelemetry")]
mod layer {
    use opentelemetry::global::{self, BoxedTracer};
    use opentelemetry::trace::{
        FutureExt, Span, SpanContext, SpanId, SpanKind, Status, TraceContextExt, TraceFlags, TraceId, TraceState,
        Tracer,
    };
    use opentelemetry::{Context, KeyValue};
    use outlive_core::id::Name;
    use outlive_core::origin::TraceContext;

    use crate::instance::info::Info;
    use crate::instance::layers::{
        Inner, Layer, LayerFuture, ObservedHandler, ObservedRun, ObservedStep, OnExit, RunExit,
    };

    /// A [layer](Layer) that reports OpenTelemetry spans to the global tracer provider: one per execution of a run, one
    /// per attempt of a step, one per call of a handler.
    ///
    /// With the feature `opentelemetry`, the call that starts a run is a span too, in the trace of the caller, and it is
    /// stored with the run. All spans of the run are its children, as are those of the run's own children: one trace,
    /// whichever process executes the run, and however many of them die. While the body of a step is polled, the span
    /// of its attempt is the current context, so clients that propagate it continue the trace.
    ///
    /// ```
    /// use outlive::layer::OpenTelemetry;
    /// # use outlive::prelude::*;
    /// # async fn charge() -> Result<u32> { Ok(42) }
    /// # async fn pay(ctx: Ctx, _: ()) -> Result<u32> { Ok(ctx.step("charge", charge).await?) }
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
    /// // After `opentelemetry::global::set_tracer_provider(..)`:
    /// let engine = Engine::open("memory:").workflow("pay", pay).layer(OpenTelemetry::new()).start().await?;
    /// # engine.start(pay, &()).await?.result().await?;
    /// # Ok(()) }
    /// ```
    #[derive(Clone, Copy, Debug, Default)]
    #[non_exhaustive]
    pub struct OpenTelemetry {}

    impl OpenTelemetry {
        /// Creates the layer. It uses the tracer provider that is set whenever a span begins.
        ///
        /// ```
        /// let _ = outlive::Engine::open("memory:").layer(outlive::layer::OpenTelemetry::new());
        /// ```
        #[must_use]
        pub fn new() -> Self {
            Self {}
        }
    }

    fn tracer() -> BoxedTracer {
        global::tracer("outlive")
    }

    /// Begins the span of a start.
    pub(super) fn start(workflow: &Name, id: &Name) -> Context {
        let tracer = tracer();
        let attributes =
            [KeyValue::new("outlive.workflow", workflow.to_string()), KeyValue::new("outlive.run.id", id.to_string())];
        let span = tracer.span_builder(format!("start {workflow}")).with_kind(SpanKind::Producer);
        Context::current_with_span(span.with_attributes(attributes).start(&tracer))
    }

    /// Returns a span as it is stored; `None` if there is none.
    pub(super) fn stored(context: &Context) -> Option<TraceContext> {
        let (span, flags) = (context.span(), context.span().span_context().trace_flags());
        let span = span.span_context();
        let parent = format!("00-{}-{}-{:02x}", span.trace_id(), span.span_id(), flags & TraceFlags::SAMPLED);
        TraceContext::new(&parent, &span.trace_state().header()).filter(|_| span.is_valid())
    }

    /// Returns the context that the spans of a run are children of.
    fn restored(run: &Info) -> Context {
        let found = run.origin.as_ref().and_then(|origin| origin.trace.as_ref()).and_then(|trace| {
            let mut fields = trace.parent().split('-').skip(1);
            let trace_id = TraceId::from_hex(fields.next()?).ok()?;
            let span_id = SpanId::from_hex(fields.next()?).ok()?;
            let flags = TraceFlags::new(u8::from_str_radix(fields.next()?, 16).ok()?);
            let state = trace.state().parse::<TraceState>().unwrap_or_default();
            Some(SpanContext::new(trace_id, span_id, flags, true, state))
        });
        let none = Context::new();
        found.map_or_else(|| none.clone(), |span| none.with_remote_span_context(span))
    }

    fn of_run(run: &Info) -> Vec<KeyValue> {
        let version = run.version().map(|version| KeyValue::new("outlive.version", version.to_owned()));
        let known =
            [KeyValue::new("outlive.workflow", run.workflow.clone()), KeyValue::new("outlive.run.id", run.id.clone())];
        known.into_iter().chain(version).collect()
    }

    /// Runs an attempt or a call in its span.
    fn in_span(span: global::BoxedSpan, inner: Inner<'_>) -> LayerFuture<'_> {
        let context = Context::new().with_span(span);
        Box::pin(async move {
            let result = inner.run().with_context(context.clone()).await;
            if let Err(error) = &result {
                context.span().record_error(&**error);
                context.span().set_status(Status::error(error.to_string()));
            }
            context.span().end();
            result
        })
    }

    impl Layer for OpenTelemetry {
        fn run(&self, run: &ObservedRun<'_>) -> Option<OnExit> {
            let tracer = tracer();
            let mut attributes = of_run(run.info);
            attributes.push(KeyValue::new("outlive.replay", run.is_replay));
            let span = tracer.span_builder(format!("run {}", run.info.workflow)).with_kind(SpanKind::Consumer);
            let mut span = span.with_attributes(attributes).start_with_context(&tracer, &restored(run.info));
            Some(Box::new(move |exit| {
                let word = match exit {
                    RunExit::Completed => "completed",
                    RunExit::Failed(_) => "failed",
                    RunExit::Cancelled => "cancelled",
                    RunExit::Stuck(_) => "stuck",
                    RunExit::Restarted => "restarted",
                    RunExit::Left => "left",
                };
                span.set_attribute(KeyValue::new("outlive.exit", word));
                match exit {
                    RunExit::Failed(failure) => span.set_status(Status::error(failure.to_string())),
                    RunExit::Stuck(sentence) => span.set_status(Status::error((*sentence).to_owned())),
                    _ => {}
                }
                span.end();
            }))
        }

        fn step<'a>(&'a self, step: &'a ObservedStep<'a>, inner: Inner<'a>) -> LayerFuture<'a> {
            let tracer = tracer();
            let mut attributes = of_run(step.run);
            attributes.push(KeyValue::new("outlive.step", step.name.to_owned()));
            attributes.push(KeyValue::new("outlive.attempt", i64::from(step.attempt)));
            let span = tracer.span_builder(format!("step {}", step.name)).with_attributes(attributes);
            in_span(span.start_with_context(&tracer, &restored(step.run)), inner)
        }

        fn handler<'a>(&'a self, call: &'a ObservedHandler<'a>, inner: Inner<'a>) -> LayerFuture<'a> {
            let tracer = tracer();
            let attributes = [
                KeyValue::new("outlive.job", format!("{}:{}", call.kind, call.job)),
                KeyValue::new("outlive.instance", call.instance.to_owned()),
                KeyValue::new("outlive.attempt", i64::from(call.attempt)),
            ];
            let span = tracer.span_builder(format!("{} {}", call.handler, call.job)).with_kind(SpanKind::Consumer);
            in_span(span.with_attributes(attributes).start_with_context(&tracer, &Context::new()), inner)
        }
    }
}
