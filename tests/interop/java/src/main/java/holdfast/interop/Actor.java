package holdfast.interop;

import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;

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
