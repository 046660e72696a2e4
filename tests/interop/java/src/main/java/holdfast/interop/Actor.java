package holdfast.interop;

import java.util.Set;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.Semaphore;
import java.util.stream.Stream;
import org.redisson.misc.ReclosableLatch;

/** A named thread that works off its tasks in order. To Redisson, an actor is a lock owner. */
final class Actor extends Thread {

    /** On what a thread sleeps in Redisson until somebody releases or counts down, and not for Redis to answer. */
    private static final Set<String> BEDS = Set.of(Semaphore.class.getName(), ReclosableLatch.class.getName());

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

    /** Whether it sleeps until a message wakes it. */
    boolean asleep() {
        // The stack first: who has come to its bed can but fall asleep there, as long as nobody releases.
        boolean waits = Stream.of(getStackTrace()).anyMatch(f -> BEDS.contains(f.getClassName()));
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
