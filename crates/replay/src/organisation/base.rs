//! BASE: caches alone.

use super::{IgnoresCaches, Organisation};

/// Nothing is translated.
#[derive(Clone, Copy, Debug)]
pub struct Base;

impl Organisation for Base {}

impl IgnoresCaches for Base {}
