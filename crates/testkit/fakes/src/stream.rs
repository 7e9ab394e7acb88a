//! Streams and events: a queue and a thread for each stream, and the order that the legacy default stream imposes.

use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use crate::cells;
use crate::context;
use crate::lock::lock;
use crate::status::{INVALID_CONTEXT, INVALID_HANDLE, OUT_OF_MEMORY, Refusal};
use crate::violations;

const FIRST_STREAM: usize = 0x57_0000;
const FIRST_EVENT: usize = 0xE7_0000;
const NON_BLOCKING: u32 = 1;

/// A point in a stream: all work up to a number.
type Mark = (Arc<Stream>, u64);

struct Work {
    /// Points that must be reached before it runs.
    after: Vec<Mark>,
    run: Box<dyn FnOnce() + Send>,
}

#[derive(Default)]
struct Queue {
    work: VecDeque<Work>,
    submitted: u64,
    done: u64,
    is_closing: bool,
}

struct Stream {
    device: i32,
    is_blocking: bool,
    queue: Mutex<Queue>,
    change: Condvar,
}

struct Event {
    device: i32,
    /// Empty until recorded.
    marks: Vec<Mark>,
}

#[derive(Default)]
struct Table {
    created: usize,
    streams: BTreeMap<usize, Arc<Stream>>,
    /// The legacy default stream of each device.
    legacy: BTreeMap<i32, Arc<Stream>>,
    events: BTreeMap<usize, Event>,
}

/// Held while work is submitted, so that the order between streams is that of the calls.
static TABLE: Mutex<Table> = Mutex::new(Table {
    created: 0,
    streams: BTreeMap::new(),
    legacy: BTreeMap::new(),
    events: BTreeMap::new(),
});

impl Stream {
    fn start(device: i32, is_blocking: bool) -> Result<Arc<Self>, Refusal> {
        let queue = Mutex::new(Queue::default());
        let stream = Arc::new(Self { device, is_blocking, queue, change: Condvar::new() });
        let worker = Arc::clone(&stream);
        let thread = std::thread::Builder::new().name("fake-stream".to_owned());
        thread.spawn(move || worker.serve()).map_err(|_| OUT_OF_MEMORY)?;
        Ok(stream)
    }

    fn serve(&self) {
        while let Some(work) = self.next() {
            work.after.iter().for_each(reach);
            // A panic must not stop the stream, or the program would hang instead of failing.
            if catch_unwind(AssertUnwindSafe(work.run)).is_err() {
                violations::violation("work on a stream panicked".to_owned());
            }
            lock(&self.queue).done += 1;
            self.change.notify_all();
        }
    }

