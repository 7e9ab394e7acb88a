//! Device slices of the crate `cudarc` as buffers (feature `cudarc`).
#![allow(unsafe_code)]

use cudarc::driver::{CudaSlice, DevicePtr};
use kvikio_sys::cuda::Stream;

use crate::memory::buf::{IoBuf, IoBufMut, Place};

// SAFETY: a `CudaSlice` owns its allocation, which neither moves nor changes its length; work that the program has put
// on the slice's own stream comes first, because `place` names that stream.
unsafe impl IoBuf for CudaSlice<u8> {
    fn address(&self) -> usize {
        let (address, _recorded) = self.device_ptr(self.stream());
        // Device addresses fit: the platforms CUDA runs on have 64-bit pointers.
        address as usize
    }

    fn byte_len(&self) -> usize {
        self.len()
    }

    fn place(&self) -> Place {
        Place::Ask { after: Stream(self.stream().cu_stream() as usize) }
    }
}

// SAFETY: the slice has one owner, the transfer. What the program has put on the slice's own stream comes first; a kernel
// that still reads the slice on another stream is the program's to wait for, as with any write to it.
unsafe impl IoBufMut for CudaSlice<u8> {}
