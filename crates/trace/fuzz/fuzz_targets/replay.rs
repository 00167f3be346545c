//! Reads a file to its end and checks what every source promises.

use std::io::Write;
use std::os::fd::{AsRawFd, FromRawFd};

use mmulab_trace::{Batch, OpenOptions, open_with};

pub fn read(content: &[u8]) {
    // In memory: the readers want a path.
    // SAFETY: a plain system call; its result is checked.
    let mut file = unsafe {
        let descriptor = memfd_create(c"fuzz".as_ptr(), 0);
        assert!(descriptor >= 0);
        std::fs::File::from_raw_fd(descriptor)
    };
    file.write_all(content).expect("memory");
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    for partial in [false, true] {
        let Ok(mut source) = open_with(path.as_ref(), &OpenOptions { partial, ..OpenOptions::default() }) else { continue };
        let mut batch = Batch::default();
        // An endless source would be an error too: a block takes at least a bit of the file.
        let mut blocks = 0usize;
        while let Ok(true) = source.next_batch(&mut batch) {
            blocks += batch.blocks.len();
            let table = source.table().blocks();
            let accesses: usize =
                batch.blocks.iter().map(|&block| table[block as usize].accesses.len()).sum();
            assert_eq!(accesses, batch.addresses.len());
            assert!(batch.crossings.is_sorted_by(|a, b| a.access < b.access));
            let last = batch.crossings.last();
            assert!(last.is_none_or(|last| (last.access as usize) < batch.addresses.len()));
            assert!(batch.events.iter().all(|(at, _)| *at <= batch.blocks.len()));
            for &block in &batch.blocks {
                let block = &table[block as usize];
                let instructions = block.instruction_sizes_bytes.len();
                assert!(block.accesses.iter().all(|a| usize::from(a.instruction) < instructions));
            }
            if blocks > 100_000_000 {
                break;
            }
        }
    }
}

unsafe extern "C" {
    fn memfd_create(name: *const std::ffi::c_char, flags: u32) -> i32;
}
