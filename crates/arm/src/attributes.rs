//! What an ELF file says of the architecture that it was compiled for (ARM IHI 0045, Addenda to the
//! ABI for the ARM Architecture, 2.3.5: build attributes).

use mmulab_machine::{ArmArchitecture, SystemMachine};
use object::Endianness;
use object::elf::FileHeader32;
use object::read::elf::{AttributesSection, ElfFile32, FileHeader, SectionHeader};

const VENDOR: &[u8] = b"aeabi";
/// The tag of attributes that hold for the whole file.
const WHOLE_FILE: u8 = 1;
const CPU_RAW_NAME: u64 = 4;
const CPU_NAME: u64 = 5;
const CPU_ARCHITECTURE: u64 = 6;
/// From here on an odd tag has a string, an even one a number; before it only the names above have
/// strings.
const COMPATIBILITY: u64 = 32;
/// The architectures by their number.
const NAMES: [&str; 11] = [
    "before ARMv4",
    "ARMv4",
    "ARMv4T",
    "ARMv5T",
    "ARMv5TE",
    "ARMv5TEJ",
    "ARMv6",
    "ARMv6KZ",
    "ARMv6T2",
    "ARMv6K",
    "ARMv7",
];

/// A note for people, where an image is an ELF file that was compiled for more than the machine's
/// cores have.
#[must_use]
pub fn note_of_architecture(image: &[u8], machine: &SystemMachine) -> Option<String> {
    // ARMv5TEJ has no instruction more than ARMv5TE but Jazelle's, which compilers do not use.
    let (latest, name) = match machine.core.architecture {
        ArmArchitecture::Armv4 => (1, "ARMv4"),
        ArmArchitecture::Armv4t => (2, "ARMv4T"),
        ArmArchitecture::Armv5te => (5, "ARMv5TE"),
        ArmArchitecture::Armv7a => return None,
    };
    let file = ElfFile32::<Endianness>::parse(image).ok()?;
    let data = file.data();
    let sections = file.elf_header().sections(file.endian(), data).ok()?;
    let (_, section) = sections.section_by_name(file.endian(), b".ARM.attributes")?;
    let number = architecture_of(section.data(file.endian(), data).ok()?)?;
    let wanted = *NAMES.get(usize::try_from(number).ok()?)?;
    (number > latest).then(|| {
        format!("the image was compiled for {wanted}; the core of {} has {name}", machine.name)
    })
}

/// The number of the architecture in a section of attributes.
fn architecture_of(section: &[u8]) -> Option<u64> {
    let section = AttributesSection::<FileHeader32<Endianness>>::new(Endianness::Little, section);
    let mut vendors = section.ok()?.subsections().ok()?;
    while let Some(vendor) = vendors.next().ok()? {
        let mut parts = vendor.subsubsections();
        while let Some(part) = parts.next().ok()? {
            if vendor.vendor() != VENDOR || part.tag() != WHOLE_FILE {
                continue;
            }
            let mut attributes = part.attributes();
            while let Some(tag) = attributes.read_tag().ok()? {
                match tag {
                    CPU_ARCHITECTURE => return attributes.read_integer().ok(),
                    CPU_RAW_NAME | CPU_NAME => drop(attributes.read_string().ok()?),
                    // What follows is of no interest, since the architecture comes early.
                    COMPATIBILITY.. => return None,
                    _ => drop(attributes.read_integer().ok()?),
                }
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::architecture_of;

    #[test]
    fn the_architecture_stands_behind_the_names() {
        let attributes = b"\x05ARM926EJ-S\0\x06\x05\x08\x01\x09\x01";
        let mut section = b"A".to_vec();
        let part_bytes = 5 + attributes.len() as u32;
        section.extend((4 + 6 + part_bytes).to_le_bytes());
        section.extend(b"aeabi\0\x01");
        section.extend(part_bytes.to_le_bytes());
        section.extend(attributes);
        assert_eq!(architecture_of(&section), Some(5));
        for length in 0..section.len() - 4 {
            assert_eq!(architecture_of(&section[..length]), None, "{length}");
        }
        assert_eq!(architecture_of(b""), None);
    }
}
