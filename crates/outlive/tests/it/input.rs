//! Tests of input.
