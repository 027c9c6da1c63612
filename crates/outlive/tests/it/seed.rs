//! Tests of seed.
