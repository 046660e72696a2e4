import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.lang.management.ManagementFactory;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.channels.FileChannel.MapMode;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLongArray;
import java.util.concurrent.locks.LockSupport;
import org.redisson.Redisson;
import org.redisson.RedissonRedLock;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/** Redisson doing what worker.go does: it obeys the lines that are described there, on the same board. */
public final class Peer {

    private static final int SHUT = 0;
    private static final int MEASURING = 2;
    private static final int PLACE = 64; // bytes of a place, and of what is before the first one
    private static final int ASKED = 0;
    private static final int TAKEN = 8;
    private static final int HOLDERS = 16;
    private static final int CROWDS = 24;
    private static final int BUCKETS = 320;

    private static final VarHandle LONG = MethodHandles.byteBufferViewVarHandle(long[].class, ByteOrder.nativeOrder());

    private static ByteBuffer board;

    private final Map<String, List<RedissonClient>> opened = new HashMap<>();
    private boolean fair;
    private boolean red; // each lock is one of all clients, which have a server each
    private List<RedissonClient> clients;

    private volatile boolean stopped;
    private final List<Thread> threads = new ArrayList<>();
    private final AtomicInteger failed = new AtomicInteger();
    private final AtomicLongArray took = new AtomicLongArray(BUCKETS);

