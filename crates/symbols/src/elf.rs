//! What an ELF file says of its functions and lines.

use std::borrow::Cow;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use addr2line::demangle_auto;
use gimli::{EndianArcSlice, RunTimeEndian};
use object::{Object, ObjectSection, ObjectSegment, ObjectSymbol, SegmentFlags, SymbolKind};

/// Where Debian and others keep what they strip from programs, by build id.
const DEBUG_FILES: &str = "/usr/lib/debug/.build-id";
/// Pages are mapped whole.
const PAGE_BYTES: u64 = 4096;

pub(crate) struct Elf {
    /// By address.
    functions: Vec<Function>,
    lines: Option<addr2line::Context<EndianArcSlice<RunTimeEndian>>>,
    /// First address and length of each segment that holds code, in whole pages.
    code: Vec<(u64, u64)>,
    /// The separate debug file, where there is one.
    pub(crate) debug_file: Option<PathBuf>,
}

struct Function {
    address: u64,
    /// To the end of its section where the symbol has no size.
    size_bytes: u64,
    has_size: bool,
    /// As encoded for the linker.
    name: String,
}

impl Elf {
    /// `None` if the file cannot be read, is no ELF file, or has neither symbols nor line tables.
    pub(crate) fn read(path: &Path) -> Option<Self> {
        let bytes = fs::read(path).ok()?;
        let file = object::File::parse(&*bytes).ok()?;
        let debug_path = debug_file(&file).filter(|path| path.is_file());
        let debug_bytes = debug_path.as_ref().and_then(|path| fs::read(path).ok());
        let debug_file = debug_bytes.as_ref().and_then(|bytes| object::File::parse(&**bytes).ok());
        let with_lines = debug_file.as_ref().unwrap_or(&file);
        let mut functions: Vec<Function> = functions_of(&file).collect();
        functions.extend(debug_file.iter().flat_map(functions_of));
        functions.sort_by(|one, other| {
            // Of several names for one address the shortest is mostly the one that people know.
            let key = |it: &Function| (it.address, !it.has_size, it.name.len());
            key(one).cmp(&key(other)).then_with(|| one.name.cmp(&other.name))
        });
        let code = file.segments().filter_map(|segment| {
            let SegmentFlags::Elf { p_flags } = segment.flags() else { return None };
            let first = segment.address() & !(PAGE_BYTES - 1);
            let end = (segment.address() + segment.size()).next_multiple_of(PAGE_BYTES);
            (p_flags & object::elf::PF_X != 0).then_some((first, end - first))
        });
        let elf = Self {
            functions,
            lines: lines(with_lines),
            code: code.collect(),
            debug_file: debug_path,
        };
        (!elf.functions.is_empty() || elf.lines.is_some()).then_some(elf)
    }

    /// What is added to the file's addresses where its code is mapped so.
    pub(crate) fn bias(&self, address: u64, length_bytes: u64) -> u64 {
        let fits = |(_, length): &&(u64, u64)| *length == length_bytes;
        let segment = self.code.iter().find(fits).or(self.code.first());
        segment.map_or(0, |(first, _)| address.wrapping_sub(*first))
    }

    pub(crate) fn functions_named(&self, name: &str) -> impl Iterator<Item = u64> {
        let is_meant = move |function: &&Function| {
            if function.name == name {
                return true;
            }
            let readable = demangle(&function.name);
            readable == name || readable.split('(').next() == Some(name)
        };
        self.functions.iter().filter(is_meant).map(|function| function.address)
    }

    /// The name and the first address of the function at an address of the file.
    pub(crate) fn function_at(&self, address: u64) -> Option<(String, u64)> {
        let after = self.functions.partition_point(|function| function.address <= address);
        let start = self.functions[..after].last()?.address;
        let first = self.functions[..after].partition_point(|function| function.address < start);
        let covers = |function: &&Function| address - function.address < function.size_bytes;
        let function = self.functions[first..after].iter().find(covers)?;
        Some((demangle(&function.name).into_owned(), function.address))
    }

    /// The source file and line at an address of the file.
    pub(crate) fn line_at(&self, address: u64) -> Option<(String, u32)> {
        let location = self.lines.as_ref()?.find_location(address).ok()??;
        Some((location.file?.to_owned(), location.line.unwrap_or(0)))
    }
}

/// The name as the source has it. Only what begins as an encoded name is one: `f` alone would be
/// the type `float`.
fn demangle(name: &str) -> Cow<'_, str> {
    match name.starts_with("_Z") || name.starts_with("_R") {
        true => demangle_auto(Cow::Borrowed(name), None),
        false => Cow::Borrowed(name),
    }
}

fn functions_of<'a>(file: &'a object::File<'a>) -> impl Iterator<Item = Function> + 'a {
    file.symbols().chain(file.dynamic_symbols()).filter_map(|symbol| {
        let is_code = symbol.kind() == SymbolKind::Text && symbol.is_definition();
        let name = symbol.name().ok().filter(|name| is_code && !name.is_empty())?;
        // Of `name@@VERSION` what stands in the source.
        let name = name.split('@').next().unwrap_or(name).to_owned();
        let address = symbol.address();
        let section_end = || {
            let section = file.section_by_index(symbol.section_index()?).ok()?;
            Some(section.address() + section.size())
        };
        let has_size = symbol.size() > 0;
        let size_bytes = match symbol.size() {
            0 => section_end().unwrap_or(address).saturating_sub(address),
            size => size,
        };
        Some(Function { address, size_bytes, has_size, name })
    })
}

/// The file with what was stripped from this one, if it is installed.
fn debug_file(file: &object::File<'_>) -> Option<PathBuf> {
    let id = file.build_id().ok()??;
    let (first, rest) = id.split_first()?;
    let rest: String = rest.iter().map(|byte| format!("{byte:02x}")).collect();
    Some(Path::new(DEBUG_FILES).join(format!("{first:02x}")).join(format!("{rest}.debug")))
}

fn lines(file: &object::File<'_>) -> Option<addr2line::Context<EndianArcSlice<RunTimeEndian>>> {
    file.section_by_name(".debug_line").or_else(|| file.section_by_name(".zdebug_line"))?;
    let endian = if file.is_little_endian() { RunTimeEndian::Little } else { RunTimeEndian::Big };
    let load = |section: gimli::SectionId| -> Result<_, gimli::Error> {
        let data = file
            .section_by_name(section.name())
            .and_then(|section| section.uncompressed_data().ok())
            .unwrap_or_default();
        Ok(EndianArcSlice::new(Arc::from(&*data), endian))
    };
    gimli::Dwarf::load(load).and_then(addr2line::Context::from_dwarf).ok()
}
