//! Images: ELF, Linux `zImage` and `Image`, raw binaries; with device tree and initial RAM disk.

use std::io::Read;
use std::ops::Range;

use object::{Object, ObjectSegment};

use crate::device_tree;

/// What an instruction set's images are like.
pub struct ImageRules {
    /// The machine of its ELF files.
    pub machine: object::Architecture,
    /// What such a file is called in messages.
    pub machine_name: &'static str,
    /// Where a raw binary goes, from the start of memory.
    pub raw_address: u32,
    /// Where the kernel's `Image` goes, from the start of memory.
    pub kernel_address: u32,
    /// Offset and value of the magic number of a `zImage`, where there are such.
    pub zimage_magic: Option<(usize, u32)>,
    /// How far from the start of memory a kernel reads its device tree and RAM disk.
    pub kernel_reach_bytes: u32,
}

const PAGE_BYTES: u32 = 0x1000;
/// Of an image: all that an address of 32 bits reaches.
const BYTES_MAX: u64 = 1 << 32;
/// What a program finds as its own name. Not the image's: what it costs to copy and to read it
/// would depend on the folder that the image lies in.
const PROGRAM_NAME: &str = "image";

/// Why an image cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file cannot be read.
    #[error("{name}: {error}")]
    Read {
        /// The file.
        name: String,
        /// The system's word.
        error: std::io::Error,
    },
    /// It is not what it should be.
    #[error("{name}: {message}")]
    Image {
        /// The file.
        name: String,
        /// What is wrong.
        message: String,
    },
}

/// A file's name and content.
pub struct File {
    /// For messages.
    pub name: String,
    /// The content.
    pub bytes: Vec<u8>,
}

impl File {
    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read, or does not end where no memory could hold more of it, as a device
    /// without an end.
    pub fn read(path: &std::path::Path) -> Result<File, LoadError> {
        let name = path.display().to_string();
        let mut file = File { name, bytes: Vec::new() };
        let read = std::fs::File::open(path)
            .and_then(|opened| opened.take(BYTES_MAX + 1).read_to_end(&mut file.bytes));
        match read {
            Ok(length) if length as u64 > BYTES_MAX => {
                Err(file.refuse("is larger than 4 GiB, which no machine's memory could hold"))
            }
            Ok(_) => Ok(file),
            Err(error) => Err(LoadError::Read { name: file.name, error }),
        }
    }

    fn word_at(&self, offset: usize) -> Option<u32> {
        let bytes = self.bytes.get(offset..)?.first_chunk()?;
        Some(u32::from_le_bytes(*bytes))
    }

    pub(crate) fn refuse(&self, message: impl Into<String>) -> LoadError {
        LoadError::Image { name: self.name.clone(), message: message.into() }
    }
}

/// What to run.
#[derive(Default)]
pub struct Request {
    /// The program or kernel.
    pub image: Option<File>,
    /// Initial RAM disk.
    pub initrd: Option<File>,
    /// Device tree.
    pub device_tree: Option<File>,
    /// Kernel command line; replaces the one in the device tree.
    pub append: Option<String>,
}

/// What goes where.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Loaded {
    /// Physical addresses and bytes.
    pub segments: Vec<(u32, Vec<u8>)>,
    /// First instruction; bit 0 set for Thumb.
    pub entry: u32,
    /// Address of the device tree.
    pub device_tree: Option<u32>,
    /// What SYS_GET_CMDLINE gives: [`PROGRAM_NAME`] and `--append`.
    pub command_line: String,
}