    public static void main(String[] args) throws Exception {
        try (FileChannel file = FileChannel.open(Path.of(args[0]), StandardOpenOption.READ, StandardOpenOption.WRITE)) {
            board = file.map(MapMode.READ_WRITE, 0, file.size());
        }
        Peer peer = new Peer();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(peer.obey(line.split(" ")));
        }
        Runtime.getRuntime().halt(0);
    }

    private String obey(String[] words) throws Exception {
        switch (words[0]) {
            case "open":
                open(words[1], words[2], Long.parseLong(words[3]), Integer.parseInt(words[4]));
                return "open=1";
            case "run":
                run(Integer.parseInt(words[1]), words[2].equals("hot"), Long.parseLong(words[3]) * 1000,
                        words[4].equals("bound"), Integer.parseInt(words[5]), words[6]);
                return "running=1";
            case "stop":
                return stop();
            case "hold":
                return "held=" + hold(Integer.parseInt(words[1]), words[2]);
            case "wait":
                for (int i = 0; i < Integer.parseInt(words[1]); i++) {
                    RLock lock = lock(i, words[2] + ":" + i);
                    daemon(() -> {
                        lock.lock();
                        add(0, CROWDS, 1); // nobody releases
                    });
                }
                return "waiting=1";
            case "usage":
                var system = (com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
                return "cpu=" + system.getProcessCpuTime() / 1000;
            case "rest":
                System.gc();
                Thread.sleep(500);
                System.gc();
                Runtime memory = Runtime.getRuntime();
                return "heap=" + (memory.totalMemory() - memory.freeMemory()) + " rss=" + resident();
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    private void open(String library, String addresses, long lease, int processes) {
        fair = library.equals("Redisson_RFairLock");
        red = library.equals("Redisson_RedLock");
        String kind = library + " " + addresses + " " + lease + (processes == 1);
        clients = opened.computeIfAbsent(kind, key -> new ArrayList<>());
        String[] servers = addresses.split(",");
        int n = red ? servers.length : processes;
        while (clients.size() < n) {
            Config config = new Config().setLockWatchdogTimeout(lease);
            config.useSingleServer().setAddress("redis://" + servers[red ? clients.size() : 0]);
            if (processes > 1) { // each stands for a process with one thread, and they share this one
                config.setThreads(2).setNettyThreads(2);
                config.useSingleServer().setConnectionMinimumIdleSize(1).setSubscriptionConnectionMinimumIdleSize(1);
            }
            RedissonClient client = Redisson.create(config);
            clients.add(client);
            if (!red) {
                warm(clients.size() - 1);
            }
        }
        clients = clients.subList(0, n);
        if (red) {
            warm(0);
        }
    }

    private void warm(int i) {
        RLock warm = lock(i, "warm:" + clients.get(i).getId());
        warm.lock();
        warm.unlock();
    }

    private RLock lock(int i, String name) {
        if (red) {
            return new RedissonRedLock(clients.stream().map(client -> client.getLock(name)).toArray(RLock[]::new));
        }
        RedissonClient client = clients.get(i % clients.size());
        return fair ? client.getFairLock(name) : client.getLock(name);
    }

    private void run(int n, boolean hot, long work, boolean bound, int first, String name) {
        stopped = false;
        threads.clear();
        failed.set(0);
        for (int i = 0; i < BUCKETS; i++) {
            took.set(i, 0);
        }
        for (int i = 0; i < n; i++) {
            int place = first + i;
            RLock lock = lock(i, hot ? name : name + ":" + place);
            threads.add(daemon(() -> loop(lock, place, hot ? 0 : place, work, bound)));
        }
    }

    private static Thread daemon(Runnable task) {
        Thread thread = new Thread(task);
        thread.setDaemon(true);
        thread.start();
        return thread;
    }

    private void loop(RLock lock, int place, int flag, long work, boolean bound) {
        while (open() == SHUT && !stopped) {
            LockSupport.parkNanos(1_000_000);
        }
        while (open() != SHUT) {
            add(place, ASKED, 1);
            long began = System.nanoTime();
            try {
                if (bound) {
                    lock.lockInterruptibly();
                } else {
                    lock.lock();
                }
                if (add(flag, HOLDERS, 1) > 1 && open() != SHUT) {
                    add(flag, CROWDS, 1);
                }
                if (open() == MEASURING) {
                    double bucket = Math.log(System.nanoTime() - began) / Math.log(2) * 8;
                    took.incrementAndGet(Math.min((int) bucket, BUCKETS - 1));
                }
                if (work > 0) {
                    LockSupport.parkNanos(work);
                }
                add(place, TAKEN, 1);
                add(flag, HOLDERS, -1);
                lock.unlock();
            } catch (InterruptedException e) {
                return;
            } catch (RuntimeException e) {
                if (!stopped) {
                    failed.incrementAndGet();
                }
            }
        }
    }

    /** Waits for a few seconds: a call that hangs then is counted, and left behind. */
    private String stop() throws InterruptedException {
        stopped = true;
        long end = System.nanoTime() + 5_000_000_000L;
        int hanging = 0;
        for (Thread thread : threads) {
            thread.join(Math.max(1, Math.min(1000, (end - System.nanoTime()) / 1_000_000)));
            if (thread.isAlive()) {
                thread.interrupt();
                thread.join(1000);
            }
            hanging += thread.isAlive() ? 1 : 0;
        }
        StringBuilder answer = new StringBuilder("failed=" + failed + " hanging=" + hanging);
        for (int i = 0; i < BUCKETS; i++) {
            if (took.get(i) > 0) {
                answer.append(" took").append(i).append('=').append(took.get(i));
            }
        }
        return answer.toString();
    }

    /** Redisson renews what was locked without a lease. */
    private int hold(int n, String name) throws InterruptedException {
        AtomicInteger taken = new AtomicInteger();
        List<Thread> takers = new ArrayList<>();
        for (int g = 0; g < 16; g++) {
            int start = g;
            takers.add(daemon(() -> {
                for (int i = start; i < n; i += 16) {
                    lock(i, name + ":" + i).lock();
                    taken.incrementAndGet();
                }
            }));
        }
        for (Thread taker : takers) {
            taker.join();
        }
        return taken.get();
    }

    private static long open() {
        return (long) LONG.getVolatile(board, 0);
    }

    private static long add(int place, int field, long n) {
        return (long) LONG.getAndAdd(board, PLACE + place * PLACE + field, n) + n;
    }

    private static long resident() throws Exception {
        Path statm = Path.of("/proc/self/statm");
        return Files.exists(statm) ? Long.parseLong(Files.readString(statm).split(" ")[1]) * 4096 : 0;
    }
}
