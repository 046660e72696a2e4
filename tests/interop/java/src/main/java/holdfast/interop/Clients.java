package holdfast.interop;

import static java.util.Map.entry;

import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.function.BiFunction;
import java.util.function.Function;
import java.util.stream.Stream;
import org.redisson.Redisson;
import org.redisson.RedissonMultiLock;
import org.redisson.RedissonRedLock;
import org.redisson.api.RCountDownLatch;
import org.redisson.api.RFencedLock;
import org.redisson.api.RLock;
import org.redisson.api.RMap;
import org.redisson.api.RPermitExpirableSemaphore;
import org.redisson.api.RSemaphore;
import org.redisson.api.RedissonClient;
import org.redisson.config.ClusterServersConfig;
import org.redisson.config.Config;
import org.redisson.config.SentinelServersConfig;
import org.redisson.config.SingleServerConfig;

/** Redisson clients by name, and calls of the methods of their objects. */
final class Clients {

    /** What can be called: the interface with the methods, and how to get an object of it, which may be on all servers. */
    private record Kind(Class<?> api, BiFunction<List<RedissonClient>, String, Object> get) {

        /** What is on one server. */
        static Kind single(Class<?> api, BiFunction<RedissonClient, String, Object> get) {
            return new Kind(api, (servers, name) -> get.apply(servers.get(0), name));
        }

        /** One lock of several: of those of all the names, which are written {@code one, two}, on all the servers. */
        static Kind several(Function<RLock[], RLock> join) {
            return new Kind(RLock.class, (servers, names) -> join.apply(Stream.of(names.split(", "))
                    .flatMap(name -> servers.stream().map(redisson -> redisson.getLock(name)))
                    .toArray(RLock[]::new)));
        }
    }

    // What older releases of Redisson do not have is called in a lambda of its own, which fails when it is used.
    private static final Map<String, Kind> KINDS = Map.ofEntries(
            entry("rlock", Kind.single(RLock.class, RedissonClient::getLock)),
            entry("fenced", Kind.single(RFencedLock.class, RedissonClient::getFencedLock)),
            entry("nonreentrant", Kind.single(RLock.class, (redisson, name) -> redisson.getNonReentrantLock(name))),
            entry("spin", Kind.single(RLock.class, RedissonClient::getSpinLock)),
            entry("fair", Kind.single(RLock.class, RedissonClient::getFairLock)),
            entry("nonreentrantfair",
                    Kind.single(RLock.class, (redisson, name) -> redisson.getNonReentrantFairLock(name))),
            entry("readlock", Kind.single(RLock.class, (redisson, name) -> redisson.getReadWriteLock(name).readLock())),
            entry("writelock", Kind.single(RLock.class, (redisson, name) -> redisson.getReadWriteLock(name).writeLock())),
            entry("multilock", Kind.several(RedissonMultiLock::new)),
            entry("redlock", Kind.several(Clients::redLock)),
            entry("semaphore", Kind.single(RSemaphore.class, RedissonClient::getSemaphore)),
            entry("map", Kind.single(RMap.class, RedissonClient::getMap)),
            entry("latch", Kind.single(RCountDownLatch.class, RedissonClient::getCountDownLatch)),
            entry("expirable", Kind.single(RPermitExpirableSemaphore.class, RedissonClient::getPermitExpirableSemaphore)));

    @SuppressWarnings("deprecation") // programs have it all the same
    private static RLock redLock(RLock... locks) {
        return new RedissonRedLock(locks);
    }

    /** A client and its objects, which are kept: some remember the last lease, as they would in a real program. */
    private record Client(List<RedissonClient> servers, Map<List<String>, Object> objects) { }

    private final Map<String, Client> clients = new ConcurrentHashMap<>();

