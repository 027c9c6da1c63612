//! The store under power cuts and failing I/O, briefly; `./prove powercut` does the same a thousand times over.

mod failing;
mod power;
