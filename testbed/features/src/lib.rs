//! Nothing: this crate depends on the third-party crates of the workspace with all features that
//! any of ours asks for, so that the tests of one crate use what the tests of all have built.
//!
//! `cargo hakari generate` writes its manifest. It is a dependency of tests only.
