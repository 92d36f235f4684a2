//! A method that somebody looks at in each of its steps.

use std::cell::RefCell;

use lastlayer::error::Result;
use lastlayer::prelude::Var;
use lastlayer::train::{Batch, Group, Method, State, Step};

type Before<'a, M> = Box<dyn FnMut(&M, &Batch) -> Result<()> + 'a>;
type After<'a, M> = Box<dyn FnMut(&M, &Batch) + 'a>;

/// The method, and what looks at it: before a step, which it may stop, and after it.
pub struct Watched<'a, M> {
    method: &'a mut M,
    before: RefCell<Before<'a, M>>,
    after: After<'a, M>,
}

/// Looks at a method before each step; an error stops it.
pub fn before<'a, M>(method: &'a mut M, look: impl FnMut(&M, &Batch) -> Result<()> + 'a) -> Watched<'a, M> {
    Watched { method, before: RefCell::new(Box::new(look)), after: Box::new(|_, _| ()) }
}

/// Looks at a method after each step.
#[allow(dead_code)] // not every test looks then
pub fn after<'a, M>(method: &'a mut M, look: impl FnMut(&M, &Batch) + 'a) -> Watched<'a, M> {
    Watched { method, before: RefCell::new(Box::new(|_, _| Ok(()))), after: Box::new(look) }
}

impl<M: Method> Method for Watched<'_, M> {
    fn groups(&self) -> Vec<Group> {
        self.method.groups()
    }

    fn step(&self, batch: &Batch) -> Result<Step> {
        (self.before.borrow_mut())(self.method, batch)?;
        self.method.step(batch)
    }

    fn after(&mut self, batch: &Batch, step: &Step) -> Result<()> {
        self.method.after(batch, step)?;
        (self.after)(self.method, batch);
        Ok(())
    }

    fn statistics(&self) -> Vec<(String, Var)> {
        self.method.statistics()
    }

    fn state(&self) -> Result<State> {
        self.method.state()
    }

    fn restore(&mut self, state: &State) -> Result<()> {
        self.method.restore(state)
    }

    fn identity(&self) -> String {
        self.method.identity()
    }
}
