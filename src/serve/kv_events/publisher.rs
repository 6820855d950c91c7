//! The sockets of a replica: one that publishes, and one that sends again what somebody missed.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use axum::body::Bytes;
use tokio::sync::mpsc;
use zeromq::{PubSocket, RouterSocket, Socket, SocketRecv, SocketSend, ZmqMessage};

use super::{KvEvents, KvEventsError};

/// The number behind the last batch that is sent again.
const END: [u8; 8] = [0xff; 8];

/// The way to the sockets of a replica.
#[derive(Debug)]
pub(in crate::serve) struct Publisher {
    queue: mpsc::Sender<(u64, Bytes)>,
    number: u64,
}

impl Publisher {
    /// Publishes a batch; where too many wait, it is missing, and its number with it.
    pub(super) fn publish(&mut self, batch: Vec<u8>) {
        // Who listens sees a gap and asks again, as of an engine.
        drop(self.queue.try_send((self.number, batch.into())));
        self.number += 1;
    }
}

/// Batches that can be sent again, the oldest first.
type Buffer = Arc<Mutex<VecDeque<(u64, Bytes)>>>;

/// Opens the sockets of a replica; the address that it publishes at.
///
/// # Errors
/// When an address is not to be had.
pub(in crate::serve) async fn bind(
    config: &KvEvents,
    at: SocketAddr,
    again: Option<SocketAddr>,
) -> Result<(Publisher, SocketAddr), KvEventsError> {
    let listen = |at: SocketAddr| {
        move |error: zeromq::ZmqError| KvEventsError::Listen(at, error.to_string())
    };
    let mut socket = PubSocket::new();
    let bound = socket.bind(&format!("tcp://{at}")).await.map_err(listen(at))?;
    let port = match bound {
        zeromq::Endpoint::Tcp(_, port) => port,
        _ => at.port(),
    };
    let buffer = Buffer::default();
    if let Some(again) = again {
        let mut router = RouterSocket::new();
        router.bind(&format!("tcp://{again}")).await.map_err(listen(again))?;
        tokio::spawn(send_again(router, buffer.clone(), Bytes::from(config.topic.clone())));
    }
    let (queue, mut batches) = mpsc::channel::<(u64, Bytes)>(config.max_queue_size);
    let topic = Bytes::from(config.topic.clone());
    let kept = if again.is_some() { config.buffer_steps } else { 0 };
    tokio::spawn(async move {
        while let Some((number, batch)) = batches.recv().await {
            let frames = [topic.clone(), number_bytes(number), batch.clone()];
            if let Ok(message) = ZmqMessage::try_from(frames.to_vec()) {
                // A listener that is gone takes nothing.
                drop(socket.send(message).await);
            }
            if kept > 0 {
                let mut buffer = buffer.lock().unwrap_or_else(PoisonError::into_inner);
                if buffer.len() == kept {
                    buffer.pop_front();
                }
                buffer.push_back((number, batch));
            }
        }
    });
    Ok((Publisher { queue, number: 0 }, SocketAddr::new(at.ip(), port)))
}

fn number_bytes(number: u64) -> Bytes {
    Bytes::copy_from_slice(&number.to_be_bytes())
}

/// Answers who asks for all batches from a number on.
async fn send_again(mut socket: RouterSocket, buffer: Buffer, topic: Bytes) {
    while let Ok(asked) = socket.recv().await {
        let frames = asked.into_vec();
        let [asker, _, from] = frames.as_slice() else { continue };
        let Ok(from) = <[u8; 8]>::try_from(from.as_ref()).map(u64::from_be_bytes) else { continue };
        let found: Vec<_> = {
            let buffer = buffer.lock().unwrap_or_else(PoisonError::into_inner);
            buffer.iter().filter(|(number, _)| *number >= from).cloned().collect()
        };
        let again = found
            .into_iter()
            .map(|(number, batch)| (topic.clone(), number_bytes(number), batch))
            .chain([(Bytes::new(), Bytes::from_static(&END), Bytes::new())]);
        for (topic, number, batch) in again {
            let frames = vec![asker.clone(), Bytes::new(), topic, number, batch];
            let Ok(message) = ZmqMessage::try_from(frames) else { continue };
            if socket.send(message).await.is_err() {
                break;
            }
        }
    }
}
