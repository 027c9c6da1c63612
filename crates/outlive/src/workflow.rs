//! Workflow functions, and the contracts that name them.

use std::any::TypeId;
use std::marker::PhantomData;
use std::pin::Pin;

use outlive_core::payload::Payload;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::ctx::Ctx;
use crate::error::{BoxError, Error};
use crate::instance::codec;
pub use crate::instance::target::{Reference, Target};

/// The name and types of a workflow, for a process that does not have its code.
///
/// ```
/// use outlive::Workflow;
/// const CHECKOUT: Workflow<u32, String> = Workflow::new("checkout");
/// assert_eq!(CHECKOUT.name(), "checkout");
/// ```
pub struct Workflow<I, O> {
    name: &'static str,
    types: PhantomData<fn(I) -> O>,
}

impl<I, O> Workflow<I, O> {
    /// Creates the contract of the workflow registered under this name.
    ///
    /// ```
    /// use outlive::Workflow;
    /// #[derive(serde::Serialize)]
    /// struct Order { cents: u32 }
    /// const CHECKOUT: Workflow<Order, String> = Workflow::new("checkout");
    /// # assert_eq!(CHECKOUT.name(), "checkout");
    /// ```
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        Self { name, types: PhantomData }
    }

    /// Returns the name.
    ///
    /// ```
    /// assert_eq!(outlive::Workflow::<u32, String>::new("checkout").name(), "checkout");
    /// ```
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.name
    }
}

impl<I, O> Clone for Workflow<I, O> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<I, O> Copy for Workflow<I, O> {}

/// The future of a run, whose result is JSON.
///
/// ```
/// use outlive::Payload;
/// use outlive::workflow::WorkflowFuture;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> outlive::prelude::Result<()> {
/// let work: WorkflowFuture = Box::pin(async { Ok(Payload::encode(&42)?) });
/// assert_eq!(work.await?.as_str(), "42");
/// # Ok(()) }
/// ```
pub type WorkflowFuture = Pin<Box<dyn Future<Output = Result<Payload, BoxError>> + Send>>;

/// An async function that can be a workflow: `async fn(Ctx, Input) -> Result<Output, Error>`.
///
/// ```
/// use outlive::Builder;
/// use outlive::workflow::WorkflowFn;
/// # use outlive::prelude::*;
/// # async fn double(_: Ctx, n: u32) -> Result<u32> { Ok(n * 2) }
/// /// Registers a workflow with the prefix that all our names share.
/// fn add<F: WorkflowFn<M>, M: 'static>(builder: Builder, name: &str, function: F) -> Builder {
///     builder.workflow(&format!("shop/{name}"), function)
/// }
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// let engine = add(Engine::open("memory:"), "double", double).start().await?;
/// assert_eq!(engine.start(double, &21).await?.info().await?.workflow, "shop/double");
/// # Ok(()) }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a workflow function",
    label = "expected `async fn(Ctx, Input) -> Result<Output, Error>`",
    note = "Input must be `Serialize + DeserializeOwned + Send`, Output `Serialize + DeserializeOwned`, Error `Into<Box<dyn Error + Send + Sync>>`",
    note = "the future must be `Send`: hold nothing like `Rc` or a `MutexGuard` across an `.await`"
)]
pub trait WorkflowFn<M>: Send + Sync + 'static {
    /// The input type.
    type Input: Serialize + DeserializeOwned;
    /// The output type.
    type Output: Serialize + DeserializeOwned;
    /// The function itself, by which a start finds the name.
    #[doc(hidden)]
    type Function: 'static;
    #[doc(hidden)]
    const IS_STRICT: bool = false;

    /// Starts a run.
    ///
    /// # Errors
    /// If the input does not deserialize as the function's input type.
    fn begin(&self, ctx: Ctx, input: &Payload) -> Result<WorkflowFuture, serde_json::Error>;
}

