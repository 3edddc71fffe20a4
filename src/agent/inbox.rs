//! What a front end asks while work goes on: messages queue, an interrupt cancels, the rest waits until it is safe.

use std::collections::VecDeque;
use std::pin::pin;

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::bus::Bus;
use super::protocol::{Command, Delivery, Queued, Update};

/// The agent's inbox.
#[derive(Debug)]
pub struct Inbox {
    receiver: mpsc::Receiver<Command>,
    bus: Bus,
    /// Messages that wait. A person types them, so that their number needs no bound.
    queue: VecDeque<Queued>,
    /// Commands that wait until no work goes on; bounded by the channel's pace and a person's patience.
    deferred: VecDeque<Command>,
    cancel: CancellationToken,
    closed: bool,
}

impl Inbox {
    /// An inbox for that channel.
    pub fn new(receiver: mpsc::Receiver<Command>, bus: Bus) -> Self {
        let (queue, deferred) = (VecDeque::new(), VecDeque::new());
        Inbox { receiver, bus, queue, deferred, cancel: CancellationToken::new(), closed: false }
    }

    /// The next command, while nothing goes on; `None`: the front end is gone.
    pub async fn next(&mut self) -> Option<Command> {
        match self.deferred.pop_front() {
            Some(command) => Some(command),
            None if self.closed => None,
            None => self.receiver.recv().await,
        }
    }

    /// A token for a new piece of work; an interrupt cancels it.
    pub fn begin(&mut self) -> CancellationToken {
        self.cancel = CancellationToken::new();
        if self.closed {
            self.cancel.cancel();
        }
        self.cancel.clone()
    }

    /// Drives `work` to its end, and takes commands meanwhile.
    pub async fn attend<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        loop {
            tokio::select! {
                biased;
                done = &mut work => return done,
                command = self.receiver.recv(), if !self.closed => match command {
                    Some(command) => self.take(command).await,
                    None => {
                        // Nobody listens any more: nothing may go on running.
                        self.closed = true;
                        self.cancel.cancel();
                    }
                },
            }
        }
    }

    /// The messages that go in before the next model call: those that steer, and, when the run would end, all.
    pub async fn due(&mut self, run_would_end: bool) -> Vec<Queued> {
        let due = |queued: &Queued| run_would_end || queued.delivery == Delivery::Steer;
        let (now, later): (VecDeque<_>, VecDeque<_>) = self.queue.drain(..).partition(due);
        self.queue = later;
        if !now.is_empty() {
            self.show_queue().await;
        }
        now.into()
    }

    /// Takes out the waiting commands that `wanted` tells.
    pub fn take_deferred(&mut self, wanted: impl Fn(&Command) -> bool) -> Vec<Command> {
        let (now, later): (VecDeque<_>, VecDeque<_>) = self.deferred.drain(..).partition(wanted);
        self.deferred = later;
        now.into()
    }

    /// Puts messages that were taken out back at the head of the queue.
    pub fn put_back(&mut self, messages: Vec<Queued>) {
        for queued in messages.into_iter().rev() {
            self.queue.push_front(queued);
        }
    }

    async fn take(&mut self, command: Command) {
        match command {
            Command::Prompt { message, delivery } => {
                self.queue.push_back(Queued { message, delivery });
                self.show_queue().await;
            }
            Command::Interrupt => {
                self.cancel.cancel();
                self.give_back().await;
            }
            Command::TakeBack => self.give_back().await,
            later => self.deferred.push_back(later),
        }
    }

    /// Gives the messages that wait back to the person.
    pub async fn give_back(&mut self) {
        if self.queue.is_empty() {
            return;
        }
        let messages = self.queue.drain(..).map(|queued| queued.message).collect();
        self.bus.send(Update::Returned(messages)).await;
        self.show_queue().await;
    }

    async fn show_queue(&self) {
        self.bus.send(Update::Queue(self.queue.iter().cloned().collect())).await;
    }
}
