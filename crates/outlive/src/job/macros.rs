//! Macros for what all kinds of job share: contracts, builder settings and client methods.

/// A contract: a typed name and its client.
macro_rules! contract {
    ($(#[$doc:meta])* $name:ident<$($of:ident),+>, $kind:expr, $(#[$client_doc:meta])* $client:ident) => {
        $(#[$doc])*
        pub struct $name<$($of),+> {
            name: &'static str,
            types: PhantomData<fn($($of),+)>,
        }

        impl<$($of),+> Clone for $name<$($of),+> {
            fn clone(&self) -> Self {
                *self
            }
        }

        impl<$($of),+> Copy for $name<$($of),+> {}

        impl<$($of),+> $name<$($of),+> {
            /// Creates a contract. The store knows the job by this name.
            #[must_use]
            pub const fn new(name: &'static str) -> Self {
                Self { name, types: PhantomData }
            }

            pub(crate) fn job_name(self) -> Result<Name, Error> {
                Ok($kind.job(self.name)?)
            }
        }

        $(#[$client_doc])*
        pub struct $client<$($of),+> {
            client: JobClient,
            types: PhantomData<fn($($of),+)>,
        }

        impl<$($of),+> Clone for $client<$($of),+> {
            fn clone(&self) -> Self {
                Self { client: self.client.clone(), types: PhantomData }
            }
        }

        impl<$($of),+> Contract for $name<$($of),+> {
            type Client = $client<$($of),+>;

            fn client(self, client: &Client) -> Self::Client {
                $client { client: JobClient::new(client, self.job_name()), types: PhantomData }
            }
        }
    };
}
pub(super) use contract;

/// The settings that every builder has for calls of its handlers.
macro_rules! settings_methods {
    ($retry:literal) => {
        #[doc = $retry]
        pub fn retry(mut self, retry: impl Into<Retry>) -> Self {
            self.settings.policy.retry = Some(retry.into());
            self
        }

        /// Sets which errors are retried: errors of one type, or all errors as `&BoxError`. The closure's parameter
        /// names the type.
        ///
        /// Panics, timeouts and errors of other types are retried whatever it returns.
        ///
        /// ```
        /// # use outlive::prelude::*;
        /// # use outlive::job::{WorkerPoolCtx, WorkerPool};
        /// # use std::io;
        /// const MAIL: WorkerPool<String> = WorkerPool::new("mail");
        /// async fn send(_: WorkerPoolCtx<String>, to: String) -> io::Result<()> { Ok(()) }
        ///
        /// let is_passing = |error: &io::Error| error.kind() != io::ErrorKind::PermissionDenied;
        /// let job = MAIL.concurrency(4).retry(5).retry_if(is_passing).execute(send);
        /// # let _ = Engine::open("memory:").job(job);
        /// ```
        pub fn retry_if<M>(mut self, test: impl RetryTest<M>) -> Self {
            self.settings.call_policy.retry_if = Some(Arc::new(move |error| test.is_worth_it(error)));
            self
        }

        /// Keeps an error of type `Problem` with its failure, so that [`Failure::details`](crate::Failure::details)
        /// returns it wherever the failure is shown, even after a restart. Call it once for each type to keep.
        ///
        /// ```
        /// # use outlive::prelude::*;
        /// # use outlive::{Failure, job::{Continuous, ContinuousCtx}};
        /// # use serde::{Deserialize, Serialize};
        /// #[derive(Debug, thiserror::Error, Serialize, Deserialize)]
        /// #[error("the quota is used up until {until}")]
        /// struct Quota { until: u64 }
        ///
        /// const SYNC: Continuous<u64> = Continuous::new("sync");
        /// async fn sync(_: ContinuousCtx<u64>) -> Result<(), Quota> { Err(Quota { until: 7 }) }
        /// async fn failed(ctx: ContinuousCtx<u64>, failure: Failure) -> Result<()> {
        ///     if let Some(Quota { until }) = failure.details() {
        ///         ctx.update_state(|free_at| *free_at = until);
        ///     }
        ///     Ok(())
        /// }
        /// let job = SYNC.every("1 hour").details::<Quota>().on_error(failed).execute(sync);
        /// # let _ = Engine::open("memory:").job(job);
        /// ```
        pub fn details<Problem: std::error::Error + Serialize + 'static>(mut self) -> Self {
            self.settings.call_policy.keep_details::<Problem>();
            self
        }

        /// Limits how long an attempt may take. An attempt that exceeds the limit fails, and its future is dropped.
        pub fn timeout(mut self, limit: impl IntoDuration) -> Self {
            let name = self.contract.name;
            let zero = || format!("the timeout of job {name:?} must be greater than zero");
            self.settings.call_policy.timeout = self.settings.time(limit, zero);
            self
        }

        /// Sets a function to call when retries are exhausted, after that is durable.
        pub fn on_exhausted(mut self, tell: impl Fn(&Exhausted) + Send + Sync + 'static) -> Self {
            self.settings.on_exhausted = Some(Box::new(tell));
            self
        }
    };
}
pub(super) use settings_methods;

/// Client methods for an instance of any kind.
macro_rules! instance_methods {
    ($state:ty) => {
        /// Removes the instance with its state, its events and what it planned. A running handler is dropped.
        ///
        /// This takes effect once it is durable, which is when the future returns: messages accepted before are removed
        /// with the instance, and an event accepted after creates a new one.
        ///
        /// # Errors
        /// [`Error::NotFound`] if there is no such instance.
        pub fn terminate(&self, id: &str, reason: &str) -> Order {
            self.client.order(id, Message::Terminate { reason: reason.to_owned() })
        }

        /// Returns the status of the instance.
        ///
        /// # Errors
        /// If the store cannot be read.
        pub async fn status(&self, id: &str) -> Result<JobInfo, Error> {
            self.client.info(id).await
        }

        /// Returns the last stored state, without waiting for a running handler or for earlier events.
        ///
        /// # Errors
        /// If the store cannot be read or the state does not decode.
        pub async fn state(&self, id: &str) -> Result<Option<$state>, Error> {
            self.client.state(id).await
        }
    };
}
pub(super) use instance_methods;

/// Client methods for dead letters.
macro_rules! dead_methods {
    ($event:ty, $dead:literal) => {
        #[doc = $dead]
        ///
        /// # Errors
        /// If the store cannot be read.
        pub async fn dead(&self) -> Result<Vec<DeadLetter<$event>>, Error> {
            self.client.dead().await
        }

        /// Retries all dead letters and returns how many, or [only](crate::job::ResolveDead::only) one. One whose dedup key belongs to
        /// another event stays.
        ///
        /// # Errors
        /// If the store cannot be written.
        pub fn retry_dead(&self) -> crate::job::ResolveDead {
            crate::job::ResolveDead::new(&self.client, true)
        }

        /// Discards all dead letters and returns how many, or [only](crate::job::ResolveDead::only) one.
        ///
        /// # Errors
        /// If the store cannot be written.
        pub fn discard_dead(&self) -> crate::job::ResolveDead {
            crate::job::ResolveDead::new(&self.client, false)
        }
    };
}
pub(super) use dead_methods;
