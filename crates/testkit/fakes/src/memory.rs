//! What the driver knows about memory: allocations on the device, and page-locked memory of the host.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::cells;
use crate::lock::lock;
use crate::pages::{HostPages, Pages};
use crate::status::{ALREADY_REGISTERED, INVALID_VALUE, NOT_REGISTERED, OUT_OF_MEMORY, Refusal};
use crate::violations::violation;

/// Where an allocation's bytes are.
pub(crate) enum Kind {
    /// Device memory of a context.
    Device(Pages),
    /// Device memory that the CPU may touch.
    Managed(Pages),
    /// Device memory of a stream-ordered pool, which no context owns.
    Pool(Pages),
    /// Host memory from `cuMemHostAlloc`.
    Pinned { _pages: HostPages },
    /// Host memory of the program, made known by `cuMemHostRegister`.
    Registered,
}

/// A range of addresses that the driver knows.
pub(crate) struct Allocation {
    pub(crate) kind: Kind,
    pub(crate) device: i32,
    pub(crate) address: u64,
    pub(crate) len: usize,
    /// Copies submitted and not done.
    pub(crate) pending: AtomicUsize,
    /// Registrations with cuFile.
    pub(crate) registrations: AtomicUsize,
}

impl Allocation {
    fn new(kind: Kind, device: i32, address: u64, len: usize) -> Self {
        let (pending, registrations) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Self { kind, device, address, len, pending, registrations }
    }

    /// The bytes, where they are on the device.
    pub(crate) fn pages(&self) -> Option<&Pages> {
        match &self.kind {
            Kind::Device(pages) | Kind::Managed(pages) | Kind::Pool(pages) => Some(pages),
            Kind::Pinned { .. } | Kind::Registered => None,
        }
    }

    fn overlaps(&self, address: u64, len: usize) -> bool {
        address < self.address + self.len as u64 && self.address < address.saturating_add(len as u64)
    }

    /// True where all of `address..address + len` is inside.
    pub(crate) fn contains(&self, address: u64, len: usize) -> bool {
        let end = address.checked_add(len as u64);
        address >= self.address && end.is_some_and(|end| end <= self.address + self.len as u64)
    }
}

static ALLOCATIONS: Mutex<BTreeMap<u64, Arc<Allocation>>> = Mutex::new(BTreeMap::new());

/// The allocation that contains `address`.
pub(crate) fn find(address: u64) -> Option<Arc<Allocation>> {
    let allocations = lock(&ALLOCATIONS);
    let (_, candidate) = allocations.range(..=address).next_back()?;
    candidate.contains(address, 1).then(|| Arc::clone(candidate))
}

fn add(allocation: Allocation) -> u64 {
    let address = allocation.address;
    lock(&ALLOCATIONS).insert(address, Arc::new(allocation));
    address
}

/// What kind of device memory to allocate.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    Device,
    Managed,
    Pool,
}

/// Allocates `len` bytes on `device`; answers the address.
pub(crate) fn allocate(device: i32, len: usize, wanted: Wanted) -> Result<u64, Refusal> {
    if len == 0 {
        return Err(INVALID_VALUE);
    }
    let bytes = i64::try_from(len).map_err(|_| OUT_OF_MEMORY)?;
    if cells::LIVE_DEVICE_BYTES.get().saturating_add(bytes) > cells::DEVICE_MEMORY.get() {
        return Err(OUT_OF_MEMORY);
    }
    let pages = Pages::new(len, wanted == Wanted::Managed).map_err(|_| OUT_OF_MEMORY)?;
    let address = pages.address();
    let kind = match wanted {
        Wanted::Device => Kind::Device(pages),
        Wanted::Managed => Kind::Managed(pages),
        Wanted::Pool => Kind::Pool(pages),
    };
    cells::LIVE_DEVICE_BYTES.add(bytes);
    cells::LIVE_ALLOCATIONS.add(1);
    Ok(add(Allocation::new(kind, device, address, len)))
}