/// Lays an image out in the memory at these addresses.
///
/// # Errors
/// A file is not what it should be, or does not fit.
pub fn load(request: &Request, ram: Range<u32>, rules: &ImageRules) -> Result<Loaded, LoadError> {
    let Some(image) = &request.image else {
        return Err(LoadError::Image { name: "image".into(), message: "none given".into() });
    };
    let mut loaded = if image.bytes.starts_with(b"\x7fELF") {
        load_elf(image, &ram, rules)?
    } else {
        load_raw(image, request.device_tree.is_some(), &ram, rules)?
    };
    let unpacked_end =
        zimage_unpacked_bytes(image, rules).map(|bytes| u64::from(ram.start) + bytes);
    let image_end = loaded
        .segments
        .iter()
        .map(|(address, bytes)| u64::from(*address) + bytes.len() as u64)
        .chain(unpacked_end)
        .max()
        .unwrap_or(0);
    // An ELF program that leaves room before itself finds the device tree there, at the start of
    // memory (QEMU's manual of `virt`, hardware configuration information for bare-metal
    // programming); not where the vectors are.
    let image_start = (ram.start != 0 && image.bytes.starts_with(b"\x7fELF"))
        .then(|| loaded.segments.iter().map(|(address, _)| u64::from(*address)).min())
        .flatten();
    loaded.command_line = match &request.append {
        Some(append) => format!("{PROGRAM_NAME} {append}"),
        None => PROGRAM_NAME.into(),
    };
    if request.device_tree.is_none() {
        // An ELF program may ask for the string by SYS_GET_CMDLINE; other images only know /chosen.
        let lost = request.append.is_some() && !image.bytes.starts_with(b"\x7fELF");
        for (what, present) in [("--initrd", request.initrd.is_some()), ("--append", lost)] {
            if present {
                return Err(image
                    .refuse(format!("{what} is passed in the device tree: give one with --dtb")));
            }
        }
        return Ok(loaded);
    }
    // From the top down, far from where a kernel unpacks itself.
    let mut top = ram.end.min(ram.start.saturating_add(rules.kernel_reach_bytes));
    let mend = if top == ram.end {
        "the machine has too little memory (memory.size_bytes)"
    } else {
        "a kernel reads none that lies further up"
    };
    let mut place = |file: &File, bytes: Vec<u8>| -> Result<(u32, u32), LoadError> {
        let length = bytes.len() as u64;
        let page_of = |address: u64| address & !u64::from(PAGE_BYTES - 1);
        let fits =
            u64::from(top).checked_sub(length).map(page_of).filter(|&start| start >= image_end);
        let Some(start) = fits else {
            return Err(file.refuse(format!(
                "{length} bytes do not fit between the image's end{} at {image_end:#x} and \
                 {top:#x}: {mend}",
                if unpacked_end.is_some() { ", unpacked," } else { "" }
            )));
        };
        let start = start as u32;
        top = start;
        loaded.segments.push((start, bytes));
        Ok((start, start + length as u32))
    };
    let initrd = match &request.initrd {
        Some(file) => Some(place(file, file.bytes.clone())?),
        None => None,
    };
    if let Some(file) = &request.device_tree {
        let start = ram.start;
        let patched = device_tree::with_chosen(&file.bytes, request.append.as_deref(), initrd, ram)
            .map_err(|message| file.refuse(message))?;
        let is_below =
            image_start.is_some_and(|image| u64::from(start) + patched.len() as u64 <= image);
        loaded.device_tree = Some(if is_below {
            loaded.segments.push((start, patched));
            start
        } else {
            place(file, patched)?.0
        });
    }
    Ok(loaded)
}

fn load_raw(
    image: &File,
    for_linux: bool,
    ram: &Range<u32>,
    rules: &ImageRules,
) -> Result<Loaded, LoadError> {
    let bytes = &image.bytes;
    if bytes.len() < 4 {
        return Err(image.refuse("has less than one instruction"));
    }
    // Instructions that are always executed have a byte above those of text: the condition's.
    let is_text = |byte: &u8| byte.is_ascii_graphic() || byte.is_ascii_whitespace();
    if bytes.iter().take(64).all(is_text) {
        return Err(
            image.refuse("is text; a kernel is an ELF file, a zImage, an Image or bare code")
        );
    }
    if bytes.starts_with(&[0x1f, 0x8b]) {
        return Err(image.refuse("is compressed with gzip; unpack it first"));
    }
    if bytes.starts_with(b"\x89MMT") {
        return Err(image.refuse("is a recorded program, which `mmulab replay` takes"));
    }
    let is_zimage = is_zimage(image, rules);
    let linux = for_linux && !is_zimage;
    let address = ram.start + if linux { rules.kernel_address } else { rules.raw_address };
    if let (true, Some(start), Some(end)) = (is_zimage, image.word_at(0x28), image.word_at(0x2c)) {
        let wanted = u64::from(end.wrapping_sub(start));
        if wanted > bytes.len() as u64 {
            return Err(image
                .refuse(format!("is a zImage of {wanted} bytes, cut off after {}", bytes.len())));
        }
    }
    let length = bytes.len() as u64;
    if u64::from(address) + length > u64::from(ram.end) {
        return Err(image.refuse(format!(
            "{length} bytes at {address:#x} do not fit into {} bytes of memory",
            ram.len()
        )));
    }
    Ok(Loaded { segments: vec![(address, bytes.clone())], entry: address, ..Loaded::default() })
}

