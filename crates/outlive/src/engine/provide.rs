//! Values that workflows and handlers get by their type: given as they are, or created when the engine starts.

use std::any::{Any, TypeId};
use std::pin::Pin;

use crate::error::{BoxError, Error, failure_of};
use crate::instance::env::Values;

type Making = Pin<Box<dyn Future<Output = Result<Box<dyn Any + Send + Sync>, BoxError>> + Send>>;

/// The values that an engine provides.
#[derive(Default)]
pub(crate) struct Provided {
    pub(crate) values: Values,
    makers: Vec<Maker>,
}

struct Maker {
    id: TypeId,
    type_name: &'static str,
    make: Box<dyn FnOnce() -> Making + Send + Sync>,
}

impl Provided {
    pub(crate) fn add<T: Send + Sync + 'static>(&mut self, value: T) {
        self.values.insert(TypeId::of::<T>(), std::any::type_name::<T>(), Box::new(value));
    }

    pub(crate) fn add_maker<T, E, F, Fut>(&mut self, make: F)
    where
        T: Send + Sync + 'static,
        E: Into<BoxError>,
        F: FnOnce() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<T, E>> + Send + 'static,
    {
        let make = || -> Making {
            let making = make();
            Box::pin(async move {
                let value: Box<dyn Any + Send + Sync> = Box::new(making.await.map_err(Into::into)?);
                Ok(value)
            })
        };
        let (id, type_name) = (TypeId::of::<T>(), std::any::type_name::<T>());
        self.makers.push(Maker { id, type_name, make: Box::new(make) });
    }

    /// Returns the types of the values still to be created.
    pub(crate) fn unmade(&self) -> Vec<TypeId> {
        self.makers.iter().map(|maker| maker.id).collect()
    }

    /// Creates the values that are still to be created, one after the other.
    pub(crate) async fn make(mut self) -> Result<Values, Error> {
        for Maker { id, type_name, make } in self.makers {
            let made = make().await.map_err(|error| Error::Provide { type_name, failure: failure_of(&error) })?;
            self.values.insert(id, type_name, made);
        }
        Ok(self.values)
    }
}
