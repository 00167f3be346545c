//! stub
/// A watchpoint on modified virtual addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watchpoint {
    /// First byte.
    pub address: u32,
    /// Bytes.
    pub length: u32,
    /// Stop at loads.
    pub on_load: bool,
    /// Stop at stores.
    pub on_store: bool,
}
