//! Names of signals, as text or with the type of the value.

use std::fmt;
use std::marker::PhantomData;

use serde::de::DeserializeOwned;

/// The name of a signal together with the type of its value, so that sender and receiver cannot disagree.
///
/// ```
/// # use outlive::prelude::*;
/// use outlive::SignalName;
/// # use serde::{Deserialize, Serialize};
/// #[derive(Serialize, Deserialize)]
/// struct Approval { by: String }
/// const APPROVAL: SignalName<Approval> = SignalName::new("approval");
///
/// async fn approve(ctx: Ctx, _: ()) -> Result<String> {
///     Ok(ctx.wait(APPROVAL).await?.by)
/// }
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<()> {
/// # let engine = Engine::open("memory:").workflow("approve", approve).start().await?;
/// let run = engine.start(approve, &()).await?;
/// run.signal(APPROVAL, &Approval { by: "ada".into() }).await?;
/// assert_eq!(run.result().await?, "ada");
/// # Ok(()) }
/// ```
pub struct SignalName<T> {
    name: &'static str,
    value: PhantomData<fn(T) -> T>,
}

impl<T> SignalName<T> {
    /// Names a signal.
    ///
    /// ```
    /// const PAID: outlive::SignalName<u64> = outlive::SignalName::new("paid");
    /// assert_eq!(PAID.as_str(), "paid");
    /// ```
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        Self { name, value: PhantomData }
    }

    /// Returns the name.
    ///
    /// ```
    /// assert_eq!(outlive::SignalName::<u64>::new("paid").as_str(), "paid");
    /// ```
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        self.name
    }
}

impl<T> Clone for SignalName<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for SignalName<T> {}

impl<T> fmt::Debug for SignalName<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SignalName").field(&self.name).finish()
    }
}

/// A value that a signal can carry: anything that serde can deserialize.
///
/// ```
/// use outlive::{IgnoredAny, prelude::*};
/// async fn gate(ctx: Ctx, _: ()) -> Result<()> {
///     ctx.wait::<IgnoredAny>("open").await?; // any value
///     Ok(())
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "a signal cannot be read as `{Self}`",
    label = "no signal has a value of type `{Self}`",
    note = "if the value is not used, write `ctx.wait::<outlive::IgnoredAny>(..)`",
    note = "otherwise name its type, as in `ctx.wait::<Approval>(..)`, and derive `serde::Deserialize` for it"
)]
pub trait SignalValue: DeserializeOwned {}

#[diagnostic::do_not_recommend]
impl<T: DeserializeOwned> SignalValue for T {}

/// A name for signals with values of type `T`: a [`SignalName<T>`], or any text.
///
/// ```
/// # use outlive::{SignalNamed, prelude::*};
/// /// Waits for two signals with one name.
/// async fn both<N: SignalNamed<u32>>(ctx: &Ctx, name: N) -> Result<u32, Error> {
///     Ok(ctx.wait::<u32>(name.as_name()).await? + ctx.wait::<u32>(name.as_name()).await?)
/// }
/// # async fn sum(ctx: Ctx, _: ()) -> Result<u32> { Ok(both(&ctx, "n").await?) }
/// # fn main() { let _ = Engine::open("memory:").workflow("sum", sum); }
/// ```
pub trait SignalNamed<T: ?Sized> {
    /// Returns the name.
    fn as_name(&self) -> &str;
}

impl<T> SignalNamed<T> for SignalName<T> {
    fn as_name(&self) -> &str {
        self.name
    }
}

impl<T: ?Sized> SignalNamed<T> for &str {
    fn as_name(&self) -> &str {
        self
    }
}

impl<T: ?Sized> SignalNamed<T> for &String {
    fn as_name(&self) -> &str {
        self
    }
}

impl<T: ?Sized> SignalNamed<T> for String {
    fn as_name(&self) -> &str {
        self
    }
}
