//! The protocol under the model checker: every order in which threads can interleave, and every value
//! that the memory model lets them read.
//!
//!     cargo test -p hotloop-rollout --features loom --test model --release
#![cfg(feature = "loom")]

use hotloop_rollout::protocol::{
    Close,
    event::Event,
    handoff::Handoff,
    inbox::{Inbox, Received},
    pairing::pair,
    relay::Relay,
    rendezvous::{Errand, Rendezvous, Turn},
    sync::ArrayQueue,
};
use loom::cell::UnsafeCell;
use loom::future::block_on;
use loom::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use loom::thread;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

/// All executions with at most `preemptions` forced switches between threads (a bound under which
/// nearly all faults of real protocols show, by loom's own account).
fn model(preemptions: usize, check: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(check);
}

/// Memory that loom watches for unordered accesses.
struct Watched(UnsafeCell<u32>);

// SAFETY: loom reports every pair of accesses that is not ordered.
unsafe impl Sync for Watched {}

impl Watched {
    fn new() -> Self {
        Self(UnsafeCell::new(0))
    }
    fn add(&self) {
        // SAFETY: exclusive, or loom fails the test.
        self.0.with_mut(|value| unsafe { *value += 1 });
    }
    fn get(&self) -> u32 {
        // SAFETY: not written meanwhile, or loom fails the test.
        self.0.with(|value| unsafe { *value })
    }
}

/// What an actor's task does: adds to its column in every turn. Returns the turns it took.
async fn actor(seat: usize, meeting: Arc<Rendezvous>, columns: Arc<[Watched]>) -> u32 {
    let mut seen = None;
    let mut turns = 0;
    poll_fn(|cx| {
        seen.get_or_insert_with(|| meeting.enter(seat, cx));
        Poll::Ready(())
    })
    .await;
    let mut seen = seen.expect("entered just now");
    while let Some(turn) = poll_fn(|_| meeting.poll_turn(seat, &mut seen)).await {
        assert_eq!((turn.segment, turn.errand), (7, Errand::Step));
        columns[seat].add();
        turns += 1;
        meeting.arrive();
    }
    turns
}

fn turn(row: u32) -> Turn {
    Turn {
        errand: Errand::Step,
        segment: 7,
        row,
    }
}

fn columns() -> Arc<[Watched]> {
    Arc::new([Watched::new(), Watched::new()])
}

#[test]
fn actors_and_worker_take_turns_and_see_each_others_writes() {
    model(2, || {
        let signal = Arc::new(Event::new());
        let meeting = Arc::new(Rendezvous::new(2, 2, signal.clone()));
        let columns = columns();
        let actors = [0, 1].map(|seat| {
            let (meeting, columns) = (meeting.clone(), columns.clone());
            thread::spawn(move || block_on(actor(seat, meeting, columns)))
        });
        for round in 0..3 {
            signal.wait(|| meeting.all_arrived().then_some(()));
            for column in columns.iter() {
                assert_eq!(column.get(), 2 * round);
                column.add();
            }
            if round < 2 {
                assert!(meeting.announce(turn(round)));
            }
        }
        meeting.close();
        for actor in actors {
            assert_eq!(actor.join().expect("the actor ends"), 2);
        }
    });
}

#[test]
fn closing_lets_everybody_go_wherever_they_are() {
    model(2, || {
        let signal = Arc::new(Event::new());
        let meeting = Arc::new(Rendezvous::new(1, 1, signal.clone()));
        let columns = columns();
        let closed = Arc::new(AtomicBool::new(false));
        let actor = {
            let (meeting, columns) = (meeting.clone(), columns.clone());
            thread::spawn(move || block_on(actor(0, meeting, columns)))
        };
        let worker = {
            let (meeting, closed) = (meeting.clone(), closed.clone());
            thread::spawn(move || {
                for row in 0..2 {
                    let go_on = signal.wait(|| {
                        if closed.load(Ordering::Acquire) {
                            return Some(false);
                        }
                        meeting.all_arrived().then_some(true)
                    });
                    if !go_on {
                        return;
                    }
                    // The rows are the worker's, closing or not.
                    columns[0].add();
                    meeting.announce(turn(row));
                }
            })
        };
        closed.store(true, Ordering::Release);
        meeting.close();
        actor.join().expect("the actor ends");
        worker.join().expect("the worker ends");
    });
}

#[test]
fn an_item_pushed_is_an_item_popped() {
    model(3, || {
        let inbox = Arc::new(Inbox::new(2));
        let written = Arc::new(Watched::new());
        let other = {
            let inbox = inbox.clone();
            thread::spawn(move || inbox.push(1).expect("room for two"))
        };
        let producer = {
            let (inbox, written) = (inbox.clone(), written.clone());
            thread::spawn(move || {
                written.add();
                inbox.push(2).expect("room for two");
            })
        };
        let mut sum = 0;
        for _ in 0..2 {
            let Received::Item(item) = inbox.pop(None) else {
                panic!("nobody closes");
            };
            if item == 2 {
                assert_eq!(written.get(), 1);
            }
            sum += item;
        }
        assert_eq!(sum, 3);
        other.join().expect("the producer ends");
        producer.join().expect("the producer ends");
    });
}

