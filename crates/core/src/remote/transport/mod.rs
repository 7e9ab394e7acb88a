//! Requests over the wire: event loops that share nothing, each with its connections, whose bodies land where they
//! belong as they leave the socket.

mod flow;
mod landing;
mod lookup;
mod mailbox;
mod socket;
mod stream;
