//! The `outlive-bench` binary; see `benches/README.md`.

fn main() -> outlive::prelude::Result<()> {
    outlive_bench::main()
}
