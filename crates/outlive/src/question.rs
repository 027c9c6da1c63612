//! Names of questions, as text or with the types of the question and its answer.

use std::fmt;
use std::marker::PhantomData;

/// The name of a question together with the types of the question and its answer, so that both sides agree.
///
/// ```
/// # use outlive::prelude::*;
/// use outlive::QuestionName;
/// const PRICE: QuestionName<String, u32> = QuestionName::new("price");
///
/// async fn shop(ctx: Ctx, _: ()) -> Result<()> {
///     let (item, reply) = ctx.wait_ask(PRICE).await?;
///     Ok(reply.send(&(item.len() as u32)).await?)
/// }
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// # let engine = Engine::open("memory:").workflow("shop", shop).start().await?;
/// let run = engine.start(shop, &()).await?;
/// assert_eq!(run.ask(PRICE, &"tea".to_string()).await?, 3);
/// # Ok(()) }
/// ```
pub struct QuestionName<Q, A> {
    name: &'static str,
    question: PhantomData<fn(Q) -> Q>,
    answer: PhantomData<fn(A) -> A>,
}

impl<Q, A> QuestionName<Q, A> {
    /// Names a question.
    ///
    /// ```
    /// const PRICE: outlive::QuestionName<String, u32> = outlive::QuestionName::new("price");
    /// assert_eq!(PRICE.as_str(), "price");
    /// ```
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        Self { name, question: PhantomData, answer: PhantomData }
    }

    /// Returns the name.
    ///
    /// ```
    /// assert_eq!(outlive::QuestionName::<String, u32>::new("price").as_str(), "price");
    /// ```
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        self.name
    }
}

impl<Q, A> Clone for QuestionName<Q, A> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<Q, A> Copy for QuestionName<Q, A> {}

impl<Q, A> fmt::Debug for QuestionName<Q, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("QuestionName").field(&self.name).finish()
    }
}

/// A name for questions of type `Q` with answers of type `A`: a [`QuestionName<Q, A>`], or any text.
///
/// ```
/// # use outlive::{QuestionNamed, prelude::*};
/// /// Replies to two questions with one name.
/// async fn twice<N: QuestionNamed<u32, u32>>(ctx: &Ctx, name: N) -> Result<(), Error> {
///     for _ in 0..2 {
///         let (n, reply) = ctx.wait_ask::<u32, u32>(name.as_name()).await?;
///         reply.send(&(n * 2)).await?;
///     }
///     Ok(())
/// }
/// # async fn double(ctx: Ctx, _: ()) -> Result<()> { Ok(twice(&ctx, "n").await?) }
/// # fn main() { let _ = Engine::open("memory:").workflow("double", double); }
/// ```
pub trait QuestionNamed<Q: ?Sized, A> {
    /// Returns the name.
    fn as_name(&self) -> &str;
}

impl<Q, A> QuestionNamed<Q, A> for QuestionName<Q, A> {
    fn as_name(&self) -> &str {
        self.name
    }
}

impl<Q: ?Sized, A> QuestionNamed<Q, A> for &str {
    fn as_name(&self) -> &str {
        self
    }
}

impl<Q: ?Sized, A> QuestionNamed<Q, A> for &String {
    fn as_name(&self) -> &str {
        self
    }
}

impl<Q: ?Sized, A> QuestionNamed<Q, A> for String {
    fn as_name(&self) -> &str {
        self
    }
}
