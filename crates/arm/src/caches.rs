//! What the hot path of a core has compiled in about its caches: a core is a [`Cpu`](crate::Cpu) of
//! one of these kinds.

use mmulab_hardware::Line;
use mmulab_system::core::CacheAddress;

use crate::isa::Generations;

/// The line sizes of a core's caches, by which address they are indexed and tagged, and whether the
/// data caches of several cores are kept coherent.
pub trait CacheKind: Copy + 'static {
    /// A line of the data cache.
    type DataLine: Line + Send;
    /// A line of the instruction cache.
    type FetchLine: Line + Send;
    /// Which address the tags of the instruction cache hold; virtual addresses choose its set.
    const FETCH_TAG: CacheAddress;
    /// Which address chooses the set of the data cache, and which its tags hold.
    const DATA: CacheAddress;
    /// Whether the data caches of all cores are kept coherent.
    const COHERENT: bool;

    /// The decode tables, whose handlers access memory by way of such caches.
    fn tables() -> &'static Generations<Self>;
}

/// Virtually indexed and tagged caches with lines of 32 bytes: StrongARM, XScale, ARM9.
#[derive(Clone, Copy, Debug)]
pub struct VirtualCaches;

impl CacheKind for VirtualCaches {
    type DataLine = [u32; 8];
    type FetchLine = [u32; 8];
    const FETCH_TAG: CacheAddress = CacheAddress::Virtual;
    const DATA: CacheAddress = CacheAddress::Virtual;
    const COHERENT: bool = false;

    fn tables() -> &'static Generations<Self> {
        static TABLES: Generations<VirtualCaches> = Generations::new();
        &TABLES
    }
}

/// Coherent physically indexed and tagged data caches with lines of 64 bytes, and virtually indexed
/// and physically tagged instruction caches with lines of 32 bytes: Cortex-A7 (ARM DDI 0464F, 6.1).
#[derive(Clone, Copy, Debug)]
pub struct CoherentCaches;

impl CacheKind for CoherentCaches {
    type DataLine = [u32; 16];
    type FetchLine = [u32; 8];
    const FETCH_TAG: CacheAddress = CacheAddress::Physical;
    const DATA: CacheAddress = CacheAddress::Physical;
    const COHERENT: bool = true;

    fn tables() -> &'static Generations<Self> {
        static TABLES: Generations<CoherentCaches> = Generations::new();
        &TABLES
    }
}
