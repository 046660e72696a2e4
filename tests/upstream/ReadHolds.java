import org.redisson.Redisson;
import org.redisson.api.RReadWriteLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/**
 * One thread holds the read locks of x and y, and the watchdog is to renew both. After one and a half leases another
 * thread reads both and goes. Then nobody may write, because the first thread still reads.
 */
public class ReadHolds {
    public static void main(String[] args) throws Exception {
        Config config = new Config();
        config.setLockWatchdogTimeout(6_000);
        config.useSingleServer().setAddress("redis://" + args[0]);
        RedissonClient redisson = Redisson.create(config);
        RReadWriteLock[] locks = {redisson.getReadWriteLock("x"), redisson.getReadWriteLock("y")};
        for (RReadWriteLock lock : locks) {
            lock.readLock().lock();
        }
        Thread.sleep(9_000);
        Thread other = new Thread(() -> {
            for (RReadWriteLock lock : locks) {
                lock.readLock().lock();
                lock.readLock().unlock();
                if (lock.writeLock().tryLock()) {
                    System.out.println("a writer beside a reader: " + lock.writeLock().getName());
                }
            }
        });
        other.start();
        other.join();
        System.out.println("done");
        System.exit(0);
    }
}
