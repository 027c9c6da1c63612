//! Tests of cancel.
