//! What the processor says of its TLBs (CPUID).

/// A TLB, or the part of one that holds pages of one size.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReportedTlb {
    /// 1 is nearest to the core.
    pub level: u8,
    /// Whether it translates data accesses.
    pub data: bool,
    /// Whether it translates instruction fetches.
    pub instructions: bool,
    /// The sizes of the pages that it holds: "4K", "2M", "1G".
    pub page_sizes: Vec<&'static str>,
    /// How many.
    pub entries: u32,
    /// Ways of a set; all entries where it is fully associative.
    pub ways: u32,
}

/// The TLBs that the processor reports; none where it reports none.
#[cfg(target_arch = "x86_64")]
pub fn reported_tlbs() -> Vec<ReportedTlb> {
    let cpuid = raw_cpuid::CpuId::new();
    let mut found = from_address_translation_leaf(&cpuid);
    if found.is_empty() {
        found = from_extended_leaves(&cpuid);
    }
    found
}

/// The TLBs that the processor reports; none where it reports none.
#[cfg(not(target_arch = "x86_64"))]
pub fn reported_tlbs() -> Vec<ReportedTlb> {
    Vec::new()
}

/// Leaf 18H: Intel SDM 2A, CPUID, "Deterministic Address Translation Parameters".
#[cfg(target_arch = "x86_64")]
fn from_address_translation_leaf<R: raw_cpuid::CpuIdReader + Clone>(
    cpuid: &raw_cpuid::CpuId<R>,
) -> Vec<ReportedTlb> {
    use raw_cpuid::DatType::{DataTLB, InstructionTLB, LoadOnly, UnifiedTLB};
    let Some(rows) = cpuid.get_deterministic_address_translation_info() else {
        return Vec::new();
    };
    rows.filter_map(|row| {
        let (data, instructions) = match row.cache_type() {
            DataTLB | LoadOnly => (true, false),
            InstructionTLB => (false, true),
            UnifiedTLB => (true, true),
            // Where stores have a TLB of their own the one for loads is the one described.
            _ => return None,
        };
        let sizes = [
            ("4K", row.has_4k_entries()),
            ("2M", row.has_2mb_entries()),
            ("1G", row.has_1gb_entries()),
        ];
        let ways = u32::from(row.ways());
        let entries = ways * row.sets();
        (entries > 0).then(|| ReportedTlb {
            level: row.cache_level(),
            data,
            instructions,
            page_sizes: sizes.iter().filter(|(_, held)| *held).map(|(size, _)| *size).collect(),
            entries,
            ways: if row.is_fully_associative() { entries } else { ways },
        })
    })
    .collect()
}

/// Leaves 8000_0005H and 8000_0006H: AMD64 Architecture Programmer's Manual 3, appendix E.4.
#[cfg(target_arch = "x86_64")]
fn from_extended_leaves<R: raw_cpuid::CpuIdReader>(
    cpuid: &raw_cpuid::CpuId<R>,
) -> Vec<ReportedTlb> {
    let mut found = Vec::new();
    let mut add = |level, data, size, entries: u32, associativity| {
        if entries > 0 {
            let ways = match associativity {
                raw_cpuid::Associativity::DirectMapped => 1,
                raw_cpuid::Associativity::NWay(ways) => u32::from(ways),
                _ => entries,
            };
            let page_sizes = vec![size];
            found.push(ReportedTlb { level, data, instructions: !data, page_sizes, entries, ways });
        }
    };
    if let Some(first) = cpuid.get_l1_cache_and_tlb_info() {
        add(1, true, "4K", first.dtlb_4k_size().into(), first.dtlb_4k_associativity());
        add(1, true, "2M", first.dtlb_2m_4m_size().into(), first.dtlb_2m_4m_associativity());
        add(1, false, "4K", first.itlb_4k_size().into(), first.itlb_4k_associativity());
        add(1, false, "2M", first.itlb_2m_4m_size().into(), first.itlb_2m_4m_associativity());
    }
    if let Some(second) = cpuid.get_l2_l3_cache_and_tlb_info() {
        add(2, true, "4K", second.dtlb_4k_size().into(), second.dtlb_4k_associativity());
        add(2, true, "2M", second.dtlb_2m_4m_size().into(), second.dtlb_2m_4m_associativity());
        add(2, false, "4K", second.itlb_4k_size().into(), second.itlb_4k_associativity());
        add(2, false, "2M", second.itlb_2m_4m_size().into(), second.itlb_2m_4m_associativity());
    }
    found
}
