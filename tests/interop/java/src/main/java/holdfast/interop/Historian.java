package holdfast.interop;

import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.function.Supplier;
import java.util.stream.Stream;
import org.redisson.Redisson;
import org.redisson.api.RCountDownLatch;
import org.redisson.api.RLock;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RReadWriteLock;
import org.redisson.api.RSemaphore;
import org.redisson.api.RedissonClient;
import org.redisson.client.RedisException;
import org.redisson.client.RedisTimeoutException;
import org.redisson.config.Config;

/**
 * A process of a history: its threads take locks and let go of them, and tell on stdout of each call when it began and
 * how it ended, in the words of tests/history, where they are explained. Every call has an outcome, or the process ends
 * with an error.
 */
final class Historian extends Thread {

    /** Far longer than a machine is busy or a process is stopped. */
    private static final String TIMEOUT = String.valueOf(TimeUnit.MINUTES.toMillis(1));

    /** How long to try to connect. */
    private static final long CONNECTING = TimeUnit.SECONDS.toNanos(30);

    /** The server's clock shows whole milliseconds. */
    private static final long SLACK = TimeUnit.MILLISECONDS.toNanos(3);

    /** The longest, in milliseconds, from one grant to the next: the others lose replies, and are slower. */
    private static final int PAUSE = 50;

    /** The most that are acquired at a time. */
    private static final int PERMITS = 4;

    private static final FileOutputStream OUT = new FileOutputStream(FileDescriptor.out);

    /** What all threads know. */
    private record Plan(RedissonClient redisson, String kind, int deeds, int locks, int patience, int lease,
            boolean tolerant) { }

    private final Plan plan;
    private final int client;
    private int serial;

    // Of the present grant:
    private String lock;
    private String tag;
    private List<RLock> halves; // one, unless it is a read-write lock
    private final int[] had = new int[2]; // how often the thread has taken each half, as far as it knows
    private long until; // the server cannot have ended it by then

    private Historian(Plan plan, int client) {
        this.plan = plan;
        this.client = client;
    }

    /**
     * Counts down the latch "begin" when it is ready, and begins when that opens. Arguments: address, kind, the number
     * of the first client, clients, deeds of each, locks, the longest wait and the lease in milliseconds. Several
     * addresses, separated by commas, are those of a cluster; with a name and @ before them, of Sentinels. One more
     * argument makes it tolerant: a call that fails, or takes longer than the lease, has an unknown outcome, and does
     * not end the process.
     */
    public static void main(String[] args) throws InterruptedException {
        setDefaultUncaughtExceptionHandler((thread, e) -> {
            e.printStackTrace();
            Runtime.getRuntime().halt(1);
        });
        int[] numbers = Stream.of(args).skip(2).limit(6).mapToInt(Integer::parseInt).toArray();
        int first = numbers[0];
        Historian[] all = new Historian[numbers[1]];
        String[] set = args[0].split("@");
        String[] nodes = Stream.of(set[set.length - 1].split(",")).map(a -> "redis://" + a).toArray(String[]::new);
        Map<String, String> settings = new HashMap<>(
                Map.of("timeout", args.length > 8 ? args[7] : TIMEOUT, "watchdog", args[7], "fairwait", args[7]));
        if (set.length > 1) {
            settings.put("masters", set[0]);
        }
        RedissonClient redisson = connect(Clients.config(nodes, nodes.length > 1, settings));
        Plan plan = new Plan(redisson, args[1], numbers[2], numbers[3], numbers[4], numbers[5],
                args.length > 8);
        RCountDownLatch begin = redisson.getCountDownLatch("begin");
        begin.countDown();
        begin.await(); // for the other JVMs, since each takes its time
        for (int i = 0; i < all.length; i++) {
            all[i] = new Historian(plan, first + i);
            all[i].start();
        }
        for (Historian one : all) {
            one.join();
        }
        Runtime.getRuntime().halt(0);
    }

    /** Connects, which takes a cold JVM on a busy machine longer than a command may take. */
    private static RedissonClient connect(Config config) {
        for (long last = System.nanoTime() + CONNECTING;;) {
            try {
                return Redisson.create(config);
            } catch (RedisException e) {
                if (System.nanoTime() - last > 0) {
                    throw e;
                }
            }
        }
    }

