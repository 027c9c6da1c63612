//! The workflows and jobs that this program can run, by name and by function.

use std::any::TypeId;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use outlive_core::id::Name;
use outlive_core::kind::JobKind;
use outlive_core::payload::Payload;

use crate::error::Error;
use crate::instance::target::{Names, Reference};
use crate::runtime::handlers::Definition;
use crate::workflow::Handler;

/// The registered workflows and jobs.
#[derive(Default)]
pub(crate) struct Registry {
    by_name: BTreeMap<Name, Registered>,
    by_function: HashMap<TypeId, Vec<Name>>,
    jobs: BTreeMap<Name, Arc<Definition>>,
}

/// A registered workflow.
#[derive(Clone)]
pub(crate) struct Registered {
    pub(crate) handler: Arc<dyn Handler>,
    /// `true` if what is recorded but not asked for makes a run stuck.
    pub(crate) is_strict: bool,
}

impl Registry {
    pub(crate) fn add(&mut self, name: &str, function: TypeId, registered: Registered) -> Result<(), Error> {
        let name = Name::new("workflow name", name)?;
        if let Some(kind) = JobKind::of(&name) {
            let problem =
                format!("workflow name {name:?} starts with \"{kind}:\", which is reserved for jobs; use another name");
            return Err(Error::Setup(problem));
        }
        if self.by_name.insert(name.clone(), registered).is_some() {
            return Err(Error::Setup(format!("workflow {name:?} is registered twice; give each its own name")));
        }
        self.by_function.entry(function).or_default().push(name);
        Ok(())
    }

    /// Adds a job.
    pub(crate) fn add_job(&mut self, definition: Definition) -> Result<(), Error> {
        let (name, kind) = (definition.job.clone(), definition.kind());
        debug_assert_eq!(JobKind::of(&name), Some(kind), "a job's name starts with its kind");
        match self.jobs.insert(name.clone(), Arc::new(definition)) {
            Some(_) => Err(Error::Setup(format!("job {name:?} is registered twice; give each its own name"))),
            None => Ok(()),
        }
    }

    pub(crate) fn job(&self, name: &Name) -> Option<&Arc<Definition>> {
        self.jobs.get(name)
    }

    pub(crate) fn all_jobs(&self) -> impl Iterator<Item = &Arc<Definition>> {
        self.jobs.values()
    }

    pub(crate) fn unknown_job(&self, name: &Name) -> Error {
        Error::UnknownJob { job: name.to_string(), known: self.known_jobs() }
    }

    /// Returns the names of the registered jobs, for people.
    pub(crate) fn known_jobs(&self) -> String {
        listed(self.jobs.keys())
    }

    /// Returns the names of the registered workflows, for people.
    pub(crate) fn known(&self) -> String {
        listed(self.by_name.keys())
    }

    pub(crate) fn get(&self, name: &Name) -> Option<&Registered> {
        self.by_name.get(name)
    }

    pub(crate) fn unknown(&self, workflow: String) -> Error {
        Error::UnknownWorkflow { workflow, known: self.known() }
    }
}

fn listed<'a>(names: impl Iterator<Item = &'a Name>) -> String {
    let names: Vec<_> = names.map(Name::as_str).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

impl Names for Registry {
    fn name_of(&self, reference: Reference) -> Result<Name, Error> {
        match reference {
            Reference::Name(name) => Ok(Name::new("workflow name", name)?),
            Reference::Function { type_id, type_name } => match self.by_function.get(&type_id).map(Vec::as_slice) {
                Some([name]) => Ok(name.clone()),
                Some(names) => Err(Error::Setup(format!(
                    "function {type_name} is registered as {names:?}; start it with a `Workflow` contract"
                ))),
                None => Err(self.unknown(format!("function {type_name}"))),
            },
        }
    }

    fn check_event(&self, job: &Name, event: &Payload) -> Result<(), Error> {
        match self.job(job) {
            Some(definition) => definition.handlers.check(event),
            None => Err(self.unknown_job(job)),
        }
    }

    fn check_input(&self, workflow: &Name, input: &Payload) -> Result<(), Error> {
        match self.get(workflow) {
            Some(registered) => registered.handler.check(input),
            None => Err(self.unknown(format!("workflow {:?}", workflow.as_str()))),
        }
    }
}
