//! Tests of panics.
