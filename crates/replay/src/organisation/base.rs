//! BASE: caches alone.

use super::Organisation;

/// Nothing is translated.
#[derive(Clone, Copy, Debug)]
pub struct Base;

impl Organisation for Base {}