    fn next(&self) -> Option<Work> {
        let mut queue = lock(&self.queue);
        loop {
            if let Some(work) = queue.work.pop_front() {
                return Some(work);
            }
            if queue.is_closing {
                return None;
            }
            queue = self.change.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn submit(&self, after: Vec<Mark>, run: Box<dyn FnOnce() + Send>) -> u64 {
        let mut queue = lock(&self.queue);
        queue.work.push_back(Work { after, run });
        queue.submitted += 1;
        self.change.notify_all();
        queue.submitted
    }

    fn close(&self) {
        lock(&self.queue).is_closing = true;
        self.change.notify_all();
    }
}

fn mark(stream: &Arc<Stream>) -> Mark {
    (Arc::clone(stream), lock(&stream.queue).submitted)
}

fn is_reached((stream, number): &Mark) -> bool {
    lock(&stream.queue).done >= *number
}

fn reach((stream, number): &Mark) {
    let queue = lock(&stream.queue);
    let waited = stream.change.wait_while(queue, |queue| queue.done < *number);
    drop(waited.unwrap_or_else(PoisonError::into_inner));
}

/// Refuses a handle of another device than the current one, where the settings ask for it.
fn check_context(device: i32) -> Result<(), Refusal> {
    if cells::STRICT_CONTEXT.get() == 0 || context::current()? == device {
        Ok(())
    } else {
        Err(INVALID_HANDLE)
    }
}

impl Table {
    fn handle(&mut self, first: usize) -> usize {
        self.created += 1;
        first + self.created * 0x10
    }

    fn legacy(&mut self, device: i32) -> Result<Arc<Stream>, Refusal> {
        if let Some(stream) = self.legacy.get(&device) {
            return Ok(Arc::clone(stream));
        }
        let stream = Stream::start(device, true)?;
        self.legacy.insert(device, Arc::clone(&stream));
        Ok(stream)
    }

    /// 0, 1 (legacy) and 2 (per thread) name default streams; all are the legacy one here.
    fn stream(&mut self, handle: usize) -> Result<Arc<Stream>, Refusal> {
        if handle <= 2 {
            return self.legacy(context::current().map_err(|_| INVALID_CONTEXT)?);
        }
        let stream = self.streams.get(&handle).ok_or(INVALID_HANDLE)?;
        check_context(stream.device)?;
        Ok(Arc::clone(stream))
    }

    /// The points that new work on `stream` comes after, its own earlier work apart: a blocking stream follows the
    /// legacy stream, and the legacy stream follows every blocking one of its device.
    fn before(&self, stream: &Arc<Stream>) -> Vec<Mark> {
        let Some(legacy) = self.legacy.get(&stream.device).filter(|_| stream.is_blocking) else {
            return Vec::new();
        };
        if !Arc::ptr_eq(legacy, stream) {
            return vec![mark(legacy)];
        }
        let follows = |other: &&Arc<Stream>| other.is_blocking && other.device == stream.device;
        self.streams.values().filter(follows).map(mark).collect()
    }

    fn event(&mut self, handle: usize) -> Result<&mut Event, Refusal> {
        let event = self.events.get_mut(&handle).ok_or(INVALID_HANDLE)?;
        check_context(event.device)?;
        Ok(event)
    }
}

/// Work that was submitted, to wait for.
pub(crate) struct Submitted(Mark);

impl Submitted {
    pub(crate) fn wait(&self) {
        reach(&self.0);
    }
}

/// Puts work at the end of a stream.
pub(crate) fn submit(handle: usize, run: impl FnOnce() + Send + 'static) -> Result<Submitted, Refusal> {
    submit_after(handle, Vec::new(), run)
}

fn submit_after(
    handle: usize,
    mut after: Vec<Mark>,
    run: impl FnOnce() + Send + 'static,
) -> Result<Submitted, Refusal> {
    let mut table = lock(&TABLE);
    let stream = table.stream(handle)?;
    after.extend(table.before(&stream));
    let number = stream.submit(after, Box::new(run));
    Ok(Submitted((stream, number)))
}

pub(crate) fn create(device: i32, flags: u32) -> Result<usize, Refusal> {
    let mut table = lock(&TABLE);
    let stream = Stream::start(device, flags & NON_BLOCKING == 0)?;
    let handle = table.handle(FIRST_STREAM);
    table.streams.insert(handle, stream);
    cells::LIVE_STREAMS.add(1);
    Ok(handle)
}

/// Ends a stream once its work is done; does not wait for that.
pub(crate) fn destroy(handle: usize) -> Result<(), Refusal> {
    let stream = lock(&TABLE).streams.remove(&handle).ok_or(INVALID_HANDLE)?;
    cells::LIVE_STREAMS.add(-1);
    stream.close();
    Ok(())
}

/// What all work on a stream so far amounts to.
fn marks(table: &mut Table, handle: usize) -> Result<Vec<Mark>, Refusal> {
    let stream = table.stream(handle)?;
    let mut marks = vec![mark(&stream)];
    // For a blocking stream these are the legacy stream's points, which its next work would wait for.
    marks.extend(table.before(&stream));
    Ok(marks)
}

/// The same for waiting from the host: on a created stream only its own work counts.
fn own_marks(handle: usize) -> Result<Vec<Mark>, Refusal> {
    let mut marks = marks(&mut lock(&TABLE), handle)?;
    if handle > 2 {
        marks.truncate(1);
    }
    Ok(marks)
}

pub(crate) fn is_done(handle: usize) -> Result<bool, Refusal> {
    Ok(own_marks(handle)?.iter().all(is_reached))
}

pub(crate) fn synchronize(handle: usize) -> Result<(), Refusal> {
    own_marks(handle)?.iter().for_each(reach);
    Ok(())
}

/// Waits for all work on all streams, or on those of one device.
pub(crate) fn synchronize_all(device: Option<i32>) {
    let table = lock(&TABLE);
    let streams = table.streams.values().chain(table.legacy.values());
    let marks: Vec<Mark> =
        streams.filter(|stream| device.is_none_or(|device| stream.device == device)).map(mark).collect();
    drop(table);
    marks.iter().for_each(reach);
}

pub(crate) fn create_event(device: i32) -> usize {
    let mut table = lock(&TABLE);
    let handle = table.handle(FIRST_EVENT);
    table.events.insert(handle, Event { device, marks: Vec::new() });
    cells::LIVE_EVENTS.add(1);
    handle
}

pub(crate) fn destroy_event(handle: usize) -> Result<(), Refusal> {
    lock(&TABLE).events.remove(&handle).ok_or(INVALID_HANDLE)?;
    cells::LIVE_EVENTS.add(-1);
    Ok(())
}

pub(crate) fn record(event: usize, stream: usize) -> Result<(), Refusal> {
    let mut table = lock(&TABLE);
    let marks = marks(&mut table, stream)?;
    let event = table.event(event)?;
    if marks.iter().any(|(stream, _)| stream.device != event.device) {
        return Err(INVALID_HANDLE);
    }
    event.marks = marks;
    Ok(())
}

fn event_marks(event: usize) -> Result<Vec<Mark>, Refusal> {
    lock(&TABLE).event(event).map(|event| event.marks.clone())
}

pub(crate) fn is_event_done(event: usize) -> Result<bool, Refusal> {
    Ok(event_marks(event)?.iter().all(is_reached))
}

pub(crate) fn synchronize_event(event: usize) -> Result<(), Refusal> {
    event_marks(event)?.iter().for_each(reach);
    Ok(())
}

/// Makes later work on a stream come after what an event recorded.
pub(crate) fn wait_event(stream: usize, event: usize) -> Result<(), Refusal> {
    // An event of another device may be waited for.
    let marks = lock(&TABLE).events.get(&event).ok_or(INVALID_HANDLE)?.marks.clone();
    submit_after(stream, marks, || ()).map(|_| ())
}
