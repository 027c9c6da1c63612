//! Tests of store_trouble.
