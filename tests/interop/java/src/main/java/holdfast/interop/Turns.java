package holdfast.interop;

import java.util.List;
import java.util.concurrent.TimeUnit;
import org.redisson.api.RLock;

/** A thread that takes a lock over and over, and pauses never. */
final class Turns {

    private Turns() { }

    /**
     * Takes turns for some time and returns how often the thread had the lock after the warm-up, and the longest time
     * in microseconds that it waited for it.
     *
     * @param patience how long it waits for a turn, 0: not at all, -1: however long it takes
     * @param work     how long it has the lock each time
     */
    static List<Long> take(RLock lock, long patience, long warmUp, long millis, long work) throws InterruptedException {
        long begin = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(warmUp);
        long end = begin + TimeUnit.MILLISECONDS.toNanos(millis);
        long had = 0;
        long longest = 0;
        long asked = System.nanoTime();
        while (asked < end) {
            boolean granted = true;
            if (patience < 0) {
                lock.lock();
            } else {
                granted = lock.tryLock(patience, TimeUnit.MILLISECONDS);
            }
            long now = System.nanoTime();
            if (granted) {
                if (now >= begin && now < end) {
                    had++;
                    longest = Math.max(longest, now - asked);
                }
                try {
                    if (work > 0) {
                        Thread.sleep(work);
                    }
                } finally {
                    lock.unlock();
                }
                asked = System.nanoTime();
            } else if (now >= end) {
                break;
            }
        }
        return List.of(had, TimeUnit.NANOSECONDS.toMicros(longest));
    }
}
