package holdfast.interop;

import static java.util.Map.entry;

import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.function.BiFunction;
import org.redisson.Redisson;
import org.redisson.api.RCountDownLatch;
import org.redisson.api.RFencedLock;
import org.redisson.api.RLock;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RSemaphore;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;
import org.redisson.config.NameMapper;

/** Redisson clients by name, and calls of the methods of their objects. */
final class Clients {

    /** What can be called: the interface with the methods, and how to get an object of it. */
    private record Kind(Class<?> api, BiFunction<RedissonClient, String, Object> get) { }

    private static final Map<String, Kind> KINDS = Map.ofEntries(
            entry("rlock", new Kind(RLock.class, RedissonClient::getLock)),
            entry("fenced", new Kind(RFencedLock.class, RedissonClient::getFencedLock)),
            entry("nonreentrant", new Kind(RLock.class, RedissonClient::getNonReentrantLock)),
            entry("spin", new Kind(RLock.class, RedissonClient::getSpinLock)),
            entry("fair", new Kind(RLock.class, RedissonClient::getFairLock)),
            entry("nonreentrantfair", new Kind(RLock.class, RedissonClient::getNonReentrantFairLock)),
            entry("readlock", new Kind(RLock.class, (redisson, name) -> redisson.getReadWriteLock(name).readLock())),
            entry("writelock", new Kind(RLock.class, (redisson, name) -> redisson.getReadWriteLock(name).writeLock())),
            entry("semaphore", new Kind(RSemaphore.class, RedissonClient::getSemaphore)),
            entry("latch", new Kind(RCountDownLatch.class, RedissonClient::getCountDownLatch)),
            entry("expirable", new Kind(RPermitExpirableSemaphore.class, RedissonClient::getPermitExpirableSemaphore)));

    /** A client and its objects, which are kept: some remember the last lease, as they would in a real program. */
    private record Client(RedissonClient redisson, Map<List<String>, Object> objects) { }

    private final Map<String, Client> clients = new ConcurrentHashMap<>();

    /**
     * Makes a client. Settings: {@code addresses=redis://host:port,…}; {@code cluster=true}; {@code watchdog=millis};
     * {@code fairwait=millis}; {@code prefix=text}, for a NameMapper that puts text in front of every name.
     *
     * @return the client's uuid
     */
    String connect(String name, Map<String, String> settings) {
        // The tests need few threads and connections, and should not wait for many to start.
        Config config = new Config().setThreads(4).setNettyThreads(4);
        String[] addresses = settings.get("addresses").split(",");
        if (Boolean.parseBoolean(settings.get("cluster"))) {
            config.useClusterServers()
                    .addNodeAddress(addresses)
                    .setMasterConnectionMinimumIdleSize(1)
                    .setSlaveConnectionMinimumIdleSize(1);
        } else {
            config.useSingleServer().setAddress(addresses[0]).setConnectionMinimumIdleSize(1);
        }
        if (settings.containsKey("watchdog")) {
            config.setLockWatchdogTimeout(Long.parseLong(settings.get("watchdog")));
        }
        if (settings.containsKey("fairwait")) {
            config.setFairLockWaitTimeout(Long.parseLong(settings.get("fairwait")));
        }
        if (settings.containsKey("prefix")) {
            config.setNameMapper(prefix(settings.get("prefix")));
        }
        RedissonClient redisson = Redisson.create(config);
        clients.put(name, new Client(redisson, new ConcurrentHashMap<>()));
        return redisson.getId();
    }

    private static NameMapper prefix(String prefix) {
        return new NameMapper() {
            @Override
            public String map(String name) {
                return prefix + name;
            }

            @Override
            public String unmap(String name) {
                return name.substring(prefix.length());
            }
        };
    }

    /** Calls a method of the client's object of that kind and name. */
    Object call(String client, String kind, String name, String method, List<String> args) throws Exception {
        Client caller = clients.get(client);
        Kind called = KINDS.get(kind);
        Object object = caller.objects.computeIfAbsent(List.of(kind, name), k -> called.get.apply(caller.redisson, name));
        for (var candidate : called.api.getMethods()) {
            if (candidate.getName().equals(method)) {
                Object[] values = Arguments.fit(candidate.getParameterTypes(), args);
                if (values != null) {
                    return candidate.invoke(object, values);
                }
            }
        }
        throw new NoSuchMethodException(kind + "." + method + args);
    }

    /** Ends a client as a program does that leaves in good order; what it holds then ends with its lease. */
    void shutdown(String client) {
        clients.remove(client).redisson.shutdown(0, 2, TimeUnit.SECONDS);
    }
}
