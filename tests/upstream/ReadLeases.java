import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.RReadWriteLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/**
 * One process reads x and y for a minute. Another one reads x, is renewed, and ends without unlocking; and it reads y
 * in a multilock, with a lease. When the leases of the other one are over nobody may write, because the first one still
 * reads.
 */
public class ReadLeases {
    public static void main(String[] args) throws Exception {
        RedissonClient first = connect(args[0]), other = connect(args[0]), writer = connect(args[0]);
        for (String name : new String[] {"x", "y"}) {
            first.getReadWriteLock(name).readLock().lock(1, TimeUnit.MINUTES);
        }
        other.getReadWriteLock("x").readLock().lock();
        other.getMultiLock(other.getReadWriteLock("y").readLock(), other.getLock("z")).lock(2, TimeUnit.SECONDS);
        Thread.sleep(2_500); // it is renewed every second
        other.shutdown();
        Thread.sleep(4_500);
        for (String name : new String[] {"x", "y"}) {
            RReadWriteLock lock = writer.getReadWriteLock(name);
            if (lock.writeLock().tryLock()) {
                System.out.println("a writer beside a reader: " + name);
            }
        }
        System.out.println("done");
        System.exit(0);
    }

    private static RedissonClient connect(String address) {
        Config config = new Config();
        config.setLockWatchdogTimeout(3_000);
        config.useSingleServer().setAddress("redis://" + address);
        return Redisson.create(config);
    }
}