/// Takes the device allocation that begins at `address` out of what the driver knows. Its bytes go with the last user.
pub(crate) fn free(address: u64) -> Result<Arc<Allocation>, Refusal> {
    let allocation = remove(address, |kind| !matches!(kind, Kind::Pinned { .. } | Kind::Registered))?;
    cells::LIVE_ALLOCATIONS.add(-1);
    cells::LIVE_DEVICE_BYTES.add(-signed(allocation.len));
    if allocation.registrations.load(Ordering::SeqCst) > 0 {
        violation(format!("device memory at {address:#x} was freed while registered with cuFile"));
    }
    Ok(allocation)
}

fn remove(address: u64, is_wanted: impl Fn(&Kind) -> bool) -> Result<Arc<Allocation>, Refusal> {
    let mut allocations = lock(&ALLOCATIONS);
    match allocations.get(&address) {
        Some(found) if is_wanted(&found.kind) => allocations.remove(&address).ok_or(INVALID_VALUE),
        _ => Err(INVALID_VALUE),
    }
}

fn lock_pages(len: usize) -> Result<(), Refusal> {
    let limit = cells::HOST_LIMIT.get();
    let live = cells::LIVE_HOST_BYTES.add(signed(len));
    if limit > 0 && live > limit {
        cells::LIVE_HOST_BYTES.add(-signed(len));
        return Err(OUT_OF_MEMORY);
    }
    cells::PEAK_HOST_BYTES.raise(live);
    Ok(())
}

/// Allocates page-locked host memory; answers the address.
pub(crate) fn host_allocate(device: i32, len: usize) -> Result<u64, Refusal> {
    if len == 0 {
        return Err(INVALID_VALUE);
    }
    lock_pages(len)?;
    let Ok(pages) = HostPages::new(len) else {
        cells::LIVE_HOST_BYTES.add(-signed(len));
        return Err(OUT_OF_MEMORY);
    };
    cells::LIVE_HOST_ALLOCATIONS.add(1);
    let address = pages.address() as u64;
    Ok(add(Allocation::new(Kind::Pinned { _pages: pages }, device, address, len)))
}

/// Takes page-locked host memory out of what the driver knows; the caller waits for copies before it drops it.
pub(crate) fn host_free(address: u64) -> Result<Arc<Allocation>, Refusal> {
    let allocation = remove(address, |kind| matches!(kind, Kind::Pinned { .. }))?;
    cells::LIVE_HOST_ALLOCATIONS.add(-1);
    cells::LIVE_HOST_BYTES.add(-signed(allocation.len));
    check_idle(&allocation, "freed");
    Ok(allocation)
}

/// Page-locks memory of the program.
pub(crate) fn register(device: i32, address: u64, len: usize) -> Result<(), Refusal> {
    if address == 0 || len == 0 {
        return Err(INVALID_VALUE);
    }
    let mut allocations = lock(&ALLOCATIONS);
    if allocations.values().any(|known| known.overlaps(address, len)) {
        return Err(ALREADY_REGISTERED);
    }
    lock_pages(len)?;
    cells::LIVE_HOST_REGISTRATIONS.add(1);
    allocations.insert(address, Arc::new(Allocation::new(Kind::Registered, device, address, len)));
    Ok(())
}

/// Ends a registration; the caller waits for copies before it returns.
pub(crate) fn unregister(address: u64) -> Result<Arc<Allocation>, Refusal> {
    let unknown = if find(address).is_some() { INVALID_VALUE } else { NOT_REGISTERED };
    let allocation = remove(address, |kind| matches!(kind, Kind::Registered)).map_err(|_| unknown)?;
    cells::LIVE_HOST_REGISTRATIONS.add(-1);
    cells::LIVE_HOST_BYTES.add(-signed(allocation.len));
    check_idle(&allocation, "unregistered");
    Ok(allocation)
}

fn check_idle(allocation: &Allocation, what: &str) {
    if allocation.pending.load(Ordering::SeqCst) > 0 {
        violation(format!("host memory at {:#x} was {what} while a copy was pending", allocation.address));
    }
}

fn signed(len: usize) -> i64 {
    i64::try_from(len).unwrap_or(i64::MAX)
}
