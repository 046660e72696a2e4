package holdfast.interop;

import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.Semaphore;
import java.util.stream.Stream;

/** A named thread that works off its tasks in order. To Redisson, an actor is a lock owner. */
final class Actor extends Thread {

    private final BlockingQueue<Runnable> tasks = new LinkedBlockingQueue<>();

    private Actor(String name) {
        super(name);
        setDaemon(true);
    }

    static Actor start(String name) {
        Actor actor = new Actor(name);
        actor.start();
        return actor;
    }

    void execute(Runnable task) {
        tasks.add(task);
    }

    /** Whether it sleeps until a lock is released, which in Redisson is on a semaphore, and not for Redis to answer. */
    boolean asleep() {
        // The stack first: who has come to the semaphore can but fall asleep there, as long as nobody releases.
        boolean waits = Stream.of(getStackTrace()).anyMatch(f -> f.getClassName().equals(Semaphore.class.getName()));
        return waits && (getState() == State.WAITING || getState() == State.TIMED_WAITING);
    }

    @Override
    public void run() {
        while (true) {
            try {
                tasks.take().run();
            } catch (InterruptedException e) {
                // The interrupt was meant for a call that had just ended.
            }
        }
    }
}