#[test]
fn closing_an_inbox_lets_all_consumers_go() {
    model(3, || {
        let inbox = Arc::new(Inbox::<u32>::new(1));
        let consumers = [0, 1].map(|_| {
            let inbox = inbox.clone();
            thread::spawn(move || while inbox.pop(None) != Received::Closed {})
        });
        inbox.push(1).expect("room for one");
        inbox.close();
        for consumer in consumers {
            consumer.join().expect("the consumer ends");
        }
    });
}

#[test]
fn a_segment_goes_to_the_consumer_and_its_memory_comes_back() {
    model(3, || {
        let full = Arc::new(Inbox::new(1));
        let free = Arc::new(Inbox::new(1));
        free.push(Watched::new()).ok().expect("room for one");
        let worker = {
            let (full, free) = (full.clone(), free.clone());
            thread::spawn(move || {
                for _ in 0..2 {
                    let Received::Item(segment) = free.pop(None) else {
                        panic!("nobody closes");
                    };
                    segment.add();
                    full.push(segment).ok().expect("room for one");
                }
            })
        };
        for round in 1..3 {
            let Received::Item(segment) = full.pop(None) else {
                panic!("nobody closes");
            };
            assert_eq!(segment.get(), round);
            free.push(segment).ok().expect("room for one");
        }
        worker.join().expect("the worker ends");
    });
}

#[test]
fn a_thing_handed_to_a_task_arrives_early_or_late() {
    model(3, || {
        let place = Arc::new(Handoff::new());
        let task = {
            let place = place.clone();
            thread::spawn(move || {
                let take = || block_on(poll_fn(|cx| place.poll_take(cx)));
                let first = take();
                // Closing may come before the thing was taken.
                first.map(|item: Arc<Watched>| item.get())
            })
        };
        let item = Arc::new(Watched::new());
        item.add();
        assert!(place.give(item).is_none(), "the place is empty");
        place.close();
        assert!(matches!(
            task.join().expect("the task ends"),
            None | Some(1)
        ));
    });
}

#[test]
fn closing_lets_a_task_go_that_was_given_nothing() {
    model(3, || {
        let place = Arc::new(Handoff::<u32>::new());
        let relay = Arc::new(Relay::new(1));
        let task = {
            let place = place.clone();
            thread::spawn(move || block_on(poll_fn(|cx| place.poll_take(cx))))
        };
        let waker = {
            let relay = relay.clone();
            thread::spawn(move || block_on(poll_fn(|cx| relay.poll(cx, |_| ()))))
        };
        place.close();
        relay.close();
        assert_eq!(task.join().expect("the task ends"), None);
        waker.join().expect("the relay ends");
    });
}

#[test]
fn a_handed_thing_wakes_a_task_that_waits() {
    model(3, || {
        let place = Arc::new(Handoff::new());
        let taken = Arc::new(AtomicUsize::new(0));
        let task = {
            let (place, taken) = (place.clone(), taken.clone());
            thread::spawn(move || {
                block_on(async {
                    for item in 1..3 {
                        let found = poll_fn(|cx| place.poll_take(cx)).await;
                        assert_eq!(found, Some(item));
                        taken.store(item, Ordering::Release);
                    }
                })
            })
        };
        for item in 1..3 {
            assert_eq!(place.give(item), None, "the place is empty");
            while taken.load(Ordering::Acquire) < item {
                thread::yield_now();
            }
        }
        task.join().expect("the task ends");
    });
}

#[test]
fn a_relay_wakes_the_task_that_was_listed() {
    model(3, || {
        let place = Arc::new(Handoff::new());
        let relay = Arc::new(Relay::new(1));
        let task = {
            let place = place.clone();
            thread::spawn(move || block_on(poll_fn(|cx| place.poll_take(cx))))
        };
        let waker = {
            let (place, relay) = (place.clone(), relay.clone());
            thread::spawn(move || block_on(poll_fn(|cx| relay.poll(cx, |_| place.wake()))))
        };
        assert_eq!(place.leave(5), None, "the place is empty");
        relay.list(0).expect("room for one");
        relay.run();
        assert_eq!(task.join().expect("the task ends"), Some(5));
        relay.close();
        waker.join().expect("the relay ends");
    });
}

#[test]
fn a_relay_that_wakes_by_slices_wakes_all() {
    model(3, || {
        let relay = Arc::new(Relay::new(2));
        let woken = Arc::new(AtomicUsize::new(0));
        let waker = {
            let (relay, woken) = (relay.clone(), woken.clone());
            let wake = move |task| {
                woken.fetch_add(task, Ordering::AcqRel);
            };
            thread::spawn(move || block_on(poll_fn(|cx| relay.poll(cx, &wake))))
        };
        relay.list(1).expect("room for two");
        relay.list(2).expect("room for two");
        relay.run();
        while woken.load(Ordering::Acquire) < 3 {
            thread::yield_now();
        }
        relay.close();
        waker.join().expect("the relay ends");
    });
}

#[test]
fn a_block_and_its_ticket_find_each_other_once() {
    model(3, || {
        let waiting = Arc::new(ArrayQueue::new(1));
        let brought = Arc::new(ArrayQueue::new(2));
        let parker = {
            let (waiting, brought) = (waiting.clone(), brought.clone());
            thread::spawn(move || {
                waiting.push("block").expect("the place is empty");
                pair(&waiting, &brought).is_some() as u32
            })
        };
        brought.push("ticket").expect("room for two");
        let mine = pair(&waiting, &brought).is_some() as u32;
        assert_eq!(parker.join().expect("the thread ends") + mine, 1);
    });
}
