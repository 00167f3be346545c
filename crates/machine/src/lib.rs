//! The typed description of a machine, as read from `machines/*.toml`.