impl<F, Fut, I, O, E> WorkflowFn<(I, O, E)> for F
where
    F: Fn(Ctx, I) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<O, E>> + Send + 'static,
    I: Serialize + DeserializeOwned,
    O: Serialize + DeserializeOwned,
    E: Into<BoxError>,
{
    type Input = I;
    type Output = O;
    type Function = F;

    fn begin(&self, ctx: Ctx, input: &Payload) -> Result<WorkflowFuture, serde_json::Error> {
        let work = self(ctx, input.decode()?);
        Ok(Box::pin(async move {
            let output = Payload::encode(&work.await.map_err(Into::into)?)?;
            // A value that does not read back, such as `NaN`, cannot be a result: no caller could receive it.
            codec::check::<O>("the output", &output)?;
            Ok(output)
        }))
    }
}

/// Registers a workflow function as strict: if its code does not ask for what is recorded, the run becomes stuck before it
/// does anything new.
///
/// ```
/// use outlive::workflow::Strict;
/// # use outlive::prelude::*;
/// # async fn pay(_: Ctx, _: ()) -> Result<()> { Ok(()) }
/// # async fn report(_: Ctx, _: ()) -> Result<()> { Ok(()) }
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// let engine = Engine::open("memory:").workflow("pay", Strict(pay)).workflow("report", report).start().await?;
/// engine.start(pay, &()).await?;
/// # Ok(()) }
/// ```
pub struct Strict<F>(pub F);

/// Marks a workflow function that is [`Strict`].
#[doc(hidden)]
pub struct AsStrict<M>(PhantomData<M>);

#[diagnostic::do_not_recommend]
impl<F: WorkflowFn<M>, M: 'static> WorkflowFn<AsStrict<M>> for Strict<F> {
    type Input = F::Input;
    type Output = F::Output;
    type Function = F::Function;
    const IS_STRICT: bool = true;

    fn begin(&self, ctx: Ctx, input: &Payload) -> Result<WorkflowFuture, serde_json::Error> {
        self.0.begin(ctx, input)
    }
}

/// Marks a [`Target`] that is a contract.
///
/// ```
/// use outlive::Workflow;
/// use outlive::workflow::{ByContract, Reference, Target};
/// const CHECKOUT: Workflow<u32, String> = Workflow::new("checkout");
/// assert_eq!(Target::<ByContract>::reference(&CHECKOUT), Reference::Name("checkout"));
/// ```
pub struct ByContract;
/// Marks a [`Target`] that is a function.
///
/// ```
/// use outlive::workflow::{ByFunction, Reference, Target};
/// # use outlive::prelude::*;
/// async fn double(_: Ctx, n: u32) -> Result<u32> { Ok(n * 2) }
/// fn reference<T: Target<ByFunction<M>>, M>(function: T) -> Reference { function.reference() }
/// assert!(matches!(reference(double), Reference::Function { .. }));
/// ```
pub struct ByFunction<M>(PhantomData<M>);

impl<F, M> Target<ByFunction<M>> for F
where
    F: WorkflowFn<M>,
{
    type Input = F::Input;
    type Output = F::Output;

    fn reference(&self) -> Reference {
        Reference::Function { type_id: TypeId::of::<F::Function>(), type_name: std::any::type_name::<F::Function>() }
    }
}

impl<I: Serialize, O: DeserializeOwned> Target<ByContract> for Workflow<I, O> {
    type Input = I;
    type Output = O;

    fn reference(&self) -> Reference {
        Reference::Name(self.name)
    }
}

/// A registered workflow with its types erased.
pub(crate) trait Handler: Send + Sync {
    /// Starts a run.
    fn begin(&self, ctx: Ctx, input: &Payload) -> Result<WorkflowFuture, serde_json::Error>;

    /// Checks that the input deserializes as the function's input type.
    fn check(&self, input: &Payload) -> Result<(), Error>;
}

/// A workflow function with its types.
pub(crate) struct Typed<F, M> {
    function: F,
    marker: PhantomData<fn() -> M>,
}

impl<F: WorkflowFn<M>, M> Typed<F, M> {
    pub(crate) fn new(function: F) -> Self {
        Self { function, marker: PhantomData }
    }
}

impl<F: WorkflowFn<M>, M> Handler for Typed<F, M> {
    fn begin(&self, ctx: Ctx, input: &Payload) -> Result<WorkflowFuture, serde_json::Error> {
        self.function.begin(ctx, input)
    }

    fn check(&self, input: &Payload) -> Result<(), Error> {
        codec::check::<F::Input>("the input", input)
    }
}