    /**
     * Makes a client. Settings: {@code addresses=redis://host:port,…}, each of a server with a Redisson client of its own,
     * unless {@code cluster=true}; {@code timeout=millis}, of a command that is sent once; {@code watchdog=millis};
     * {@code fairwait=millis}; {@code prefix=text}, for a NameMapper that puts text in front of every name.
     *
     * @return the uuid of the client of the first server
     */
    String connect(String name, Map<String, String> settings) {
        String[] addresses = settings.get("addresses").split(",");
        boolean cluster = Boolean.parseBoolean(settings.get("cluster"));
        Stream<String[]> servers = cluster ? Stream.<String[]>of(addresses) : Stream.of(addresses).map(a -> new String[] {a});
        List<RedissonClient> connected = servers.map(nodes -> Redisson.create(config(nodes, cluster, settings))).toList();
        clients.put(name, new Client(connected, new ConcurrentHashMap<>()));
        return connected.get(0).getId();
    }

    /** {@code masters=name} is one setting more: then the nodes are Sentinels, who know the servers by that name. */
    static Config config(String[] nodes, boolean cluster, Map<String, String> settings) {
        // The tests need few threads and connections, and should not wait for many to start.
        Config config = new Config().setThreads(4).setNettyThreads(4);
        if (settings.containsKey("masters")) {
            SentinelServersConfig servers = config.useSentinelServers()
                    .setMasterName(settings.get("masters"))
                    .addSentinelAddress(nodes)
                    .setMasterConnectionMinimumIdleSize(1)
                    .setSlaveConnectionMinimumIdleSize(1);
            if (settings.containsKey("timeout")) {
                servers.setTimeout(Integer.parseInt(settings.get("timeout"))).setRetryAttempts(0);
            }
        } else if (cluster) {
            ClusterServersConfig servers = config.useClusterServers()
                    .addNodeAddress(nodes)
                    .setMasterConnectionMinimumIdleSize(1)
                    .setSlaveConnectionMinimumIdleSize(1);
            if (settings.containsKey("timeout")) {
                servers.setTimeout(Integer.parseInt(settings.get("timeout"))).setRetryAttempts(0);
            }
        } else {
            SingleServerConfig server = config.useSingleServer().setAddress(nodes[0]).setConnectionMinimumIdleSize(1);
            if (settings.containsKey("timeout")) {
                server.setTimeout(Integer.parseInt(settings.get("timeout"))).setRetryAttempts(0);
            }
        }
        if (settings.containsKey("watchdog")) {
            config.setLockWatchdogTimeout(Long.parseLong(settings.get("watchdog")));
        }
        if (settings.containsKey("fairwait")) {
            config.setFairLockWaitTimeout(Long.parseLong(settings.get("fairwait")));
        }
        if (settings.containsKey("prefix")) {
            Prefix.use(config, settings.get("prefix"));
        }
        return config;
    }

    /** Calls a method of the client's object of that kind and name. */
    Object call(String client, String kind, String name, String method, List<String> args) throws Exception {
        Object object = object(client, kind, name);
        for (var candidate : KINDS.get(kind).api.getMethods()) {
            if (candidate.getName().equals(method)) {
                Object[] values = Arguments.fit(candidate.getParameterTypes(), args);
                if (values != null) {
                    return candidate.invoke(object, values);
                }
            }
        }
        throw new NoSuchMethodException(kind + "." + method + args);
    }

    /** Takes turns at the client's lock of that kind and name; the times are written as {@link Arguments} has them. */
    List<Long> turns(String client, String kind, String name, List<String> times) throws InterruptedException {
        long[] millis = times.stream().mapToLong(t -> Long.parseLong(t.replace("ms", ""))).toArray();
        return Turns.take((RLock) object(client, kind, name), millis[0], millis[1], millis[2], millis[3]);
    }

    private Object object(String client, String kind, String name) {
        Client caller = clients.get(client);
        return caller.objects.computeIfAbsent(List.of(kind, name), k -> Entries.has(name)
                ? Entries.get(caller.servers.get(0), kind, name)
                : KINDS.get(kind).get.apply(caller.servers, name));
    }

    /** Ends a client as a program does that leaves in good order; what it holds then ends with its lease. */
    void shutdown(String client) {
        clients.remove(client).servers.forEach(redisson -> redisson.shutdown(0, 2, TimeUnit.SECONDS));
    }
}
