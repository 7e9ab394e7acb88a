//! The ways of reading that are compared.

use std::io::Read;

use kvikio::{DeviceBuf, Engine, File};

use crate::demo::sample::Sample;
use crate::output::{Failure, failed};

/// Where the bytes shall be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Memory {
    Host,
    /// The GPU of that number.
    Device(i32),
}

/// One way of reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Contender {
    /// The engine, into the memory that was chosen.
    Engine(Memory),
    /// A plain read into host memory, then one synchronous copy to the GPU of that number.
    ReadAndCopy(i32),
    /// A plain read into host memory.
    Read,
}

impl Contender {
    /// What is compared, in the order of the table.
    pub fn all(memory: Memory) -> Vec<Self> {
        match memory {
            Memory::Host => vec![Self::Engine(memory), Self::Read],
            Memory::Device(device) => vec![Self::Engine(memory), Self::ReadAndCopy(device), Self::Read],
        }
    }

    /// The plain way into the chosen memory, by which the ratios are.
    pub fn is_baseline(self, memory: Memory) -> bool {
        match memory {
            Memory::Host => self == Self::Read,
            Memory::Device(_) => matches!(self, Self::ReadAndCopy(_)),
        }
    }

    pub fn name(self) -> String {
        match self {
            Self::Engine(Memory::Host) => "kvikio, into host memory".to_owned(),
            Self::Engine(Memory::Device(device)) => format!("kvikio, into GPU {device}"),
            Self::ReadAndCopy(device) => format!("plain read, then cuMemcpy to GPU {device}"),
            Self::Read => "plain read, into host memory".to_owned(),
        }
    }

    /// Memory for `len` bytes that holds nothing of the file, ready before the clock starts.
    pub fn prepare(self, engine: &Engine, sample: &Sample, len: usize) -> Result<Lane, Failure> {
        // Written to, so that no page of it is touched for the first time while the clock runs.
        let blank = || vec![0x5a_u8; len];
        // Device memory comes cleared.
        let on = |device| engine.device_buf(device, len);
        Ok(match self {
            Self::Engine(Memory::Host) => Lane::EngineHost(blank()),
            Self::Engine(Memory::Device(device)) => Lane::EngineDevice(on(device)?),
            Self::ReadAndCopy(device) => Lane::Plain(sample.reader()?, blank(), Some(on(device)?)),
            Self::Read => Lane::Plain(sample.reader()?, blank(), None),
        })
    }
}

/// A way of reading with its memory.
#[derive(Debug)]
pub enum Lane {
    EngineHost(Vec<u8>),
    EngineDevice(DeviceBuf),
    Plain(std::fs::File, Vec<u8>, Option<DeviceBuf>),
}

impl Lane {
    /// Fills the memory from `offset` of the file and waits.
    pub fn read(&mut self, file: &File, offset: u64) -> Result<(), Failure> {
        match self {
            Self::EngineHost(bytes) => file.read_exact_into(bytes, offset)?,
            Self::EngineDevice(buf) => {
                file.read_blocking(buf, offset, true)?;
            }
            Self::Plain(reader, bytes, device) => {
                std::io::Seek::seek(reader, std::io::SeekFrom::Start(offset))
                    .and_then(|_offset| reader.read_exact(bytes))
                    .map_err(|error| failed("read", std::path::Path::new("the file"), &error))?;
                if let Some(device) = device {
                    device.fill_from(bytes)?;
                }
            }
        }
        Ok(())
    }

    /// What arrived in the memory that was to be filled.
    pub fn into_bytes(self) -> Result<Vec<u8>, Failure> {
        Ok(match self {
            Self::EngineHost(bytes) | Self::Plain(_, bytes, None) => bytes,
            Self::EngineDevice(device) | Self::Plain(_, _, Some(device)) => device.to_vec()?,
        })
    }
}