fn is_zimage(image: &File, rules: &ImageRules) -> bool {
    rules.zimage_magic.is_some_and(|(at, magic)| image.word_at(at) == Some(magic))
}

/// What a `zImage` needs from the start of memory on while it unpacks itself, where it says so: the
/// kernel, and behind it the packed one, which moves there first, or the kernel's zeros (Linux,
/// `arch/arm/boot/compressed`: the table of `vmlinux.lds.S`, and `restart` in `head.S`).
fn zimage_unpacked_bytes(image: &File, rules: &ImageRules) -> Option<u64> {
    const HAS_TABLE: u32 = 0x4545_4545;
    const SIZES: u32 = 0x5a53_4c4b;
    if !is_zimage(image, rules) || image.word_at(0x34)? != HAS_TABLE {
        return None;
    }
    let table = image.word_at(0x38)? as usize;
    let [words, name, size_at, zeros, address, heap] =
        [0, 4, 8, 12, 16, 20].map(|offset| image.word_at(table + offset).map(u64::from));
    if words? < 6 || name? != u64::from(SIZES) {
        return None;
    }
    let unpacked = u64::from(image.word_at(size_at? as usize)?);
    Some(address? + unpacked + zeros?.max(image.bytes.len() as u64 + heap?))
}

fn load_elf(image: &File, ram: &Range<u32>, rules: &ImageRules) -> Result<Loaded, LoadError> {
    let file = object::File::parse(&*image.bytes)
        .map_err(|error| image.refuse(format!("is a damaged ELF file: {error}")))?;
    if file.architecture() != rules.machine {
        return Err(image.refuse(format!(
            "is an ELF file for {:?}; a {} one is needed",
            file.architecture(),
            rules.machine_name
        )));
    }
    if !file.is_little_endian() {
        return Err(image.refuse("is big-endian; a little-endian one is needed"));
    }
    if file.kind() != object::ObjectKind::Executable {
        return Err(image.refuse("is not an executable: link it to fixed addresses"));
    }
    let object::File::Elf32(elf) = &file else {
        return Err(image.refuse("is not a 32-bit ELF file"));
    };
    let mut loaded = Loaded { entry: file.entry() as u32, ..Loaded::default() };
    for (index, segment) in elf.segments().enumerate() {
        let header = segment.elf_program_header();
        let little = object::Endianness::Little;
        let (address, size) = (header.p_paddr.get(little), header.p_memsz.get(little));
        if size == 0 {
            continue;
        }
        let bytes = segment.data().map_err(|_| {
            image.refuse(format!("segment {index} lies beyond the end of the file"))
        })?;
        if bytes.len() as u64 != u64::from(header.p_filesz.get(little)) {
            return Err(image.refuse(format!("segment {index} is cut off")));
        }
        if address < ram.start || u64::from(address) + u64::from(size) > u64::from(ram.end) {
            return Err(image.refuse(format!(
                "segment {index} of {size} bytes at {address:#x} does not fit into \
                 {} bytes of memory from {:#x} on; is it for another machine?",
                ram.len(),
                ram.start
            )));
        }
        let mut bytes = bytes.to_vec();
        // What the file does not give is zero.
        bytes.resize(size as usize, 0);
        loaded.segments.push((address, bytes));
    }
    if loaded.segments.is_empty() {
        return Err(image.refuse("has nothing to load"));
    }
    let entry = loaded.entry & !1;
    let virtual_entry = elf.segments().find_map(|segment| {
        let header = segment.elf_program_header();
        let little = object::Endianness::Little;
        let (at, size) = (header.p_vaddr.get(little), header.p_memsz.get(little));
        let offset = entry.checked_sub(at).filter(|&offset| offset < size)?;
        Some(header.p_paddr.get(little) + offset)
    });
    // An entry that lies in a segment by its virtual address starts at its physical one: the MMU is
    // off.
    match virtual_entry {
        Some(physical) => loaded.entry = physical | loaded.entry & 1,
        None => return Err(image.refuse(format!("its entry {entry:#x} is in no segment"))),
    }
    Ok(loaded)
}
