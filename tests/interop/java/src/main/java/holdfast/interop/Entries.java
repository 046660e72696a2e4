package holdfast.interop;

import java.util.Map;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import org.redisson.api.RObject;
import org.redisson.api.RReadWriteLock;
import org.redisson.api.RedissonClient;
import org.redisson.client.codec.Codec;
import org.redisson.client.codec.LongCodec;
import org.redisson.client.codec.StringCodec;
import org.redisson.codec.JsonJacksonCodec;
import org.redisson.codec.Kryo5Codec;

/**
 * What Redisson has for an entry of a map, a value of a set or a key of a multimap. It is written
 * {@code entry|object|name|codec|type|key}, in place of a name.
 */
final class Entries {

    private static final String PREFIX = "entry|";

    private static final Map<String, String> METHODS = Map.of(
            "rlock", "getLock",
            "fair", "getFairLock",
            "readlock", "getReadWriteLock",
            "writelock", "getReadWriteLock",
            "semaphore", "getSemaphore",
            "expirable", "getPermitExpirableSemaphore",
            "latch", "getCountDownLatch");

    /** Those that take long to make. */
    private static final Map<String, Codec> CODECS = new ConcurrentHashMap<>();

    private Entries() { }

    static boolean has(String name) {
        return name.startsWith(PREFIX);
    }

    /** What the entry has of that kind, as {@link Clients} calls it. */
    static Object get(RedissonClient redisson, String kind, String entry) {
        String[] words = entry.substring(PREFIX.length()).split("\\|", 5);
        RObject object = object(redisson, words[0], words[1], codec(redisson, words[2]));
        try {
            // Each interface has the methods, but they have none in common.
            Object found = object.getClass().getMethod(METHODS.get(kind), Object.class)
                    .invoke(object, key(words[3], words[4]));
            return switch (kind) {
                case "readlock" -> ((RReadWriteLock) found).readLock();
                case "writelock" -> ((RReadWriteLock) found).writeLock();
                default -> found;
            };
        } catch (ReflectiveOperationException e) {
            throw new IllegalArgumentException(entry, e);
        }
    }

    private static RObject object(RedissonClient redisson, String object, String name, Codec codec) {
        return switch (object) {
            case "map" -> redisson.getMap(name, codec);
            case "mapcache" -> redisson.getMapCache(name, codec);
            case "set" -> redisson.getSet(name, codec);
            case "setcache" -> redisson.getSetCache(name, codec);
            case "setmultimap" -> redisson.getSetMultimap(name, codec);
            case "listmultimap" -> redisson.getListMultimap(name, codec);
            default -> throw new IllegalArgumentException("no such object: " + object);
        };
    }

    private static Codec codec(RedissonClient redisson, String codec) {
        return switch (codec) {
            case "default" -> redisson.getConfig().getCodec();
            case "string" -> StringCodec.INSTANCE;
            case "long" -> LongCodec.INSTANCE;
            default -> CODECS.computeIfAbsent(codec, Entries::make);
        };
    }

    private static Codec make(String codec) {
        return switch (codec) {
            case "json" -> new JsonJacksonCodec();
            case "kryo5" -> new Kryo5Codec();
            default -> throw new IllegalArgumentException("no such codec: " + codec);
        };
    }

    private static Object key(String type, String key) {
        return switch (type) {
            case "string" -> key;
            case "integer" -> Integer.valueOf(key);
            case "long" -> Long.valueOf(key);
            case "uuid" -> UUID.fromString(key);
            default -> throw new IllegalArgumentException("no such type: " + type);
        };
    }
}