    @Override
    public void run() {
        while (serial < plan.deeds) {
            LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(random(PAUSE)));
            if (plan.kind.equals("semaphore")) {
                permits();
            } else if (plan.kind.equals("permits")) {
                leased();
            } else {
                once();
            }
        }
    }

    /** Takes a lock, does some things under it if it was granted, and lets go of it. */
    private void once() {
        lock = "lock " + random(plan.locks);
        tag = client + "." + serial;
        halves = halves(lock);
        long began = System.nanoTime();
        if (!take("take", random(halves.size()), random(3) == 0 ? 0 : random(plan.patience + 1))) {
            return;
        }
        // Whatever prolongs the lease by how much, it never ends earlier than what the first call has asked for.
        until = began + TimeUnit.MILLISECONDS.toNanos(plan.lease) - SLACK;
        for (int i = random(6); i > 0 && had[0] + had[1] > 0; i--) {
            int half = random(halves.size());
            switch (random(4)) {
                case 0 -> take("re-enter", half, 0);
                case 1 -> tell("count", half, true, () -> String.valueOf(halves.get(half).getHoldCount()));
                case 2 -> tell("locked", half, false, () -> String.valueOf(halves.get(half).isLocked()));
                default -> release(half);
            }
        }
        while (had[0] + had[1] > 0) {
            release(random(halves.size()));
        }
    }

    /** Takes permits and gives them back. */
    private void permits() {
        lock = "lock " + random(plan.locks);
        halves = List.of();
        RSemaphore semaphore = plan.redisson.getSemaphore(lock);
        int n = 1 + random(PERMITS);
        int wait = random(3) == 0 ? 0 : random(plan.patience + 1);
        boolean[] took = new boolean[1];
        tell("acquire " + n, 0, false, () -> {
            took[0] = tryAcquire(semaphore, n, wait);
            return took[0] ? "done" : "promised"; // to somebody who waits, or taken
        });
        tell("free", 0, false, () -> String.valueOf(semaphore.availablePermits()));
        if (took[0]) {
            tell("give " + n, 0, false, () -> {
                semaphore.release(n);
                return "done";
            });
        }
    }

    /** Takes a permit that has a lease, keeps it for a moment, and gives it back. */
    private void leased() {
        lock = "lock " + random(plan.locks);
        halves = List.of();
        RPermitExpirableSemaphore semaphore = plan.redisson.getPermitExpirableSemaphore(lock);
        int wait = random(3) == 0 ? 0 : random(plan.patience + 1);
        String[] id = new String[1];
        tell("acquire 1", 0, false, () -> {
            try {
                id[0] = semaphore.tryAcquire(wait, plan.lease, TimeUnit.MILLISECONDS);
            } catch (InterruptedException e) { // nobody does that
                throw new IllegalStateException(e);
            }
            return id[0] == null ? "promised" : "done";
        });
        if (id[0] == null) {
            return;
        }
        LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(random(PAUSE)));
        tell("give 1", 0, false, () -> semaphore.tryRelease(id[0]) ? "done" : "lost");
    }

    private static boolean tryAcquire(RSemaphore semaphore, int n, int wait) {
        try {
            return wait > 0 ? semaphore.tryAcquire(n, Duration.ofMillis(wait)) : semaphore.tryAcquire(n);
        } catch (RedisTimeoutException e) {
            if (e.getMessage().contains("subscription lock")) { // as above
                return false;
            }
            throw e;
        } catch (InterruptedException e) { // nobody does that
            throw new IllegalStateException(e);
        }
    }

    private List<RLock> halves(String name) {
        switch (plan.kind) {
            case "rlock":
                return List.of(plan.redisson.getLock(name));
            case "fairlock":
                return List.of(plan.redisson.getFairLock(name));
            case "rwlock write":
                return List.of(plan.redisson.getReadWriteLock(name).writeLock());
            default:
                RReadWriteLock both = plan.redisson.getReadWriteLock(name);
                return List.of(both.readLock(), both.writeLock());
        }
    }

    private boolean take(String kind, int half, int wait) {
        boolean[] took = new boolean[1];
        tell(kind, half, true, () -> {
            took[0] = tryLock(halves.get(half), wait);
            if (took[0]) {
                return "done";
            }
            return wait > 0 || plan.kind.equals("fairlock") ? "promised" : "busy"; // to somebody who waits, or held
        });
        had[half] += took[0] ? 1 : 0;
        return took[0];
    }

    private static boolean tryLock(RLock lock, int wait) {
        try {
            return wait > 0 ? lock.tryLock(wait, TimeUnit.MILLISECONDS) : lock.tryLock();
        } catch (RedisTimeoutException e) {
            if (e.getMessage().contains("subscription lock")) { // the time was over before it could begin to listen
                return false;
            }
            throw e;
        } catch (InterruptedException e) { // nobody does that
            throw new IllegalStateException(e);
        }
    }

    /** Lets go of a half once, if the thread has it. */
    private void release(int half) {
        if (had[half] == 0) {
            return;
        }
        had[half]--;
        tell("release", half, true, () -> {
            try {
                halves.get(half).unlock();
                return "done";
            } catch (IllegalMonitorStateException e) {
                return "lost";
            }
        });
    }

    /** Does a deed, and tells of it before and after. */
    private void tell(String kind, int half, boolean tagged, Supplier<String> deed) {
        String which = halves.size() != 2 ? "" : List.of("read", "write").get(half);
        String text = String.format("{\"Java\":true,\"Client\":%d,\"Serial\":%d,\"Lock\":\"%s\",\"Half\":\"%s\","
                        + "\"Kind\":\"%s\",\"Tag\":\"%s\",\"Until\":%d,\"Call\":%d,", client, ++serial, lock, which,
                kind, tagged ? tag : "", kind.equals("take") || !tagged ? 0 : until, System.nanoTime());
        say(text + "\"Return\":0}");
        String out = outcome(deed);
        say(text + "\"Out\":\"" + out + "\",\"Return\":" + System.nanoTime() + "}");
    }

    private String outcome(Supplier<String> deed) {
        try {
            return deed.get();
        } catch (RedisException e) {
            if (plan.tolerant) {
                return "unknown";
            }
            throw e;
        }
    }

    /** Says one line, written at once: a process that is killed has said it or not. */
    private static void say(String line) {
        try {
            OUT.write((line + "\n").getBytes(StandardCharsets.US_ASCII));
        } catch (IOException e) {
            throw new UncheckedIOException(e); // nobody listens
        }
    }

    private static int random(int n) {
        return ThreadLocalRandom.current().nextInt(n);
    }
}
