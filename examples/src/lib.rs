//! Programs that show what jobs do: each is an example of this crate, beside this folder, and says what it has seen.
